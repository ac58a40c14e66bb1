// Command trainspan records training jobs and reports where their time goes.
//
//	trainspan run -- python train.py          record a job
//	trainspan report                          where its time went
//	trainspan trace validate out/*.pfw.gz     check traces
//
// Its exit status is 0 on success, 1 if the data has problems and 2 after wrong
// use or if reading or writing failed. docs/reference/cli.md describes every
// command.
package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
)

func main() {
	os.Exit(realMain())
}

// realMain exists so that its deferred calls run before the process exits.
func realMain() int {
	// A signal that this process was started to ignore stays ignored, as under
	// nohup, because the command of trainspan run must inherit that.
	signals := slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, signal.Ignored)
	ctx, stop := context.WithCancel(context.Background())
	if len(signals) > 0 {
		ctx, stop = signal.NotifyContext(ctx, signals...)
	}
	defer stop()
	// The first signal ends the command regularly; a second one ends it at once.
	defer context.AfterFunc(ctx, stop)()
	return run(ctx, os.Args[1:], ui.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Lookup: os.LookupEnv})
}

// Command trainspan records training jobs and reports where their time goes.
//
//	trainspan run -- python train.py          record a job
//	trainspan report                          where its time went
//	trainspan trace validate out/*.pfw.gz     is every trace in order
//
// It ends with status 0 when all is well, 1 when the data has problems and 2
// when it was used wrongly or could not read or write. docs/reference/cli.md describes
// every command.
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
	// nohup: what trainspan run starts must inherit that.
	signals := slices.DeleteFunc([]os.Signal{os.Interrupt, syscall.SIGTERM}, signal.Ignored)
	ctx, stop := context.WithCancel(context.Background())
	if len(signals) > 0 {
		ctx, stop = signal.NotifyContext(ctx, signals...)
	}
	defer stop()
	// The first signal ends the command in order; a second one ends it at once.
	defer context.AfterFunc(ctx, stop)()
	return run(ctx, os.Args[1:], ui.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Lookup: os.LookupEnv})
}

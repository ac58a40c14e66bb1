// Charlm trains a small character-level language model on the source files of
// the Go standard library, in plain Go. It has every part of a real training
// job: workers that read from disk, data-parallel replicas with an all-reduce,
// validation, checkpoints in the foreground or in the background, resuming, and
// a test at the end.
//
//	go run ./examples/charlm -out out
//	go run ./examples/charlm -out out -resume -epochs 5
//
// It records itself: out holds a DFTracer trace of every run and a JSON-lines
// file with the records of all runs, and the spans go to an OTLP backend if
// OTEL_EXPORTER_OTLP_ENDPOINT names one. loop.go has all recorded spans: spans
// of telemetry around the phases, and in the loop over the batches spans of
// package ai and of plain OpenTelemetry. Package callbacks has a separate
// example.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/trainspan/trainspan/telemetry"
	"golang.org/x/term"
)

func main() {
	// The first signal asks the job to end after the step; the second one ends it
	// at once, because the default handler is back.
	asked, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(asked, restore)
	os.Exit(run(context.Background(), os.Args[1:], asked.Done(), os.Stdout, os.Stderr))
}

// run runs the program and returns the exit status.
func run(ctx context.Context, args []string, stop <-chan struct{}, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "charlm:", err)
		return 2
	}
	report := &reporter{out: stdout}
	if opts.progress == "on" || opts.progress == "auto" && isTerminal(stderr) {
		report.barOut = stderr
	}
	if err := train(ctx, opts, report, stop); err != nil {
		fmt.Fprintln(stderr, "charlm:", err)
		return 1
	}
	return 0
}

// train runs the job and prints its summary.
func train(ctx context.Context, opts options, report *reporter, stop <-chan struct{}) (err error) {
	began := time.Now()
	rec, err := setUpTelemetry(ctx, opts)
	if err != nil {
		return err
	}
	defer telemetry.SetDefault(rec.tel)() // for package ai, which the loader uses
	t := newTrainer(opts, report, stop)
	t.tel = rec.tel
	defer func() {
		report.end()
		err = errors.Join(err, t.close(), rec.finish(ctx, report))
	}()
	if err := t.runJob(ctx); err != nil {
		return err
	}
	report.line("step %d after %.1f s, checkpoints in %s", t.pos.Step, time.Since(began).Seconds(), t.store.Dir())
	if t.stopping() {
		report.line("stopped as asked; -resume continues")
		return nil
	}
	text, err := t.sample("// New", 240, 0.6)
	if err != nil {
		return err
	}
	report.line("\nthe model writes:\n%s", text)
	return nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Command ai_logging is the test program of DFTracer's AI logging, in Go: a
// small training job that uses every kind of node of package ai, and writes
// the trace that the original writes, record for record.
//
//	go run ./examples/ai_logging -out trace.pfw
//	go run ./examples/ai_logging -disable dataloader -out trace.pfw
//	go run ./examples/ai_logging -epoch-as-metadata -dialect v22 -out trace.pfw
//
// DFTRACER_ENABLE=0 in the environment switches tracing off altogether: then
// no file is made.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/telemetry"
)

// options are the command line.
type options struct {
	files    int
	epochs   int
	metadata bool // epochs are metadata records, not events
	disable  string
	dialect  string
	out      string
	off      bool // no tracing at all
}

func main() {
	switch err := command(os.Args[1:], os.Getenv, os.Stdout); {
	case errors.Is(err, flag.ErrHelp): // it was printed
	case err != nil:
		fmt.Fprintln(os.Stderr, "ai_logging:", err)
		os.Exit(1)
	}
}

// command is the program without the process around it.
func command(args []string, getenv func(string) string, stdout io.Writer) error {
	var o options
	fs := flag.NewFlagSet("ai_logging", flag.ContinueOnError)
	fs.IntVar(&o.files, "num-files", 2, "files of data; each is one step of an epoch")
	fs.IntVar(&o.epochs, "niter", 3, "epochs")
	fs.BoolVar(&o.metadata, "epoch-as-metadata", false, "write epochs as metadata records, not as events")
	fs.StringVar(&o.disable, "disable", "", "switch a category off: "+strings.Join(categoryNames(), ", ")+", or all")
	fs.StringVar(&o.dialect, "dialect", "v2", "dialect of the trace: v1, v2 or v22")
	fs.StringVar(&o.out, "out", "trace.pfw", "trace file; .pfw.gz compresses it")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if o.files < 0 || o.epochs < 0 {
		return fmt.Errorf("-num-files %d and -niter %d must not be negative", o.files, o.epochs)
	}
	if _, err := traceOptions(o.dialect); err != nil {
		return err
	}
	switch strings.ToLower(getenv("DFTRACER_ENABLE")) {
	case "0", "false", "off", "no":
		o.off = true
	}
	return run(context.Background(), o, stdout)
}

// run does the job with tracing around it.
func run(ctx context.Context, o options, stdout io.Writer) (err error) {
	tel, err := newTelemetry(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if e := tel.Shutdown(ctx); err == nil {
			err = e
		}
	}()
	tree := ai.NewTree(tel)
	if err := disable(tree, o.disable); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ai_logging")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	j, err := newJob(tree, o, dir)
	if err != nil {
		return err
	}
	if err := j.main(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%d epochs of %d steps, loss %.4f\n", o.epochs, o.files, j.loss)
	return err
}

// newTelemetry sets tracing up. When it is off, the provider does nothing and
// the file is not made.
func newTelemetry(ctx context.Context, o options) (*telemetry.Provider, error) {
	b := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(config.Base{
		ApplicationName:      "ai_logging",
		SessionTag:           config.Value("ai_logging"),
		WorldSize:            config.Value(1),
		EnableForCurrentRank: config.Value(!o.off),
	})
	if !o.off {
		format, err := traceOptions(o.dialect)
		if err != nil {
			return nil, err
		}
		trace, err := pfw.Create(o.out, &pfw.Options{
			NoBegin: true, // the original has no records of spans that have begun
			Trace:   format,
		})
		if err != nil {
			return nil, err
		}
		b.WithSpanProcessor(trace)
	}
	return b.ConfigureProvider(ctx)
}

func traceOptions(dialect string) (*dftracer.Options, error) {
	switch strings.ToLower(dialect) {
	case "v1":
		return &dftracer.Options{Dialect: dftracer.V1}, nil
	case "v2":
		return &dftracer.Options{Dialect: dftracer.V2}, nil
	case "v22":
		// That generation of the original deletes a file without events.
		return &dftracer.Options{Dialect: dftracer.V22, RemoveEmpty: true}, nil
	}
	return nil, fmt.Errorf("-dialect %s: want v1, v2 or v22", dialect)
}

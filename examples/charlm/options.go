package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/trainspan/trainspan/examples/charlm/internal/data"
	"github.com/trainspan/trainspan/examples/charlm/internal/model"
)

// options holds the flags of one run.
type options struct {
	out      string
	text     string
	epochs   int
	steps    int // per epoch; zero is one pass over every file
	batch    int
	context  int
	embed    int
	hidden   int
	layers   int
	workers  int
	replicas int
	lr       float64
	seed     uint64

	asyncCheckpoint bool
	checkpointEvery int // steps; zero saves only at the end
	keep            int
	validateEvery   int // steps; zero validates at the end of every epoch
	validateSteps   int // batches per validation
	testSteps       int
	resume          bool
	fresh           bool
	telemetry       string
	progress        string
}

// modelConfig returns the shape of the model.
func (o *options) modelConfig() model.Config {
	return model.Config{Vocab: data.Vocab, Context: o.context, Embed: o.embed, Hidden: o.hidden, Layers: o.layers}
}

// parseOptions reads args. The error of a bad or missing value names its flag;
// flag.ErrHelp means that the usage was requested and printed.
func parseOptions(args []string, usage io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("charlm", flag.ContinueOnError)
	f.SetOutput(usage)
	f.StringVar(&o.out, "out", "out", "`directory` for checkpoints and everything else the run writes")
	f.StringVar(&o.text, "text", "", "text `file`, or directory of Go files, to train on (default: the Go standard library)")
	f.IntVar(&o.epochs, "epochs", 3, "epochs to train")
	f.IntVar(&o.steps, "steps", 400, "steps per epoch; 0 reads every file once")
	f.IntVar(&o.batch, "batch", 128, "samples per step, over all replicas")
	f.IntVar(&o.context, "context", 10, "characters the model sees")
	f.IntVar(&o.embed, "embed", 24, "numbers per embedded character")
	f.IntVar(&o.hidden, "hidden", 256, "width of the hidden layers")
	f.IntVar(&o.layers, "layers", 2, "number of hidden layers")
	f.IntVar(&o.workers, "workers", 2, "goroutines that read text ahead")
	f.IntVar(&o.replicas, "replicas", 2, "model replicas that train in parallel")
	f.Float64Var(&o.lr, "lr", 0.002, "learning rate")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the weights, the split and the order of the data")
	f.BoolVar(&o.asyncCheckpoint, "async-checkpoint", false, "write checkpoints in the background")
	f.IntVar(&o.checkpointEvery, "checkpoint-every", 200, "steps between checkpoints; 0 saves only at the end")
	f.IntVar(&o.keep, "keep", 3, "newest checkpoints to keep; 0 keeps all")
	f.IntVar(&o.validateEvery, "validate-every", 200, "steps between validations; 0 validates after every epoch")
	f.IntVar(&o.validateSteps, "validate-steps", 10, "batches per validation")
	f.IntVar(&o.testSteps, "test-steps", 20, "batches of the test at the end")
	f.BoolVar(&o.resume, "resume", false, "continue from the newest checkpoint in -out")
	f.BoolVar(&o.fresh, "fresh", false, "remove the checkpoints and the telemetry in -out and start anew")
	f.StringVar(&o.telemetry, "telemetry", "on", "record the run: on or off")
	f.StringVar(&o.progress, "progress", "auto", "progress bar: auto (on a terminal), on or off")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, o.validate()
}

// validate reports every bad value at once.
func (o *options) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, v := range []struct {
		name       string
		got, least int
	}{
		{"epochs", o.epochs, 0}, {"steps", o.steps, 0}, {"batch", o.batch, 1}, {"context", o.context, 1},
		{"embed", o.embed, 1}, {"hidden", o.hidden, 1}, {"layers", o.layers, 1}, {"workers", o.workers, 1},
		{"replicas", o.replicas, 1}, {"checkpoint-every", o.checkpointEvery, 0}, {"keep", o.keep, 0},
		{"validate-every", o.validateEvery, 0}, {"validate-steps", o.validateSteps, 0}, {"test-steps", o.testSteps, 0},
	} {
		if v.got < v.least {
			bad("-%s is %d, want at least %d", v.name, v.got, v.least)
		}
	}
	if o.batch >= 1 && o.replicas > o.batch {
		bad("-replicas is %d for a -batch of %d, want at least one sample each", o.replicas, o.batch)
	}
	if !(o.lr > 0 && o.lr < 1) {
		bad("-lr is %g, want between 0 and 1", o.lr)
	}
	if o.out == "" {
		bad("-out is empty, want a directory")
	}
	if o.resume && o.fresh {
		bad("-resume and -fresh exclude each other")
	}
	if o.telemetry != "on" && o.telemetry != "off" {
		bad("-telemetry is %q, want on or off", o.telemetry)
	}
	if !slices.Contains([]string{"auto", "on", "off"}, o.progress) {
		bad("-progress is %q, want auto, on or off", o.progress)
	}
	return errors.Join(errs...)
}

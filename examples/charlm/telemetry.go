package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

// recording is the telemetry of one run and its outputs.
type recording struct {
	tel     *telemetry.Provider // nil if telemetry is off
	records string              // path of the JSON lines, empty without them
	trace   string              // path of the trace, empty without one
	otlp    string              // URL of the OTLP backend, empty without one
}

// setUpTelemetry returns the provider for the job with opts. The file named by
// TRAINSPAN_CONFIG and the environment take precedence; opts has the defaults.
func setUpTelemetry(ctx context.Context, opts options) (*recording, error) {
	if opts.telemetry == "off" {
		return &recording{}, nil
	}
	cfg, err := config.Load(config.LoadOptions{Partial: true})
	if err != nil {
		return nil, err
	}
	if err := describeJob(&cfg, opts); err != nil {
		return nil, err
	}
	r := &recording{}
	if r.tel, err = trainspan.Start(ctx, trainspan.WithConfig(cfg)); err != nil {
		return nil, err
	}
	if !r.tel.Enabled() {
		return r, nil // nothing is recorded for this rank
	}
	out, rank := &cfg.Outputs, strconv.Itoa(cfg.Ranks.Rank.Or(0))
	if out.File.Enabled.Or(true) {
		r.records = strings.ReplaceAll(out.File.Path, "{rank}", rank)
	}
	if out.Trace.Enabled.Or(true) {
		r.trace = strings.ReplaceAll(out.Trace.Path, "{rank}", rank)
	}
	if out.OTLP.Enabled.Or(out.OTLP.Endpoint != "" || out.OTLP.TracesEndpoint != "") && !cfg.OTel.SDKDisabled.Or(false) {
		r.otlp = out.OTLP.TracesURL()
	}
	return r, nil
}

// describeJob sets the values that neither the file nor the environment has.
func describeJob(cfg *config.Config, opts options) error {
	out, err := filepath.Abs(opts.out)
	if err != nil {
		return err
	}
	if cfg.ApplicationName == "" {
		cfg.ApplicationName = "charlm"
	}
	setDefault(&cfg.SessionTag, filepath.Base(out))
	setDefault(&cfg.WorldSize, 1) // the replicas are goroutines of this one rank
	if cfg.Training == nil {
		cfg.Training = &config.Training{}
	}
	t := cfg.Training
	if !t.PerfTags.IsSet() {
		setDefault(&t.PerfTag, fmt.Sprintf("charlm-%dx%d-batch%d", opts.layers, opts.hidden, opts.batch))
	}
	setDefault(&t.GlobalBatchSize, opts.batch)
	setDefault(&t.MicroBatchSize, opts.batch/opts.replicas)
	setDefault(&t.SeqLength, 1) // a sample predicts one character
	setDefault(&t.FlopsPerSample, int(opts.modelConfig().FLOPsPerSample()))
	setDefault(&t.IsLogThroughputEnabled, true)
	if opts.steps > 0 { // otherwise it is known after the text is read
		setDefault(&t.TrainIterationsTarget, opts.epochs*opts.steps)
		setDefault(&t.TrainSamplesTarget, opts.epochs*opts.steps*opts.batch)
	}
	if opts.asyncCheckpoint {
		t.SaveCheckpointStrategy = config.CheckpointAsync
	} else {
		t.SaveCheckpointStrategy = config.CheckpointSync
	}
	if cfg.Export.UsesDefaultNames() {
		// The trace has every span; the JSON lines leave out those of every step.
		cfg.Export.SpanNames = append(spans.DefaultBlacklist(), "transfer", "all_reduce", "item", "preprocess")
	}
	return placeOutputs(&cfg.Outputs, opts)
}

func setDefault[T any](v *config.Var[T], value T) {
	if !v.IsSet() {
		*v = config.Value(value)
	}
}

// placeOutputs puts outputs without a path into -out: records are appended to
// one file, and every run has a separate trace. -fresh removes those of earlier
// runs.
func placeOutputs(outs *config.Outputs, opts options) error {
	records := filepath.Join(opts.out, "telemetry-0.jsonl")
	if outs.File.Path == "" {
		outs.File.Path = filepath.Join(opts.out, "telemetry-{rank}.jsonl")
		outs.File.Append = config.Value(true)
	}
	if opts.fresh {
		if err := os.Remove(records); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	trace, err := nextTrace(opts.out, opts.fresh)
	if outs.Trace.Path == "" {
		outs.Trace.Path = trace
	}
	return err
}

// nextTrace returns the first of trace.pfw.gz, trace-2.pfw.gz, trace-3.pfw.gz, ...
// in dir that does not exist, or that remove has removed.
func nextTrace(dir string, remove bool) (string, error) {
	for n := 1; ; n++ {
		path := tracePath(dir, n)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			if remove {
				path = tracePath(dir, 1)
			}
			return path, nil
		} else if err != nil {
			return "", err
		}
		if remove {
			if err := os.Remove(path); err != nil {
				return "", err
			}
		}
	}
}

func tracePath(dir string, n int) string {
	if n == 1 {
		return filepath.Join(dir, "trace.pfw.gz")
	}
	return filepath.Join(dir, fmt.Sprintf("trace-%d.pfw.gz", n))
}

// loopStart returns the first and the last step of the training for telemetry.
func (t *trainer) loopStart() telemetry.LoopStart {
	steps := t.opts.epochs * t.stepsPerEpoch
	return telemetry.LoopStart{
		IterationsStart:  int(t.pos.Step),
		IterationsTarget: config.Value(steps),
		SamplesTarget:    config.Value(steps * t.opts.batch),
	}
}

// finish writes and sends all buffered records, prints the paths and URLs of
// the outputs, and prints how the time was used.
func (r *recording) finish(ctx context.Context, report *reporter) error {
	if r.tel == nil {
		return nil
	}
	if err := r.tel.Shutdown(ctx); err != nil {
		// The training is complete; only its record may have gaps.
		report.line("telemetry: %v", err)
	}
	if r.records != "" {
		report.line("records  %s", r.records)
	}
	if r.otlp != "" {
		stats := r.tel.Stats()
		report.line("spans    %s, %d sent, %d lost", r.otlp, stats.ExportedSpans, stats.DroppedSpans)
	}
	if r.trace == "" {
		return nil
	}
	report.line("trace    %s\n", r.trace)
	categories, run, err := summarize(r.trace)
	if err != nil {
		return err
	}
	return printSummary(report.out, categories, run)
}

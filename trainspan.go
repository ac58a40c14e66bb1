// Package trainspan records where the time of an AI training job goes. [Start]
// reads the environment and a configuration file, fills in defaults, and begins
// to record:
//
//	tel, err := trainspan.Start(ctx)
//	if err != nil {
//		log.Print(err) // the training goes on without telemetry
//	}
//	defer tel.Shutdown(ctx)
//
//	ctx, app := tel.Start(ctx, spans.Application)
//	defer app.End()
//
// The provider that it returns is described in package telemetry, with the
// styles in which a program can report what it does. Options such as
// [WithConfig] set the configuration in code. A program that sets every part
// itself uses the builder of package telemetry.
package trainspan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/environ"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/safelog"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/record/setup"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel"
)

// DirVariable is the environment variable with the directory for the files of a
// run.
const DirVariable = environ.Dir

// attrRecorded is a resource attribute for the receiver of trainspan run: the
// program writes its spans to files itself.
const attrRecorded = "trainspan.recorded"

// Option sets a part of the configuration in code. Code takes precedence over
// the environment, and the environment over the configuration file. Of two
// options for the same setting the later has priority.
type Option func(*choices)

// choices holds the options.
type choices struct {
	code    config.Config
	dir     string
	outputs []output
	logger  *slog.Logger
}

type output struct {
	out    telemetry.Output
	filter []config.Export
}

// WithName names the job. The default is the configured name or, without one,
// the name of the program's file.
func WithName(name string) Option { return func(s *choices) { s.code.ApplicationName = name } }

// WithTraining describes the training: its batch size, targets and cost. An
// unset field is unknown, and metrics that need it are not reported.
func WithTraining(t config.Training) Option { return func(s *choices) { s.code.Training = &t } }

// WithConfig sets any field of the configuration. Later options win.
func WithConfig(c config.Config) Option { return func(s *choices) { s.code = config.Clone(&c) } }

// WithDir sets the directory for the files of this run. The default is the
// variable TRAINSPAN_DIR and, without it,
// trainspan-runs/NAME/attempt-N/HOST-PID below the working directory.
func WithDir(dir string) Option { return func(s *choices) { s.dir = dir } }

// WithOutput adds an output, with at most one filter, like
// telemetry.TrainingTelemetryBuilder.WithExporter.
func WithOutput(out telemetry.Output, filter ...config.Export) Option {
	return func(s *choices) { s.outputs = append(s.outputs, output{out, filter}) }
}

// WithLogger sets the logger for telemetry's own messages. The default is
// slog's default handler.
func WithLogger(l *slog.Logger) Option { return func(s *choices) { s.logger = l } }

// Start begins to record, as configured by the environment and by the file that
// TRAINSPAN_CONFIG names. If they name no file and the code gives no output, a trace
// (trace.pfw.gz) and JSON lines (telemetry.jsonl) are written to a directory of this run,
// see [WithDir], whether or not spans are also sent. A program without a launcher is rank 0
// of 1. The provider becomes the default provider of package telemetry. Its tracer provider
// becomes OpenTelemetry's global one, and so does its meter provider if metrics are exported.
//
// On an error the provider is nil, and every method of a nil Provider is a no-op: a job
// can log the error and train without telemetry.
func Start(ctx context.Context, options ...Option) (_ *telemetry.Provider, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = failed(fmt.Errorf("a configuration function panicked: %v", p))
		}
	}()
	if ctx == nil {
		ctx = context.Background()
	}
	var s choices
	for _, o := range options {
		if o != nil {
			o(&s)
		}
	}
	cfg, err := config.Load(config.LoadOptions{Code: s.code, Partial: true})
	if err != nil {
		return nil, failed(err)
	}
	cfg.ApplicationName = cmp.Or(cfg.ApplicationName, cfg.OTel.ServiceName, programName())
	if cfg.Training == nil {
		cfg.Training = &config.Training{}
	}
	if cfg.Ranks, err = settings.Ranks(cfg.Ranks, os.LookupEnv); err != nil {
		return nil, failed(err)
	}
	if cfg.EnableForCurrentRank.Or(true) {
		if err := s.placeFiles(&cfg); err != nil {
			return nil, failed(err)
		}
	}
	b, made, err := setup.NewBuilder(ctx, cfg, &setup.Options{Logger: s.logger})
	if err != nil {
		return nil, failed(err)
	}
	for _, o := range s.outputs {
		b.WithExporter(o.out, o.filter...)
	}
	tel, err := b.ConfigureProvider(ctx)
	if err != nil {
		return nil, failed(errors.Join(err, made.Close(ctx)))
	}
	telemetry.SetDefault(tel)
	otel.SetTracerProvider(tel.TracerProvider())
	if made.Metrics != nil {
		otel.SetMeterProvider(made.Metrics.MeterProvider())
	}
	return tel, nil
}

// failed adds the help topic to an error of Start.
func failed(err error) error { return fmt.Errorf("trainspan: %w; see %s", err, helptopic.Start) }

func programName() string {
	path, err := os.Executable()
	if err != nil {
		return "training"
	}
	return strings.TrimSuffix(filepath.Base(path), ".exe")
}

// placeFiles makes a directory for the run and puts its files there, unless the
// configuration sets other paths or no files, or the program has an output of
// its own. The address of a backend does not replace the files: a cluster may
// set it for all its jobs.
func (s *choices) placeFiles(cfg *config.Config) error {
	out := &cfg.Outputs
	asked := settings.FileActive(cfg) || settings.TraceActive(cfg)
	dir := s.dir
	if dir == "" {
		dir = dirOfVariable()
	}
	if dir == "" && (asked || len(s.outputs) > 0) {
		return nil
	}
	file, trace := out.File.Path == "" && out.File.Enabled.Or(true), out.Trace.Path == "" && out.Trace.Enabled.Or(true)
	if !file && !trace {
		return nil
	}
	if dir == "" {
		var err error
		if dir, err = s.runDir(cfg); err != nil {
			if !settings.OTLPActive(cfg) {
				return err
			}
			safelog.New(s.logger).Warn("telemetry cannot create files for this run; it is only sent", "error", err, "see", helptopic.File)
			return nil
		}
	}
	if file {
		out.File.Path = filepath.Join(dir, "telemetry.jsonl")
	}
	if trace {
		out.Trace.Path = filepath.Join(dir, "trace.pfw.gz")
		if above := os.Getenv(environ.Run); above != "" && dir == dirOfVariable() && settings.OTLPActive(cfg) {
			cfg.OTel.ResourceAttributes = cfg.OTel.ResourceAttributes.With(attrRecorded, above)
			receiverOnly(&out.OTLP)
		}
	}
	return nil
}

func dirOfVariable() string { return strings.TrimSpace(os.Getenv(DirVariable)) }

// receiverOnly restricts OTLP to spans if the only address is the receiver of
// trainspan run, which accepts nothing else.
func receiverOnly(o *config.OTLP) {
	if o.Endpoint != "" {
		return
	}
	if o.LogsEndpoint == "" && !o.Logs.IsSet() {
		o.Logs = config.Value(false)
	}
	if o.MetricsEndpoint == "" && !o.Metrics.IsSet() {
		o.Metrics = config.Value(false)
	}
}

// runDir makes trainspan-runs/NAME/attempt-N/HOST-PID. All ranks of a start of
// a job share N, and no two starts do: N is the next number, at least the
// launcher's count. Code and TRAINSPAN_ATTEMPT can set it. Several ranks
// without a common id share attempt-1.
func (s *choices) runDir(cfg *config.Config) (string, error) {
	id, ranks := settings.Identity(outputs.Identity{}, &cfg.Base, cfg.Ranks), &cfg.Ranks
	w := rundir.Wanted{Name: cfg.ApplicationName, Attempt: -1, Host: id.Host, PID: id.PID}
	w.Under(ranks, os.Getppid(), os.LookupEnv)
	if w.Attempt < 0 && (s.code.Ranks.Attempt.IsSet() || w.Start == "" && ranks.WorldSize.Or(1) > 1) {
		w.Attempt = w.Least
	}
	place, err := w.Make()
	if err == nil && w.Attempt < 0 {
		ranks.Attempt = config.Value(place.Attempt)
	}
	return place.Dir, err
}

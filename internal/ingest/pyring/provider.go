package pyring

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/record/setup"
	"github.com/trainspan/trainspan/telemetry"
)

// settings returns the configuration of a process, including the program's own,
// and whether it could be read.
func (p *source) settings(code config.Config) (cfg config.Config, read bool) {
	if p.o.Config == nil {
		return code, false
	}
	cfg, err := p.o.Config(code)
	if err != nil {
		p.log.Warn("invalid configuration: spans of Python processes are not sent", "error", err, "see", helptopic.Start)
		return code, false
	}
	// The drain sets the paths of files. The program sets the form of JSON lines.
	cfg.Outputs.File.Path, cfg.Outputs.Trace = "", config.Trace{}
	cfg.Logger.InfoPath, cfg.Logger.ErrorPath = "", ""
	return cfg, true
}

// provider makes the provider of a process, with the outputs of the
// configuration and those that add adds. If one output cannot be made, the
// others still are; if the configuration is invalid, the program's settings are
// used alone. It logs nothing once ending is set. Without add, which adds
// outputs for callbacks, there are no metrics.
func (p *source) provider(cfg, code config.Config, ending *atomic.Bool, clock func() time.Time, add func(*telemetry.TrainingTelemetryBuilder)) (*telemetry.Provider, error) {
	if add == nil {
		add = func(*telemetry.TrainingTelemetryBuilder) {}
		cfg.Outputs.Prometheus, cfg.Outputs.OTLP.Metrics = config.Prometheus{}, config.Value(false)
	}
	for alone := false; ; {
		tel, err := p.configured(cfg, ending, clock, add)
		switch {
		case err == nil:
			return tel, nil
		case settings.PrometheusActive(&cfg):
			cfg.Outputs.Prometheus = config.Prometheus{}
		case settings.OTLPActive(&cfg):
			cfg.Outputs.OTLP = config.OTLP{}
		case !alone && p.o.Config != nil:
			cfg, alone = code, true
		default:
			return nil, err
		}
		p.log.Warn("cannot open an output for a Python process", "error", err, "see", helptopic.Start)
	}
}

// configured makes a provider from a configuration.
func (p *source) configured(cfg config.Config, ending *atomic.Bool, clock func() time.Time, add func(*telemetry.TrainingTelemetryBuilder)) (*telemetry.Provider, error) {
	id := p.id
	id.ApplicationName, id.SessionTag = "", ""
	if p.id.WorldSize.Or(0) > 0 && !cfg.WorldSize.IsSet() {
		cfg.WorldSize = p.id.WorldSize
	}
	tag := ""
	if p.o.Trace != nil {
		tag = p.o.Trace.Process.SessionTag
	}
	if !cfg.SessionTag.IsSet() && tag != "" {
		cfg.SessionTag = config.Value(tag)
	}
	cfg.ApplicationName = cmp.Or(cfg.ApplicationName, tag, "python")
	// Errors here are the program's, which were not refused there.
	cfg.ErrorStrategy = config.PropagateErrors
	cfg.ExplicitTimeWindow = -1 // the client has checked the times that it checks
	cfg.Outputs.File = config.File{}
	cfg.Warnings = nil // already logged for the configuration
	cfg.Ranks = id.Ranks
	cfg.Ranks.WorldSize = cfg.WorldSize
	ctx := context.Background()
	b, made, err := setup.NewBuilder(ctx, cfg, &setup.Options{OTLP: p.o.OTLP, Identity: id, Logger: slog.New(quiet{p.log.Handler(), ending})})
	if err != nil {
		return nil, err
	}
	b.WithParent(p.o.Parent).WithClock(clock)
	add(b)
	tel, err := b.ConfigureProvider(ctx)
	if err != nil {
		_ = made.Close(ctx) // the earlier error matters
		return nil, err
	}
	return tel, nil
}

// quiet only passes errors of a replay on: misuse is in the program's records,
// and losses are counted.
type quiet struct {
	slog.Handler
	killed *atomic.Bool
}

func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelError && !q.killed.Load() && q.Handler.Enabled(ctx, l)
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	network := false
	r.Attrs(func(a slog.Attr) bool {
		network = a.Key == "network" && a.Value.Kind() == slog.KindBool && a.Value.Bool()
		return !network
	})
	if network {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

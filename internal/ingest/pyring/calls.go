package pyring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/telemetry"
)

// calls replays the callbacks of a process to the same recorder as for Go
// programs, with a clock that shows the time of each call.
type calls struct {
	now   atomic.Int64
	log   *slog.Logger
	tel   *telemetry.Provider
	cb    *callbacks.Callbacks
	sent  config.Export  // what is sent over a network
	lines *file.Exporter // nil if the configuration has none
	own   map[int64]*telemetry.Span
	n     int64
	ended bool

	given  values   // the arguments of configure_provider
	answer sync.Map // the last results of configuration functions, by field
	opened bool

	killed atomic.Bool // spans that end now are not written any more
}

// values are the arguments of a callback by one-logger's names.
type values map[string]any

func (v values) number(key string) (float64, bool) {
	n, ok := v[key].(float64)
	return n, ok
}

// whole returns a number as an int; numbers that do not fit are 0.
func (v values) whole(key string) int {
	n, _ := v.number(key)
	if n < -1<<53 || n > 1<<53 {
		return 0
	}
	return int(n)
}

func (v values) opt(key string) config.Var[int] {
	if _, ok := v.number(key); !ok {
		return config.Var[int]{}
	}
	return config.Value(v.whole(key))
}

// timeOf returns a time in milliseconds, or the time of the call.
func (v values) timeOf(key string, call int64) time.Time {
	if ms, ok := v.number(key); ok && ms > 0 && ms < 1e15 {
		whole := int64(ms)
		return time.UnixMilli(whole).Add(time.Duration((ms - float64(whole)) * 1e6))
	}
	return time.Unix(0, call)
}

// asked replaces each configuration field that is a function by a function that
// returns its last value. Fields without a value yet are left out.
func (c *calls) asked(m map[string]any, prefix string) map[string]any {
	names, _ := m["functions"].([]any)
	delete(m, "functions")
	for _, name := range names {
		name, _ := name.(string)
		key := prefix + name
		if was, ok := m[name]; ok {
			c.answer.LoadOrStore(key, was)
		}
		if _, ok := c.answer.Load(key); ok {
			m[name] = func() any { value, _ := c.answer.Load(key); return value }
		}
	}
	return m
}

// base returns the configuration passed to configure_provider.
func (c *calls) base() (base config.Base) {
	m, ok := c.given["base_config"].(map[string]any)
	if !ok {
		return base
	}
	if t, ok := m["telemetry_config"].(map[string]any); ok {
		c.asked(t, trainingPrefix)
	}
	base, unknown, err := config.Decode[config.Base](c.asked(m, ""), "")
	c.report(unknown, err)
	return base
}

// report logs problems of a configuration; telemetry continues without the
// invalid parts.
func (c *calls) report(unknown []config.Problem, err error) {
	for _, p := range unknown {
		c.log.Warn("ignored a setting of a Python process", "setting", p.String(), "see", helptopic.PythonCalls)
	}
	if err != nil {
		c.log.Warn("invalid configuration of a Python process", "error", err, "see", helptopic.PythonCalls)
	}
}

// trainingPrefix is the prefix of the fields of the training configuration.
const trainingPrefix = "telemetry_config."

// export returns the export customization of the program, if it has one.
func (c *calls) export() (e config.Export, ok bool) {
	e.Mode, ok = c.given["export_customization_mode"].(string)
	names, _ := c.given["span_name_filter"].([]any)
	for _, n := range names {
		if n, ok := n.(string); ok {
			e.SpanNames = append(e.SpanNames, n)
		}
	}
	if ok && settings.Validate(&config.Config{Export: e}, "export.", "") != nil {
		return config.Export{}, false
	}
	return e, ok
}

// open makes the provider.
func (c *calls) open(p *source) error {
	code := config.Config{Base: c.base()}
	export, customized := c.export()
	code.Export = export
	p.news() // updates the identity
	cfg, _ := p.settings(code)
	ours := config.Export{Mode: config.ExportAll}
	if customized {
		ours = cfg.Export
	}
	if lines := cfg.Outputs.File; lines.Enabled.Or(true) {
		path := filepath.Join(p.o.Out, fmt.Sprintf("telemetry-%d.jsonl", p.id.PID))
		c.lines = file.New(path, &file.Options{Heartbeat: -1, Compat: lines.Compat.Or(false)})
	}
	clock := func() time.Time { return time.Unix(0, c.now.Load()) }
	tel, err := p.provider(cfg, code, &c.killed, clock, func(b *telemetry.TrainingTelemetryBuilder) {
		if c.lines != nil {
			b.WithExporter(c.lines, ours)
		}
	})
	if err != nil {
		return err
	}
	c.tel, c.cb, c.sent = tel, callbacks.New(tel), cfg.Export
	if c.lines != nil {
		p.wrote(c.lines.Path())
	}
	return nil
}

// phases are the callbacks whose only parameter is a time.
var phases = map[string]func(*callbacks.Callbacks, context.Context, time.Time, error) error{
	"on_app_start":                         begin((*callbacks.Callbacks).OnAppStart),
	"on_distributed_init_start":            begin((*callbacks.Callbacks).OnDistributedInitStart),
	"on_distributed_init_end":              end((*callbacks.Callbacks).OnDistributedInitEnd),
	"on_model_init_start":                  begin((*callbacks.Callbacks).OnModelInitStart),
	"on_model_init_end":                    end((*callbacks.Callbacks).OnModelInitEnd),
	"on_dataloader_init_start":             begin((*callbacks.Callbacks).OnDataLoaderInitStart),
	"on_dataloader_init_end":               end((*callbacks.Callbacks).OnDataLoaderInitEnd),
	"on_optimizer_init_start":              begin((*callbacks.Callbacks).OnOptimizerInitStart),
	"on_optimizer_init_end":                end((*callbacks.Callbacks).OnOptimizerInitEnd),
	"on_load_checkpoint_start":             begin((*callbacks.Callbacks).OnLoadCheckpointStart),
	"on_load_checkpoint_end":               end((*callbacks.Callbacks).OnLoadCheckpointEnd),
	"on_train_end":                         end((*callbacks.Callbacks).OnTrainEnd),
	"on_training_single_iteration_start":   begin((*callbacks.Callbacks).OnTrainingSingleIterationStart),
	"on_validation_start":                  begin((*callbacks.Callbacks).OnValidationStart),
	"on_validation_end":                    end((*callbacks.Callbacks).OnValidationEnd),
	"on_validation_single_iteration_start": begin((*callbacks.Callbacks).OnValidationSingleIterationStart),
	"on_validation_single_iteration_end":   end((*callbacks.Callbacks).OnValidationSingleIterationEnd),
	"on_testing_start":                     begin((*callbacks.Callbacks).OnTestingStart),
	"on_testing_end":                       end((*callbacks.Callbacks).OnTestingEnd),
	"on_save_checkpoint_end":               end((*callbacks.Callbacks).OnSaveCheckpointEnd),
}

func begin(f func(*callbacks.Callbacks, context.Context, ...callbacks.Start) (context.Context, error)) func(*callbacks.Callbacks, context.Context, time.Time, error) error {
	return func(c *callbacks.Callbacks, ctx context.Context, at time.Time, _ error) error {
		_, err := f(c, ctx, callbacks.Start{Time: at})
		return err
	}
}

func end(f func(*callbacks.Callbacks, context.Context, ...callbacks.End) error) func(*callbacks.Callbacks, context.Context, time.Time, error) error {
	return func(c *callbacks.Callbacks, ctx context.Context, at time.Time, failure error) error {
		return f(c, ctx, callbacks.End{Time: at, Err: failure})
	}
}

func (c *calls) replay(name string, at int64, v values, args []byte) error {
	ctx := context.Background()
	if f := phases[name]; f != nil {
		key := "finish_time_msec"
		if _, ok := v["start_time_msec"]; ok {
			key = "start_time_msec"
		}
		return f(c.cb, ctx, v.timeOf(key, at), v.failure())
	}
	switch name {
	case "set_training_telemetry_config":
		given := maps.Clone(v)
		delete(given, "line") // a line of the program
		t, unknown, err := config.Decode[config.Training](c.asked(given, trainingPrefix), "")
		c.report(unknown, err)
		return errors.Join(err, c.tel.SetTrainingConfig(t))
	case "on_app_end":
		c.ended = true
		return c.cb.OnAppEnd(ctx, callbacks.End{Time: v.timeOf("finish_time_msec", at), Err: v.failure()})
	case "on_train_start":
		_, err := c.cb.OnTrainStart(ctx, callbacks.TrainStart{
			Time: v.timeOf("start_time_msec", at), IterationsStart: v.whole("train_iterations_start"), SamplesStart: v.opt("train_samples_start"),
			IterationsTarget: v.opt("train_iterations_target_or_fn"), SamplesTarget: v.opt("train_samples_target_or_fn"),
		})
		return err
	case "on_training_single_iteration_end":
		o := callbacks.IterationEnd{Time: v.timeOf("finish_time_msec", at), Err: v.failure()}
		if loss, ok := v.number("loss"); ok {
			o.Loss = callbacks.Some(loss)
		}
		return c.cb.OnTrainingSingleIterationEnd(ctx, o)
	case "on_save_checkpoint_start":
		_, err := c.cb.OnSaveCheckpointStart(ctx, callbacks.SaveStart{Time: v.timeOf("start_time_msec", at), GlobalStep: v.whole("global_step")})
		return err
	case "on_save_checkpoint_success":
		return c.cb.OnSaveCheckpointSuccess(ctx, callbacks.SaveSuccess{Time: v.timeOf("time_msec", at), GlobalStep: v.whole("global_step")})
	}
	return c.replayOwn(name, args)
}

// close ends the outputs. If the process was killed, its records must not
// contain the ends of its spans: the file is closed first.
func (c *calls) close(ctx context.Context, killed bool) {
	if c == nil || c.tel == nil {
		return
	}
	if killed && !c.ended {
		c.killed.Store(true)
		if c.lines != nil {
			if err := c.lines.Shutdown(ctx); err != nil {
				c.log.Warn("cannot write the records of a Python process", "error", err, "see", helptopic.File)
			}
		}
	}
	_ = c.tel.Shutdown(ctx) // errors are logged where they happen
}

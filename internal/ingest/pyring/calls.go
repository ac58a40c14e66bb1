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

// calls replays the callbacks of a process to the recorder that those of a Go
// program use, with its clock at the time of each call.
type calls struct {
	now   atomic.Int64
	log   *slog.Logger
	tel   *telemetry.Provider
	cb    *callbacks.Callbacks
	sent  config.Export  // what of it goes over a network
	lines *file.Exporter // nil where the configuration wants none
	own   map[int64]*telemetry.Span
	n     int64
	ended bool

	given  values   // what configure_provider said
	answer sync.Map // what functions of the configuration gave last, by their fields
	opened bool

	killed atomic.Bool // what is ended now is not written any more
}

// values are the arguments of a callback by the names that one-logger has.
type values map[string]any

func (v values) number(key string) (float64, bool) {
	n, ok := v[key].(float64)
	return n, ok
}

// whole returns a number as an int; those that none can hold are 0.
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

// timeOf returns a time in milliseconds, or that of the call.
func (v values) timeOf(key string, call int64) time.Time {
	if ms, ok := v.number(key); ok && ms > 0 && ms < 1e15 {
		whole := int64(ms)
		return time.UnixMilli(whole).Add(time.Duration((ms - float64(whole)) * 1e6))
	}
	return time.Unix(0, call)
}

// asked puts the last value of each field of a configuration that is a function in
// its place, as a function. What none has given yet is not there.
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

// base is the configuration that configure_provider gave.
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

// report logs what is wrong with a configuration: telemetry goes on without it.
func (c *calls) report(unknown []config.Problem, err error) {
	for _, p := range unknown {
		c.log.Warn("ignored a setting of a Python process", "setting", p.String(), "see", helptopic.PythonCalls)
	}
	if err != nil {
		c.log.Warn("invalid configuration of a Python process", "error", err, "see", helptopic.PythonCalls)
	}
}

// trainingPrefix stands before the fields of the training's configuration.
const trainingPrefix = "telemetry_config."

// export is the customization that the program asked for, and whether it did.
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
	p.news() // who it is
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

// phases are the callbacks that take a time and nothing else.
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
		delete(given, "line") // of the program
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

// close ends the outputs. Where the process was killed, its records must not
// say that its spans ended: the file is closed before they are.
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
	_ = c.tel.Shutdown(ctx) // what goes wrong is logged where it happens
}

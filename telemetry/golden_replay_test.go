package telemetry_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// replay runs a scenario through the public API.
type replay struct {
	file *file.Exporter // the latest one
	t    *testing.T
	s    *scenario
	now  time.Time
	path string

	base   config.Base // as given to the builder, with its overrides
	asJSON object      // the same in the scenario's form

	builder *telemetry.TrainingTelemetryBuilder
	tel     *telemetry.Provider
	ctx     context.Context
	saved   map[string]*telemetry.Span
	open    map[string]scope
	names   []string // of the exporters in order
	results []result
}

type scope struct {
	span  *telemetry.Span
	under context.Context
}

// result is the result of one step here.
type result struct {
	call  string
	err   error
	span  string // the returned span and its parent
	lines int
}

func (r *replay) Now() time.Time { return r.now }

func newReplay(t *testing.T, s *scenario) *replay {
	r := &replay{
		t: t, s: s, ctx: context.Background(),
		path:  filepath.Join(t.TempDir(), "telemetry.jsonl"),
		saved: map[string]*telemetry.Span{},
		open:  map[string]scope{},
		now:   time.UnixMilli(s.Clock.EpochMsec),
	}
	r.builder = telemetry.NewTrainingTelemetryBuilder().
		WithClock(r.Now).
		WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))).
		WithIdentity(outputs.Identity{Host: s.Identity.NodeName, PID: s.Identity.PID, Version: s.Identity.PackageVersion}).
		WithRanks(r.ranks())
	return r
}

func (r *replay) ranks() config.Ranks {
	ranks, err := config.DetectRanks(func(name string) (string, bool) { v, ok := r.s.Env[name]; return v, ok })
	if err != nil {
		r.t.Fatal(err)
	}
	return ranks
}

func (r *replay) run() {
	r.t.Cleanup(func() { _ = r.tel.Shutdown(context.Background()) })
	if p := r.s.Provider; p != nil {
		r.do(step{Call: "provider.with_base_config", Args: object{{Key: "config", Value: p.Base}}})
		for _, o := range p.Overrides {
			r.do(step{Call: "provider.with_config_override", Args: object{{Key: "config", Value: o}}})
		}
		for _, e := range p.Exporters {
			r.do(step{Call: "provider.with_exporter", Args: e})
		}
		if p.Customization != nil {
			r.do(step{Call: "provider.with_export_customization", Args: p.Customization})
		}
		r.do(step{Call: "provider.configure_provider"})
	}
	for _, st := range r.s.Steps {
		r.now = st.Now
		r.do(st)
	}
}

func (r *replay) do(st step) {
	span, err := r.call(&st)
	if st.SaveAs != "" {
		r.saved["$"+st.SaveAs] = span
	}
	text, _ := os.ReadFile(r.written())
	lines := 0
	for _, c := range text {
		if c == '\n' {
			lines++
		}
	}
	returned := ""
	if span != nil {
		var parent any
		if p := span.Parent(); p != nil {
			parent = p.Name()
		}
		returned = fmt.Sprint(span.Name(), " under ", parent)
	}
	r.results = append(r.results, result{st.Call, err, returned, lines})
}

func (r *replay) call(st *step) (*telemetry.Span, error) {
	switch kind, _, _ := cutDot(st.Call); kind {
	case "provider":
		return nil, r.provider(st)
	case "recorder":
		return r.recorder(st)
	case "span":
		s := r.saved[st.text("span")]
		if st.Call == "span.add_attributes" {
			s.SetAttrs(attrs(st.object("attributes"))...)
			return nil, s.Err()
		}
		v, _ := st.Args.Get("value")
		s.SetAttrs(attrvalue.Any(st.text("name"), v))
		return nil, s.Err()
	case "ctx":
		return r.context(st)
	}
	return r.callback(st)
}

func cutDot(s string) (before, after string, ok bool) {
	for i := range s {
		if s[i] == '.' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func (r *replay) provider(st *step) error {
	cfg, _ := st.Args.Get("config")
	switch st.Call {
	case "provider.with_base_config":
		base, _, err := config.Decode[config.Base](cfg, "")
		if err == nil {
			err = errors.Join(base.Validate(), required(&base))
		}
		if err != nil {
			return err
		}
		if r.base.ApplicationName == "" {
			r.base, r.asJSON = base, cfg.(object)
		}
		r.builder.WithBaseConfig(base)
	case "provider.with_config_override":
		// An override of a scenario is part of a configuration with one-logger's keys.
		r.asJSON = merged(r.asJSON, cfg.(object))
		base, _, err := config.Decode[config.Base](r.asJSON, "")
		if err != nil {
			return err
		}
		r.base = base
		r.builder.WithConfigOverride(func(b *config.Base) {
			base.ErrorStrategy, base.Logger.Level = cmp.Or(base.ErrorStrategy, b.ErrorStrategy), cmp.Or(base.Logger.Level, b.Logger.Level)
			*b = base
		})
	case "provider.with_exporter":
		r.builder.WithExporter(r.exporter(st))
	case "provider.with_export_customization":
		r.builder.WithExportCustomization(config.Export{
			Mode: st.text("mode"), SpanNames: st.strings("span_name_filter"),
		})
	case "provider.configure_provider":
		if err := required(&r.base); err != nil && r.asJSON != nil {
			return err
		}
		tel, err := r.builder.ConfigureProvider(r.ctx)
		if err == nil {
			r.tel = tel
		}
		return err
	case "provider.set_training_telemetry_config":
		t, _, err := config.Decode[config.Training](cfg, "")
		if err == nil {
			err = required(&config.Base{SessionTag: config.Value(""), WorldSize: config.Value(1), Training: &t})
		}
		if err == nil {
			err = r.tel.SetTrainingConfig(t)
		}
		return err
	case "provider.force_disable_logging":
		r.tel.ForceDisable()
	default:
		r.t.Fatalf("unknown call %s", st.Call)
	}
	return r.builder.Err()
}

// merged applies an override to a configuration, as one-logger does.
func merged(base, over object) object {
	for _, e := range over {
		before, _ := base.Get(e.Key)
		if a, ok := before.(object); ok {
			if b, ok := e.Value.(object); ok {
				e.Value = merged(a, b)
			}
		}
		base = base.With(e.Key, e.Value)
	}
	return base
}

// required returns an error for fields that one-logger requires and that have a
// default here: a recording may show that they are refused there.
func required(b *config.Base) error {
	switch t := b.Training; {
	case !b.SessionTag.IsSet():
		return errors.New("session_tag is required by the reference")
	case !b.WorldSize.IsSet():
		return errors.New("world_size is required by the reference")
	case t != nil && !t.GlobalBatchSize.IsSet():
		return errors.New("global_batch_size is required by the reference")
	case t != nil && !t.PerfTag.IsSet() && !t.PerfTags.IsSet():
		return errors.New("perf_tag is required by the reference")
	}
	return nil
}

func (r *replay) exporter(st *step) telemetry.Output {
	if st.text("type") == "scripted" {
		r.names = append(r.names, "scripted")
		return newScripted(st)
	}
	r.names = append(r.names, "FileExporter")
	r.file = file.New(r.path, &file.Options{Compat: true, FlushInterval: -1})
	return r.file
}

// written returns the path of the scenario's file. If the job has several
// ranks, its name has the rank.
func (r *replay) written() string {
	if r.file == nil {
		return r.path
	}
	return r.file.Path()
}

func (r *replay) recorder(st *step) (*telemetry.Span, error) {
	rec := r.tel.Recorder()
	s := r.saved[st.text("span")]
	switch st.Call {
	case "recorder.start":
		_, s, err := rec.Start(r.ctx, st.text("name"), telemetry.SpanStart{
			Time: st.time("start_time_msec"), Parent: r.saved[st.text("parent")],
			Attributes: attrs(st.object("attributes")), StartAttributes: attrs(st.object("start_event_attributes")),
		})
		return s, err
	case "recorder.stop":
		return nil, rec.Stop(s, telemetry.End{Time: st.time("stop_time_msec")}, attrs(st.object("stop_event_attributes"))...)
	case "recorder.event":
		return nil, rec.Event(s, st.text("name"), attrs(st.object("attributes")), st.time("timestamp_msec"))
	case "recorder.error":
		return nil, rec.Error(s, st.text("message"), exception(st))
	case "recorder.telemetry_data_error":
		return nil, rec.TelemetryDataError(st.text("message"), attrs(st.object("attributes")))
	case "recorder.close":
		return nil, rec.Close(r.ctx)
	}
	r.t.Fatalf("unknown call %s", st.Call)
	return nil, nil
}

// pyError is an exception of the recorded program.
type pyError struct{ kind, message string }

func (e *pyError) Error() string     { return e.message }
func (e *pyError) ErrorType() string { return e.kind }

func exception(st *step) error {
	o := st.object("exception")
	if o == nil {
		return nil
	}
	e := &pyError{}
	for _, field := range o {
		switch text, _ := field.Value.(string); field.Key {
		case "type":
			e.kind = text
		case "message":
			e.message = text
		}
	}
	return e
}

// context enters and leaves the scopes of context managers.
func (r *replay) context(st *step) (*telemetry.Span, error) {
	cm := st.text("cm")
	if st.Call == "ctx.exit" {
		sc := r.open[cm]
		delete(r.open, cm)
		r.ctx = sc.under
		before := sc.span.Err()
		sc.span.EndWith(telemetry.End{Err: exception(st)})
		if after := sc.span.Err(); !errors.Is(after, before) || before == nil {
			return nil, after
		}
		return nil, nil
	}
	under := r.ctx
	kw := &step{Args: st.object("kwargs")}
	ctx, span, err := r.enter(st.text("context"), kw)
	if err != nil {
		return nil, err
	}
	r.ctx = ctx
	r.open[cm] = scope{span, under}
	return span, span.Err()
}

func (r *replay) enter(name string, kw *step) (context.Context, *telemetry.Span, error) {
	var ctx context.Context
	var s *telemetry.Span
	switch name {
	case "application":
		ctx, s = r.tel.Start(r.ctx, spans.Application)
	case "model_init":
		ctx, s = r.tel.Start(r.ctx, spans.ModelInit)
	case "dataloader_init":
		ctx, s = r.tel.Start(r.ctx, spans.DataLoaderInit)
	case "optimizer_init":
		ctx, s = r.tel.Start(r.ctx, spans.OptimizerInit)
	case "checkpoint_load":
		ctx, s = r.tel.Start(r.ctx, spans.CheckpointLoad)
	case "training_loop":
		ctx, s = r.tel.Start(r.ctx, spans.TrainingLoop, loopStart(kw))
	case "training_iteration":
		ctx, s = r.tel.Start(r.ctx, spans.TrainingIteration)
	case "validation_loop":
		ctx, s = r.tel.Start(r.ctx, spans.ValidationLoop)
	case "validation_iteration":
		ctx, s = r.tel.Start(r.ctx, spans.ValidationIteration)
	case "testing_loop":
		ctx, s = r.tel.Start(r.ctx, spans.TestingLoop)
	case "checkpoint_save":
		ctx, s = r.tel.Start(r.ctx, spans.CheckpointSave, telemetry.SaveStart{GlobalStep: kw.int("global_step")})
	case "timed_span":
		ctx, s = r.tel.StartSpanWith(r.ctx, kw.text("name"), telemetry.SpanStart{
			Attributes: attrs(kw.object("span_attributes")), StartAttributes: attrs(kw.object("start_event_attributes")),
		})
	default:
		return nil, nil, fmt.Errorf("unknown context manager %s", name)
	}
	return ctx, s, nil
}

func loopStart(st *step) telemetry.LoopStart {
	return telemetry.LoopStart{
		Time:            st.time("start_time_msec"),
		IterationsStart: st.int("train_iterations_start"), SamplesStart: st.intVar("train_samples_start"),
		IterationsTarget: st.intVar("train_iterations_target_or_fn"), SamplesTarget: st.intVar("train_samples_target_or_fn"),
	}
}

func (r *replay) callback(st *step) (*telemetry.Span, error) {
	cb := callbacks.New(r.tel)
	start := callbacks.Start{Time: st.time("start_time_msec")}
	end := callbacks.End{Time: st.time("finish_time_msec")}
	starts := map[string]func(context.Context, ...callbacks.Start) (context.Context, error){
		"on_app_start":                         cb.OnAppStart,
		"on_distributed_init_start":            cb.OnDistributedInitStart,
		"on_model_init_start":                  cb.OnModelInitStart,
		"on_dataloader_init_start":             cb.OnDataLoaderInitStart,
		"on_optimizer_init_start":              cb.OnOptimizerInitStart,
		"on_load_checkpoint_start":             cb.OnLoadCheckpointStart,
		"on_training_single_iteration_start":   cb.OnTrainingSingleIterationStart,
		"on_validation_start":                  cb.OnValidationStart,
		"on_validation_single_iteration_start": cb.OnValidationSingleIterationStart,
		"on_testing_start":                     cb.OnTestingStart,
	}
	ends := map[string]func(context.Context, ...callbacks.End) error{
		"on_app_end":                         cb.OnAppEnd,
		"on_distributed_init_end":            cb.OnDistributedInitEnd,
		"on_model_init_end":                  cb.OnModelInitEnd,
		"on_dataloader_init_end":             cb.OnDataLoaderInitEnd,
		"on_optimizer_init_end":              cb.OnOptimizerInitEnd,
		"on_load_checkpoint_end":             cb.OnLoadCheckpointEnd,
		"on_train_end":                       cb.OnTrainEnd,
		"on_validation_end":                  cb.OnValidationEnd,
		"on_validation_single_iteration_end": cb.OnValidationSingleIterationEnd,
		"on_testing_end":                     cb.OnTestingEnd,
		"on_save_checkpoint_end":             cb.OnSaveCheckpointEnd,
	}
	under := func(ctx context.Context, err error) (*telemetry.Span, error) {
		if s := telemetry.FromContext(ctx); err == nil && s != telemetry.FromContext(r.ctx) {
			return s, nil
		}
		return nil, err
	}
	if f, ok := starts[st.Call]; ok {
		return under(f(r.ctx, start))
	}
	if f, ok := ends[st.Call]; ok {
		return nil, f(r.ctx, end)
	}
	switch st.Call {
	case "on_train_start":
		return under(cb.OnTrainStart(r.ctx, loopStart(st)))
	case "on_training_single_iteration_end":
		return nil, cb.OnTrainingSingleIterationEnd(r.ctx, callbacks.IterationEnd{Time: end.Time})
	case "on_save_checkpoint_start":
		return under(cb.OnSaveCheckpointStart(r.ctx, callbacks.SaveStart{Time: start.Time, GlobalStep: st.int("global_step")}))
	case "on_save_checkpoint_success":
		return nil, cb.OnSaveCheckpointSuccess(r.ctx, callbacks.SaveSuccess{Time: st.time("time_msec"), GlobalStep: st.int("global_step")})
	}
	r.t.Fatalf("unknown call %s", st.Call)
	return nil, nil
}

// scripted is an exporter that fails on demand.
type scripted struct {
	outputs.None
	always map[string]bool
	fails  map[string][]int
	calls  map[string]int
}

func newScripted(st *step) *scripted {
	s := &scripted{always: map[string]bool{}, fails: map[string][]int{}, calls: map[string]int{}}
	for _, e := range st.object("fail") {
		if e.Value == "always" {
			s.always[e.Key] = true
			continue
		}
		for _, n := range e.Value.([]any) {
			s.fails[e.Key] = append(s.fails[e.Key], intOf(n))
		}
	}
	return s
}

func (s *scripted) call(method string) error {
	s.calls[method]++
	if s.always[method] || slices.Contains(s.fails[method], s.calls[method]) {
		return fmt.Errorf("scripted failure of %s", method)
	}
	return nil
}

func (s *scripted) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Ordered: true, Inline: true}, s.call("initialize")
}

func (s *scripted) Shutdown(context.Context) error { return s.call("close") }

func (s *scripted) Write(records []outputs.Record) error {
	r := &records[0]
	return s.call(map[outputs.Kind]string{
		outputs.KindStart: "export_start", outputs.KindStop: "export_stop", outputs.KindEvent: "export_event",
		outputs.KindError: "export_error", outputs.KindDataError: "export_telemetry_data_error",
	}[r.Kind])
}

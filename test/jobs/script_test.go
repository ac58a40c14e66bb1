package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/integrations/iofs"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// script is a recording of calls of the Go API. It runs in a bubble of package
// synctest, in which time advances only in the pauses of the script, so that
// times, late begin records and segments are the same in each run. README.md
// lists its words.
type script struct {
	t       *testing.T
	dir     string
	builder *telemetry.TrainingTelemetryBuilder
	base    config.Base
	tel     *telemetry.Provider
	sdk     *sdktrace.TracerProvider // of a script that uses only OpenTelemetry
	calls   *callbacks.Callbacks
	tree    *ai.Tree
	batches []*keeper
	handles map[string]*handle
	threads map[string]chan func()
	out     strings.Builder // results of calls
}

// handle is an open object of a script.
type handle struct {
	ctx   context.Context
	span  *telemetry.Span
	otel  oteltrace.Span
	scope *ai.Scope
	node  *ai.Node
}

// keeper is a span exporter that stores the batches, which are sent after the
// end of the script: the bubble cannot contain network connections.
type keeper struct{ batches [][]sdktrace.ReadOnlySpan }

func (k *keeper) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	k.batches = append(k.batches, slices.Clone(spans))
	return nil
}

func (k *keeper) Shutdown(context.Context) error { return nil }

// broken is a span exporter whose backend accepts nothing.
type broken struct{}

func (broken) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	return errors.New("refused")
}
func (broken) Shutdown(context.Context) error { return nil }

// replayScript runs a script and returns its outputs.
func replayScript(t *testing.T, path string) (*outputs, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &script{
		t: t, dir: t.TempDir(), builder: telemetry.NewTrainingTelemetryBuilder().WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
		base:    config.Base{ApplicationName: "job", SessionTag: config.Value("session"), WorldSize: config.Value(1), Training: &config.Training{}},
		handles: map[string]*handle{"-": {ctx: context.Background()}}, threads: make(map[string]chan func()),
	}
	synctest.Test(t, func(*testing.T) {
		for i, line := range strings.Split(string(text), "\n") {
			if err = s.line(line); err != nil {
				err = fmt.Errorf("%s: line %d: %q: %w", path, i+1, line, err)
				break
			}
		}
		for _, c := range s.threads {
			close(c)
		}
		if s.sdk != nil {
			err = errors.Join(err, s.sdk.Shutdown(context.Background()))
		}
		if s.tel != nil {
			s.note("shutdown", s.tel.Shutdown(context.Background()))
			s.stats()
		}
	})
	if err != nil {
		return nil, err
	}
	outs := &outputs{notes: s.out.String(), from: s.dir}
	if outs.traces, err = filepath.Glob(filepath.Join(s.dir, "*.pfw.gz")); err != nil {
		return nil, err
	}
	if outs.lines, err = filepath.Glob(filepath.Join(s.dir, "*.jsonl")); err != nil {
		return nil, err
	}
	for _, k := range s.batches {
		c := newCollector(t)
		if err := c.send(k.batches); err != nil {
			return nil, err
		}
		outs.requests = append(outs.requests, c.requests)
	}
	return outs, nil
}

// send sends batches as the exporter of OTLP does.
func (c *collector) send(batches [][]sdktrace.ReadOnlySpan) error {
	ctx := context.Background()
	e, err := otlp.New(ctx, otlp.Config{OTLP: config.OTLP{Endpoint: c.URL}})
	if err != nil {
		return err
	}
	for _, b := range batches {
		if err := e.ExportSpans(ctx, b); err != nil {
			return err
		}
	}
	return e.Shutdown(ctx)
}

// stats writes the counts of losses, repairs and refusals.
func (s *script) stats() {
	st := s.tel.Stats()
	fmt.Fprintf(&s.out, "counts started=%d open=%d events=%d errors=%d data_errors=%d repaired_values=%d repaired_times=%d failures=%d dropped_records=%d\n",
		st.SpansStarted, st.SpansOpen, st.Events, st.Errors, st.DataErrors, st.RepairedValues, st.RepairedTimes, st.ExporterFailures, st.DroppedRecords)
	fmt.Fprintf(&s.out, "counts ended=%d exported=%d dropped=%d pending=%d\n", st.EndedSpans, st.ExportedSpans, st.DroppedSpans, st.PendingSpans)
}

var wordText = regexp.MustCompile(`(?:[^\s"]|"(?:[^"\\]|\\.)*")+`)

// line executes a line. "NAME| ..." runs on a goroutine with that name.
func (s *script) line(line string) error {
	line = strings.TrimSpace(line)
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	thread, rest, ok := strings.Cut(line, "| ")
	if !ok || strings.ContainsAny(thread, " \"") {
		return s.do(wordText.FindAllString(line, -1))
	}
	c := s.threads[thread]
	if c == nil {
		c = make(chan func())
		s.threads[thread] = c
		go func() {
			for f := range c {
				f()
			}
		}()
	}
	result := make(chan error)
	c <- func() { result <- s.do(wordText.FindAllString(rest, -1)) }
	return <-result
}

// do executes the words of a line.
func (s *script) do(words []string) error {
	into := ""
	if len(words) > 2 && words[1] == "=" {
		into, words = words[0], words[2:]
	}
	verb, words := words[0], words[1:]
	var plain []string
	options := make(map[string]string)
	var kvs []attribute.KeyValue
	for _, w := range words {
		if w == "=" {
			return errors.New("stray =")
		}
		key, value, ok := strings.Cut(w, "=")
		if !ok {
			plain = append(plain, w)
			continue
		}
		if name, isOption := strings.CutPrefix(key, "-"); isOption {
			options[name] = unquoted(value)
			continue
		}
		kv, err := keyValue(key, value)
		if err != nil {
			return err
		}
		kvs = append(kvs, kv)
	}
	if setup := setups[verb]; setup != nil {
		return setup(s, plain, options, kvs)
	}
	if s.tel == nil && s.sdk == nil {
		if err := s.configure(); err != nil {
			return err
		}
	}
	h, err := s.call(verb, plain, options, kvs)
	if into != "" && err == nil {
		if h == nil {
			return errors.New("nothing was opened")
		}
		s.handles[into] = h
	}
	return err
}

func unquoted(v string) string {
	if u, err := strconv.Unquote(v); err == nil {
		return u
	}
	return v
}

// keyValue reads an attribute: true, 3, 3.5, "text", [1,2], ["a","b"].
func keyValue(key, v string) (attribute.KeyValue, error) {
	k := attribute.Key(key)
	if list, ok := strings.CutPrefix(v, "["); ok {
		items := strings.Split(strings.TrimSuffix(list, "]"), ",")
		if strings.HasPrefix(list, `"`) {
			for i := range items {
				items[i] = unquoted(items[i])
			}
			return k.StringSlice(items), nil
		}
		var all []int64
		for _, x := range items {
			n, err := strconv.ParseInt(x, 10, 64)
			if err != nil {
				return attribute.KeyValue{}, err
			}
			all = append(all, n)
		}
		return k.Int64Slice(all), nil
	}
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		return k.Int64(n), nil
	}
	if x, err := strconv.ParseFloat(v, 64); err == nil {
		return k.Float64(x), nil
	}
	if v == "true" || v == "false" {
		return k.Bool(v == "true"), nil
	}
	return k.String(unquoted(v)), nil
}

// export reads a filter: -mode (all, whitelist, blacklist) and -names.
func export(options map[string]string) []config.Export {
	if options["mode"] == "" {
		return nil
	}
	e := config.Export{Mode: map[string]string{"all": config.ExportAll, "whitelist": config.Whitelist, "blacklist": config.Blacklist}[options["mode"]]}
	if options["names"] != "" {
		e.SpanNames = strings.Split(options["names"], ",")
	}
	return []config.Export{e}
}

func (s *script) trace(name string) string { return filepath.Join(s.dir, name+".pfw.gz") }

func traceOptions(options map[string]string) *pfw.Options {
	return &pfw.Options{TraceIDs: options["ids"] != "", NoBegin: options["begin"] == "no"}
}

// setups has the words before the first call: the job and its outputs.
var setups = map[string]func(s *script, plain []string, options map[string]string, kvs []attribute.KeyValue) error{
	"trace": func(s *script, plain []string, options map[string]string, _ []attribute.KeyValue) error {
		s.builder.WithExporter(pfw.New(s.trace(plain[0]), traceOptions(options)), export(options)...)
		return nil
	},
	"processor": func(s *script, plain []string, options map[string]string, _ []attribute.KeyValue) error {
		p, err := pfw.Create(s.trace(plain[0]), traceOptions(options))
		if err == nil {
			s.builder.WithSpanProcessor(p)
		}
		return err
	},
	"sdk": func(s *script, plain []string, options map[string]string, _ []attribute.KeyValue) error { // without the telemetry of this module
		s.sdk = sdktrace.NewTracerProvider(sdktrace.WithBatcher(pfw.New(s.trace(plain[0]), traceOptions(options))))
		return nil
	},
	"lines": func(s *script, plain []string, options map[string]string, _ []attribute.KeyValue) error {
		s.builder.WithExporter(file.New(filepath.Join(s.dir, plain[0]+".jsonl"), &file.Options{Compat: options["compat"] != ""}), export(options)...)
		return nil
	},
	"otlp": func(s *script, _ []string, options map[string]string, _ []attribute.KeyValue) error {
		k := new(keeper)
		s.batches = append(s.batches, k)
		s.builder.WithSpanExporter(k, export(options)...)
		return nil
	},
	"broken": func(s *script, _ []string, options map[string]string, _ []attribute.KeyValue) error { // accepts nothing
		s.builder.WithSpanExporter(broken{}, export(options)...)
		return nil
	},
	"customization": func(s *script, _ []string, options map[string]string, _ []attribute.KeyValue) error {
		s.builder.WithExportCustomization(export(options)[0])
		return nil
	},
	"base": func(s *script, _ []string, _ map[string]string, kvs []attribute.KeyValue) error {
		return fill(reflect.ValueOf(&s.base).Elem(), kvs)
	},
	"training": func(s *script, _ []string, _ map[string]string, kvs []attribute.KeyValue) error {
		return fill(reflect.ValueOf(s.base.Training).Elem(), kvs)
	},
	"segment": func(s *script, plain []string, _ map[string]string, _ []attribute.KeyValue) error {
		d, err := time.ParseDuration(plain[0])
		s.builder.WithSegment(d)
		return err
	},
	"traces": func(s *script, _ []string, _ map[string]string, kvs []attribute.KeyValue) error {
		var t config.Traces
		err := fill(reflect.ValueOf(&t).Elem(), kvs)
		s.builder.WithTraces(t)
		return err
	},
	"rank": func(s *script, plain []string, _ map[string]string, _ []attribute.KeyValue) error {
		n, err := strconv.Atoi(plain[0])
		s.builder.WithRanks(config.Ranks{Rank: config.Value(n), LocalRank: config.Value(n), WorldSize: config.Value(2), Attempt: config.Value(1), Job: "launcher-1", Run: "launcher-1"})
		return err
	},
	"parent": func(s *script, _ []string, _ map[string]string, _ []attribute.KeyValue) error {
		s.builder.WithParent(oteltrace.NewSpanContext(oteltrace.SpanContextConfig{TraceID: oteltrace.TraceID{15: 1}, SpanID: oteltrace.SpanID{7: 1}, TraceFlags: 1, Remote: true}))
		return nil
	},
	"sample": func(s *script, plain []string, _ map[string]string, _ []attribute.KeyValue) error {
		if plain[0] == "none" {
			s.builder.WithSampler(sdktrace.NeverSample())
		}
		return nil
	},
}

// configure creates the provider at the first call.
func (s *script) configure() (err error) {
	ctx := context.Background()
	s.builder.WithBaseConfig(s.base)
	if s.tel, err = s.builder.WithIdentity(telemetry.Identity{Host: "node1", PID: 4242}).ConfigureProvider(ctx); err != nil {
		return err
	}
	s.calls, s.tree = callbacks.New(s.tel), ai.NewTree(s.tel)
	return nil
}

// fill sets fields of a configuration by their names.
func fill(v reflect.Value, kvs []attribute.KeyValue) error {
	for _, kv := range kvs {
		field := v.FieldByName(string(kv.Key))
		if !field.IsValid() {
			return fmt.Errorf("%s has no %s", v.Type(), kv.Key)
		}
		if err := setField(field, kv.Value); err != nil {
			return fmt.Errorf("%s: %w", kv.Key, err)
		}
	}
	return nil
}

func setField(field reflect.Value, v attribute.Value) error {
	var to any
	switch field.Interface().(type) {
	case int:
		to = int(v.AsInt64())
	case bool:
		to = v.AsBool()
	case string:
		to = v.AsString()
	case telemetry.Epoch:
		to = telemetry.Epoch(v.AsInt64())
	case error, nil:
		to = errors.New(v.AsString())
	case time.Time:
		d, err := time.ParseDuration(v.AsString())
		if err != nil {
			return err
		}
		to = time.Now().Add(d)
	case config.ErrorStrategy:
		to = config.ErrorStrategy(v.AsString())
	case config.Var[int]:
		to = config.Value(int(v.AsInt64()))
	case config.Var[bool]:
		to = config.Value(v.AsBool())
	case config.Var[string]:
		to = config.Value(v.AsString())
	case config.Var[int64]:
		to = attributes.Some(v.AsInt64())
	case config.Var[float64]:
		to = attributes.Some(v.AsFloat64())
	case config.Var[[]string]:
		to = config.Value(v.AsStringSlice())
	case config.Metadata:
		to = config.Pairs("note", v.AsString(), "n", 3)
	default:
		return fmt.Errorf("cannot set a %s", field.Type())
	}
	field.Set(reflect.ValueOf(to))
	return nil
}

// handle returns the object with a name.
func (s *script) handle(name string) (*handle, error) {
	h := s.handles[name]
	if h == nil {
		return nil, fmt.Errorf("nothing is called %s", name)
	}
	return h, nil
}

// call makes a call on the API.
func (s *script) call(verb string, plain []string, options map[string]string, kvs []attribute.KeyValue) (*handle, error) {
	switch verb {
	case "sleep":
		d, err := time.ParseDuration(plain[0])
		time.Sleep(d) // on the clock of the bubble
		return nil, err
	case "wait":
		synctest.Wait()
		return nil, nil
	case "flush":
		if s.sdk != nil {
			return nil, s.sdk.ForceFlush(context.Background())
		}
		s.note("flush", s.tel.ForceFlush(context.Background()))
		return nil, nil
	case "shutdown":
		s.note("shutdown", s.tel.Shutdown(context.Background()))
		return nil, nil
	case "disable":
		s.tel.ForceDisable()
		return nil, nil
	case "kill":
		return nil, s.kill()
	case "cb":
		return s.callback(plain[0], options, kvs)
	case "update":
		s.tree.Root.Update(kvs...)
		return nil, nil
	}
	if len(plain) == 0 {
		return nil, fmt.Errorf("%s needs a name", verb)
	}
	at, err := s.handle(plain[0])
	if err != nil {
		return nil, err
	}
	switch verb {
	case "std":
		ctx, span := s.tel.Start(at.ctx, plain[1], startOptions(options, kvs)...)
		s.note(verb+" "+plain[1], span.Err())
		return &handle{ctx: ctx, span: span}, nil
	case "span":
		start := telemetry.SpanStart{Attributes: attributes.From(kvs...)}
		if parent := options["parent"]; parent != "" {
			start.Parent = s.handles[parent].span
		}
		ctx, span := s.tel.StartSpanWith(at.ctx, plain[1], start)
		s.note(verb+" "+plain[1], span.Err())
		return &handle{ctx: ctx, span: span}, nil
	case "otel":
		return s.otel(at, plain, options, kvs)
	case "ai":
		node := s.node(plain[1])
		ctx, scope := node.StartContext(at.ctx, kvs...)
		return &handle{ctx: ctx, scope: &scope, node: node}, nil
	case "begin":
		s.node(plain[1]).Begin(at.ctx)
		return nil, nil
	case "stop":
		s.node(plain[1]).Stop(at.ctx)
		return nil, nil
	case "walk": // an iterator over two elements without contexts
		for range s.node(plain[1]).Range(at.ctx, 2) {
			s.tree.Compute.Step.Start(at.ctx).End()
			time.Sleep(time.Millisecond) // on the clock of the bubble
		}
		return nil, nil
	case "loop": // an iterator over two elements, with contexts
		for ctx, i := range s.node(plain[1]).RangeContext(at.ctx, 2) {
			_, scope := s.tree.Compute.Forward.StartContext(ctx, attribute.Int("i", i))
			time.Sleep(time.Millisecond) // on the clock of the bubble
			scope.End()
		}
		return nil, nil
	case "node":
		return nil, s.change(plain)
	case "read":
		return nil, s.read(at, plain[1])
	}
	return nil, at.change(verb, plain, options, kvs)
}

// note writes the error of a call.
func (s *script) note(what string, err error) {
	if err != nil {
		fmt.Fprintf(&s.out, "error of %s: %v\n", what, err)
	}
}

func startOptions(options map[string]string, kvs []attribute.KeyValue) []telemetry.StartOption {
	number := func(name string) int { n, _ := strconv.Atoi(options[name]); return n }
	switch {
	case options["epoch"] != "":
		return []telemetry.StartOption{telemetry.Epoch(number("epoch"))}
	case options["iterations"] != "":
		return []telemetry.StartOption{telemetry.LoopStart{IterationsStart: number("iterations")}}
	case options["save"] != "":
		return []telemetry.StartOption{telemetry.SaveStart{GlobalStep: number("save")}}
	case options["finalize"] != "":
		return []telemetry.StartOption{telemetry.Finalization{GlobalStep: number("finalize")}}
	}
	start := telemetry.Start{Attributes: attributes.From(kvs...)}
	if d, err := time.ParseDuration(options["at"]); err == nil {
		start.Time = time.Now().Add(d)
	}
	return []telemetry.StartOption{start}
}

// callback calls a callback by its name, with its parameters.
func (s *script) callback(name string, options map[string]string, kvs []attribute.KeyValue) (*handle, error) {
	method := reflect.ValueOf(s.calls).MethodByName(name)
	if !method.IsValid() {
		return nil, fmt.Errorf("no callback %s", name)
	}
	in := s.handles["-"]
	if options["in"] != "" {
		var err error
		if in, err = s.handle(options["in"]); err != nil {
			return nil, err
		}
	}
	args := []reflect.Value{reflect.ValueOf(in.ctx)}
	rest := slices.Clone(kvs)
	for i := 1; i < method.Type().NumIn(); i++ {
		typ := method.Type().In(i)
		if typ.Kind() == reflect.Int {
			args, rest = append(args, reflect.ValueOf(int(rest[0].Value.AsInt64()))), rest[1:]
			continue
		}
		variadic := method.Type().IsVariadic() && i == method.Type().NumIn()-1
		if variadic {
			if len(rest) == 0 {
				break
			}
			typ = typ.Elem()
		}
		v := reflect.New(typ).Elem()
		if typ == reflect.TypeFor[telemetry.Start]() && !slices.ContainsFunc(rest, func(kv attribute.KeyValue) bool { return kv.Key == "Time" }) {
			v.FieldByName("Attributes").Set(reflect.ValueOf(attributes.From(rest...)))
		} else if err := fill(v, rest); err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	results := method.Call(args)
	last := results[len(results)-1]
	if err, ok := last.Interface().(error); ok {
		s.note(name, err)
	}
	if len(results) == 2 {
		ctx := results[0].Interface().(context.Context)
		return &handle{ctx: ctx, span: telemetry.FromContext(ctx)}, nil
	}
	return nil, nil
}

func (s *script) otel(at *handle, plain []string, options map[string]string, kvs []attribute.KeyValue) (*handle, error) {
	o := []oteltrace.SpanStartOption{oteltrace.WithAttributes(kvs...)}
	kinds := map[string]oteltrace.SpanKind{"client": oteltrace.SpanKindClient, "server": oteltrace.SpanKindServer, "producer": oteltrace.SpanKindProducer}
	if k, ok := kinds[options["kind"]]; ok {
		o = append(o, oteltrace.WithSpanKind(k))
	}
	if options["root"] != "" {
		o = append(o, oteltrace.WithNewRoot())
	}
	if d, err := time.ParseDuration(options["at"]); err == nil {
		o = append(o, oteltrace.WithTimestamp(time.Now().Add(d)))
	}
	if options["link"] != "" {
		to, err := s.handle(options["link"])
		if err != nil {
			return nil, err
		}
		o = append(o, oteltrace.WithLinks(oteltrace.Link{SpanContext: oteltrace.SpanContextFromContext(to.ctx), Attributes: []attribute.KeyValue{attribute.Bool("linked", true)}}))
	}
	tracers := oteltrace.TracerProvider(s.sdk)
	if s.sdk == nil {
		tracers = s.tel.TracerProvider()
	}
	ctx, span := tracers.Tracer(plain[1]).Start(at.ctx, plain[2], o...)
	return &handle{ctx: ctx, otel: span}, nil
}

// node returns the node category.name of the tree of scopes.
func (s *script) node(path string) *ai.Node {
	category, name, _ := strings.Cut(path, ".")
	if category == "ai_root" {
		return s.tree.Root
	}
	return s.tree.NewNode(category, name)
}

// change switches a node on or off.
func (s *script) change(plain []string) error {
	n := s.node(plain[1])
	switch plain[2] {
	case "off":
		n.Disable()
	case "on":
		n.Enable()
	case "force_on":
		n.ForceOn()
	case "force_off":
		n.ForceOff()
	default:
		return fmt.Errorf("no change %s", plain[2])
	}
	return nil
}

// read reads a file of 5,000 bytes through a recording wrapper.
func (s *script) read(at *handle, name string) error {
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, make([]byte, 5000), 0o600); err != nil {
		return err
	}
	f, err := iofs.New(s.tel).With(at.ctx).Open(path)
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(f, make([]byte, 4096)); err != nil {
		return err
	}
	if _, err := f.ReadAt(make([]byte, 100), 10); err != nil {
		return err
	}
	return f.Close()
}

// change changes or ends an open object.
func (h *handle) change(verb string, plain []string, options map[string]string, kvs []attribute.KeyValue) error {
	var failure error
	if len(plain) > 1 {
		failure = errors.New(unquoted(plain[len(plain)-1]))
	}
	name := ""
	if len(plain) > 1 {
		name = plain[1]
	}
	switch {
	case h.otel != nil:
		switch verb {
		case "event":
			h.otel.AddEvent(name, oteltrace.WithAttributes(kvs...))
		case "set":
			h.otel.SetAttributes(kvs...)
		case "name":
			h.otel.SetName(name)
		case "fail":
			h.otel.RecordError(failure)
			h.otel.SetStatus(codes.Error, failure.Error())
		case "ok":
			h.otel.SetStatus(codes.Ok, "")
		case "end":
			if d, err := time.ParseDuration(options["at"]); err == nil {
				h.otel.End(oteltrace.WithTimestamp(time.Now().Add(d)))
			} else {
				h.otel.End()
			}
		default:
			return fmt.Errorf("no %s of an OpenTelemetry span", verb)
		}
	case h.scope != nil:
		switch verb {
		case "set":
			h.scope.Set(kvs...)
		case "fail":
			h.scope.Fail(failure)
		case "end":
			h.scope.End()
		default:
			return fmt.Errorf("no %s of a scope", verb)
		}
	default: // a nil span does nothing
		switch verb {
		case "event":
			h.span.AddEvent(name, kvs...)
		case "set":
			h.span.SetAttributes(kvs...)
		case "fail":
			h.span.Fail(failure)
		case "end":
			end := telemetry.End{Err: failure}
			if d, err := time.ParseDuration(options["at"]); err == nil {
				end.Time = time.Now().Add(d)
			}
			h.span.EndWith(end)
		default:
			return fmt.Errorf("no %s of a span", verb)
		}
	}
	return nil
}

// kill copies the files in the state in which a kill would leave them now. The
// copies are compared too.
func (s *script) kill() error {
	synctest.Wait()
	paths, err := filepath.Glob(filepath.Join(s.dir, "*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		base, ext, _ := strings.Cut(filepath.Base(path), ".")
		if ext != "pfw.gz" && ext != "jsonl" {
			continue
		}
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(s.dir, base+"-killed."+ext), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

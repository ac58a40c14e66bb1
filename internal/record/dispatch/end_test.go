package dispatch

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/filter"
	"github.com/trainspan/trainspan/telemetry/outputs"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// noting is an output that records its calls in a list that several outputs share.
type noting struct {
	outputs.None
	name   string
	traits outputs.Traits
	list   *list
	hang   chan struct{} // the method named by hangs waits for it
	hangs  string
}

type list struct {
	mu    sync.Mutex
	lines []string
}

func (l *list) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *list) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, ", ")
}

func (n *noting) note(what string) {
	if n.hangs == what {
		<-n.hang
	}
	n.list.add(n.name + " " + what)
}

func (n *noting) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	return n.traits, nil
}
func (n *noting) Write([]outputs.Record) error     { n.note("told"); return nil }
func (n *noting) ForceFlush(context.Context) error { n.note("flushed"); return nil }
func (n *noting) Shutdown(context.Context) error   { n.note("closed"); return nil }
func (n *noting) Stats() outputs.Stats             { n.note("counted"); return outputs.Stats{} }

// TestEndOrder checks that network outputs end first, then the metrics, then the local
// outputs, which get the losses before.
func TestEndOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &list{}
		h := newHub(t, &noting{name: "file", list: l}, &noting{name: "metrics", list: l, traits: outputs.Traits{Remote: true, Metrics: true}},
			&noting{name: "backend", list: l, traits: outputs.Traits{Remote: true}})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for range 2 { // the second call does nothing
			err := h.End(ctx, func() map[string]int64 {
				l.add("counted")
				return map[string]int64{"spans": 1}
			})
			if err != nil {
				t.Error(err)
			}
		}
		first, rest, _ := strings.Cut(l.String(), "metrics closed, ")
		if !strings.Contains(first, "metrics flushed") || !strings.Contains(first, "backend closed") || rest != "counted, file told, file closed" {
			t.Errorf("outputs were called in the order %v, want the metrics and the backend before the file", l)
		}
	})
}

// TestEndOfOneThatHangs checks that, if any method of one output hangs, the others are
// closed, they get the losses unless Stats hangs, and End returns in time.
func TestEndOfOneThatHangs(t *testing.T) {
	for _, hangs := range []string{"told", "closed", "counted", "flushed"} {
		for _, traits := range []outputs.Traits{{}, {Remote: true}, {Remote: true, Metrics: true}} {
			synctest.Test(t, func(t *testing.T) {
				l, hang := &list{}, make(chan struct{})
				h := newHub(t, &noting{name: "bad", list: l, traits: traits, hang: hang, hangs: hangs},
					&noting{name: "file", list: l}, &noting{name: "backend", list: l, traits: outputs.Traits{Remote: true}})
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				start := time.Now()
				_ = h.End(ctx, func() map[string]int64 {
					h.Stats(func(outputs.Stats) bool { return true })
					return map[string]int64{"spans": 1}
				})
				if took := time.Since(start); took > time.Second {
					t.Errorf("%s of %+v: the end took %v, want at most %v", hangs, traits, took, time.Second)
				}
				text := l.String()
				if !strings.Contains(text, "file closed") || !strings.Contains(text, "backend closed") ||
					hangs != "counted" && !strings.Contains(text, "file told") {
					t.Errorf("%s of %+v: %s; want every output closed, and the file informed", hangs, traits, text)
				}
				close(hang)
				synctest.Wait()
			})
		}
	}
}

// panicky is an output that panics in every method except Open.
type panicky struct {
	outputs.None
	traits outputs.Traits
}

func (p *panicky) Open(ctx context.Context, _ *outputs.Telemetry) (outputs.Traits, error) {
	OfferScopes(ctx, p, nil)
	return p.traits, nil
}
func (*panicky) ScopeKind(string, string) ScopeKind { panic("kind") }
func (*panicky) EndScopes()                         { panic("scopes") }
func (*panicky) Write([]outputs.Record) error       { panic("write") }
func (*panicky) ForceFlush(context.Context) error   { panic("flush") }
func (*panicky) Shutdown(context.Context) error     { panic("shutdown") }
func (*panicky) Stats() outputs.Stats               { panic("stats") }

// TestPanics checks that a panic of any method does not affect the caller, is counted,
// and is logged with growing intervals.
func TestPanics(t *testing.T) {
	var log strings.Builder
	l := &list{}
	h := New(slog.New(slog.NewTextHandler(&log, nil)))
	good := &noting{name: "file", list: l}
	for _, out := range []outputs.Output{&panicky{traits: outputs.Traits{Snapshots: true, Ordered: true, Inline: true}}, good} {
		if err := h.Attach(context.Background(), out, nil, &Offer{Export: config.Export{Mode: config.ExportAll}}); err != nil {
			t.Fatal(err)
		}
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(h))
	for range 500 {
		_, s := tp.Tracer("").Start(context.Background(), "x")
		h.Event(everywhere{Span: s}, s.(sdktrace.ReadWriteSpan), outputs.Event{})
		s.End()
	}
	if k := h.ScopeKinds("a", "b", filter.Only(0)); len(k) != 0 {
		t.Error("got a kind from a call that panicked, want none")
	}
	h.EndScopes()
	send(h, 0, 1)
	h.Stats(func(outputs.Stats) bool { return true })
	if err := h.ForceFlush(context.Background()); err == nil {
		t.Error("got no error from a flush that panicked, want one")
	}
	err := h.End(context.Background(), func() map[string]int64 { return map[string]int64{"x": 1} })
	if err == nil || !strings.Contains(err.Error(), "shutdown") {
		t.Errorf("Shutdown() = %v, want an error of it", err)
	}
	if n := h.Panics(); n != 1503 {
		t.Errorf("Panics() = %d, want 1503", n)
	}
	if n := strings.Count(log.String(), `"telemetry output panicked"`); n != 4 {
		t.Errorf("%d lines about panics, want 4:\n%s", n, &log)
	}
	if !strings.Contains(l.String(), "file told, file closed") {
		t.Errorf("outputs were called in the order %v, want the file informed before it is closed", l)
	}
}

// everywhere is a span of the recorder that every output gets.
type everywhere struct{ trace.Span }

func (everywhere) Outputs() filter.Set           { return ^filter.Set(0) }
func (everywhere) Above() filter.Span            { return nil }
func (everywhere) Outside() trace.SpanContext    { return trace.SpanContext{} }
func (everywhere) Ambient() bool                 { return false }
func (everywhere) Telemetry() *outputs.Telemetry { return nil }

// TestRenamedSpans checks that an output with a filter that got the start of a span gets
// its end, even if the span was renamed.
func TestRenamedSpans(t *testing.T) {
	for _, c := range []struct {
		before, after string
		want          string
	}{{"good", "other", "start, stop"}, {"other", "good", ""}} {
		l := &list{}
		h := New(slog.New(slog.NewTextHandler(io.Discard, nil)))
		good := config.Export{Mode: config.Whitelist, SpanNames: []string{"good"}}
		if err := h.Attach(context.Background(), &watching{list: l}, &good, &Offer{}); err != nil {
			t.Fatal(err)
		}
		_, s := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(h)).Tracer("").Start(context.Background(), c.before)
		s.SetName(c.after)
		s.End()
		if l.String() != c.want {
			t.Errorf("%s, then %s: %s, want %s", c.before, c.after, l, c.want)
		}
	}
}

// TestParentThatAnOutputGets checks that the start, the events and the end of a span have
// the nearest ancestor that the output gets as their parent, in each output. Only the start
// has the context.
func TestParentThatAnOutputGets(t *testing.T) {
	const outside, root, middle = 9, 1, 2
	for _, c := range []struct {
		root, middle filter.Set // the outputs that get the ancestors; all get the span
		want         []byte     // the parent in each output
	}{
		{0b1, 0b1, []byte{middle}},
		{0b1, 0b0, []byte{root}},
		{0b0, 0b0, []byte{outside}},
		{0b11, 0b11, []byte{middle, middle}},
		{0b11, 0b10, []byte{root, middle}},
		{0b11, 0b01, []byte{middle, root}},
		{0b10, 0b00, []byte{outside, root}},
	} {
		h := New(slog.New(slog.NewTextHandler(io.Discard, nil)))
		outs := make([]*parents, len(c.want))
		for i := range outs {
			outs[i] = &parents{}
			if err := h.Attach(context.Background(), outs[i], nil, &Offer{Export: config.Export{Mode: config.ExportAll}}); err != nil {
				t.Fatal(err)
			}
		}
		top := &ancestor{id: root, to: c.root, outside: outside}
		starts := &ancestor{id: 3, to: 0b11, above: &ancestor{id: middle, to: c.middle, above: top}}
		ctx := trace.ContextWithSpanContext(context.Background(), contextOf(middle))
		_, s := sdktrace.NewTracerProvider().Tracer("").Start(ctx, "x")
		span := s.(sdktrace.ReadWriteSpan)
		h.Start(ctx, starts, span)
		h.Event(starts, span, outputs.Event{})
		s.End()
		h.Stop(starts, span)
		for i, out := range outs {
			if want := bytes.Repeat(c.want[i:i+1], 3); !bytes.Equal(out.got, want) {
				t.Errorf("root in %02b, span below it in %02b: output %d got the parents %v, want %v", c.root, c.middle, i, out.got, want)
			}
			if want := []bool{true, false, false}; !slices.Equal(out.contexts, want) {
				t.Errorf("records of the start, an event and the end have a context: %v, want %v", out.contexts, want)
			}
		}
	}
}

// ancestor is a span of the recorder.
type ancestor struct {
	filter.Span
	id, outside byte
	to          filter.Set
	above       *ancestor
}

func (a *ancestor) Outputs() filter.Set            { return a.to }
func (a *ancestor) Outside() trace.SpanContext     { return contextOf(a.outside) }
func (a *ancestor) SpanContext() trace.SpanContext { return contextOf(a.id) }
func (a *ancestor) Above() filter.Span {
	if a.above == nil {
		return nil
	}
	return a.above
}

func contextOf(id byte) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{id}, TraceFlags: trace.FlagsSampled})
}

// parents is an output that keeps the parent of each record.
type parents struct {
	outputs.None
	got      []byte
	contexts []bool // whether the record has a context
}

func (*parents) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Snapshots: true}, nil
}
func (p *parents) Write(records []outputs.Record) error {
	p.got = append(p.got, records[0].Snapshot.Parent().SpanID()[0])
	p.contexts = append(p.contexts, records[0].Context != nil)
	return nil
}

type watching struct {
	outputs.None
	list *list
}

func (*watching) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Snapshots: true}, nil
}
func (w *watching) Write(records []outputs.Record) error {
	for _, r := range records {
		w.list.add(r.Kind.String())
	}
	return nil
}

// refusing is an output that returns an error for every snapshot.
type refusing struct{ outputs.None }

func (refusing) Open(context.Context, *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Snapshots: true}, nil
}
func (refusing) Write([]outputs.Record) error { return io.ErrShortWrite }

// TestTooManyOutputs checks that the output beyond the maximum is refused, with an error, and
// that a set has a bit for each of the others.
func TestTooManyOutputs(t *testing.T) {
	if last, beyond := filter.Only(filter.MaxOutputs-1), filter.Only(filter.MaxOutputs); last == 0 || beyond != 0 {
		t.Errorf("sets of output %d and the one after it are %b and %b, want the last bit and 0", filter.MaxOutputs-1, last, beyond)
	}
	h := New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	for i := range filter.MaxOutputs + 1 {
		err := h.Attach(context.Background(), &watching{list: &list{}}, nil, &Offer{})
		if (err != nil) != (i == filter.MaxOutputs) {
			t.Errorf("output %d: error %v, want one only for output %d", i, err, filter.MaxOutputs)
		}
	}
}

// TestRefusedSnapshots checks that errors of an output are logged with growing intervals
// and do not affect the other outputs.
func TestRefusedSnapshots(t *testing.T) {
	var log strings.Builder
	l := &list{}
	h := New(slog.New(slog.NewTextHandler(&log, nil)))
	for _, out := range []outputs.Output{refusing{}, &watching{list: l}} {
		if err := h.Attach(context.Background(), out, nil, &Offer{Export: config.Export{Mode: config.ExportAll}}); err != nil {
			t.Fatal(err)
		}
	}
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(h)).Tracer("")
	for range 50 {
		_, s := tracer.Start(context.Background(), "x")
		s.End()
	}
	if got, want := strings.Count(log.String(), "telemetry output failed"), 3; got != want { // 1, 10, 100
		t.Errorf("%d lines about 100 failures, want %d:\n%s", got, want, &log)
	}
	if got, want := l.String(), strings.Repeat("start, stop, ", 49)+"start, stop"; got != want {
		t.Errorf("the other output got %s, want 50 starts and stops", got)
	}
}

// TestHiddenSpansAreForgotten checks that the hub remembers filtered spans only while
// they are open.
func TestHiddenSpansAreForgotten(t *testing.T) {
	const open, all = 8, 10_000
	h := New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err := h.Attach(context.Background(), &watching{list: &list{}}, &config.Export{Mode: config.Whitelist}, &Offer{}); err != nil {
		t.Fatal(err)
	}
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(h)).Tracer("")
	var ring [open]trace.Span
	for i := range all {
		if s := ring[i%open]; s != nil {
			s.End()
		}
		_, ring[i%open] = tracer.Start(context.Background(), "hidden")
		if got, want := h.Held(), min(i+1, open); got != want {
			t.Fatalf("after %d spans Held() = %d, want %d", i+1, got, want)
		}
	}
	for _, s := range ring {
		s.End()
		s.End() // the second call does nothing
	}
	if got := h.Held(); got != 0 {
		t.Errorf("after the end of all spans Held() = %d, want 0", got)
	}
}

package ai_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/trace"
)

// outline returns events as "name(children)", in the order of their starts.
func outline(events []dftracer.Event) string {
	below := make(map[int64][]dftracer.Event)
	known := make(map[int64]bool)
	for _, ev := range events {
		known[int64(ev.ID)] = true
	}
	for _, ev := range events {
		parent := ev.Parent
		if !known[parent] {
			parent = dftracer.NoParent
		}
		below[parent] = append(below[parent], ev)
	}
	var draw func(int64) string
	draw = func(id int64) string {
		var parts []string
		for _, ev := range below[id] {
			part := ev.Name
			if inner := draw(int64(ev.ID)); inner != "" {
				part += "(" + inner + ")"
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, " ")
	}
	return draw(dftracer.NoParent)
}

// forms are configurations in which a provider records scopes differently. The
// trace is the same.
var forms = map[string][]with{
	"direct": nil,
	"exported spans": {func(b *telemetry.TrainingTelemetryBuilder) {
		b.WithSpanExporter(&backend{}).WithExportCustomization(config.Export{Mode: config.ExportAll})
	}},
	"hidden spans": {func(b *telemetry.TrainingTelemetryBuilder) { b.WithSpanProcessor(&foreign{}) }},
}

func TestNestingWithoutTheScopesContext(t *testing.T) {
	type key struct{}
	for name, c := range map[string]struct {
		run  func(context.Context, *ai.Tree, *telemetry.Provider)
		want string
	}{
		"plain iterators": {func(ctx context.Context, t *ai.Tree, _ *telemetry.Provider) {
			for range t.Pipeline.Epoch.Range(ctx, 2) {
				for range ai.Iter(ctx, t.DataLoader.Fetch, func(yield func(int) bool) { yield(1) }) {
					t.Compute.Forward.Start(ctx).End()
				}
			}
			t.Checkpoint.Capture.Start(ctx).End()
		}, "epoch.iter epoch.block(fetch.iter fetch.block(forward)) epoch.iter epoch.block(fetch.iter fetch.block(forward)) capture"},
		"below a scope, with spans": {func(ctx context.Context, t *ai.Tree, tel *telemetry.Provider) {
			ctx, train := t.Pipeline.Train.StartContext(ctx)
			for range t.Pipeline.Epoch.Range(ctx, 1, &ai.IterOptions{NoIter: true}) {
				ctx := context.WithValue(ctx, key{}, 1)
				inner, s := tel.StartSpan(ctx, "custom")
				t.Compute.Start(inner).End()
				s.End()
				_, plain := tel.Tracer("x").Start(ctx, "plain")
				plain.End()
			}
			train.End()
		}, "train(epoch.block(custom(compute) plain))"},
		"with context": {func(ctx context.Context, t *ai.Tree, _ *telemetry.Provider) {
			for inner := range t.Pipeline.Epoch.RangeContext(ctx, 1, &ai.IterOptions{NoIter: true}) {
				t.Compute.Forward.Start(ctx).End() // a sibling, as its context says
				t.Compute.Backward.Start(inner).End()
			}
		}, "epoch.block(backward) forward"},
		"hooks": {func(ctx context.Context, t *ai.Tree, _ *telemetry.Provider) {
			t.Pipeline.Train.Begin(ctx)
			for range 2 {
				t.Compute.Begin(ctx)
				t.Compute.Step.Begin(ctx)
				t.Compute.Step.Stop(ctx)
				t.Compute.Stop(ctx)
			}
			t.Pipeline.Train.Stop(ctx)
		}, "train(compute(step) compute(step))"},
		"hooks on goroutines, one after the other": {func(ctx context.Context, t *ai.Tree, _ *telemetry.Provider) {
			for i, do := range []func(context.Context){
				t.Pipeline.Train.Begin, t.Compute.Begin, t.Compute.Step.Begin, t.Compute.Step.Stop, t.Compute.Stop, t.Pipeline.Train.Stop,
			} {
				done := make(chan struct{})
				go func() { defer close(done); do(context.WithValue(ctx, key{}, i)) }()
				<-done
			}
		}, "train(compute(step))"},
		"a missed stop": {func(ctx context.Context, t *ai.Tree, _ *telemetry.Provider) {
			for range 2 {
				t.Pipeline.Epoch.Begin(ctx)
				t.Compute.Begin(ctx)
				t.Pipeline.Epoch.Stop(ctx)
			}
			for range 2 {
				t.Compute.Stop(ctx)
			}
		}, "epoch compute epoch compute"}, // they outlived their epochs
		"loops that overlap": {func(ctx context.Context, t *ai.Tree, _ *telemetry.Provider) {
			overlap(ctx, t)
			for range t.Data.Item.Range(ctx, 1, &ai.IterOptions{NoIter: true}) {
				t.Compute.Start(ctx).End()
			}
		}, "fetch.block preprocess.block item.block compute"},
		"loops that overlap elsewhere": {func(ctx context.Context, t *ai.Tree, _ *telemetry.Provider) {
			inner, s := t.Data.StartContext(ctx)
			overlap(inner, t)
			s.End()
			for range t.Data.Item.Range(ctx, 1, &ai.IterOptions{NoIter: true}) {
				t.Compute.Start(ctx).End()
			}
		}, "data(fetch.block preprocess.block) item.block(compute)"},
	} {
		for form, more := range forms {
			t.Run(name+", "+form, func(t *testing.T) {
				tree, tel, path := newTree(t, "trace.pfw", &pfw.Options{NoBegin: true}, more...)
				c.run(context.Background(), tree, tel)
				if got := outline(finish(t, tel, path)); got != c.want {
					t.Errorf("the trace is %s, want %s", got, c.want)
				}
			})
		}
	}
}

// overlap starts a block inside another one and ends it after that.
func overlap(ctx context.Context, t *ai.Tree) {
	started, stopped := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	for range t.DataLoader.Fetch.Range(ctx, 1, &ai.IterOptions{NoIter: true}) {
		wg.Go(func() {
			for range t.Data.Preprocess.Range(ctx, 1, &ai.IterOptions{NoIter: true}) {
				close(started)
				<-stopped
			}
		})
		<-started
	}
	close(stopped)
}

func TestHooksThatMissTheirStop(t *testing.T) {
	const n = 3000
	got := record(t, func(ctx context.Context, tree *ai.Tree) {
		for range n {
			tree.Compute.Forward.Begin(ctx)
		}
		tree.Compute.Backward.Begin(ctx)
		tree.Compute.Backward.Stop(ctx)
	})
	truncated, deepest := 0, 0
	for _, ev := range got {
		if arg(ev, "truncated") == "1" {
			truncated++
		}
		deepest = max(deepest, ev.Level)
	}
	if len(got) != n+1 || truncated != n || deepest > 100 {
		t.Errorf("%d events, %d truncated, %d levels; want %d, %d, at most 100", len(got), truncated, deepest, n+1, n)
	}
}

// An update in the body of a loop applies to the block it is in, as in
// DFTracer's traces.
func TestArgumentsAreThoseOfTheEnd(t *testing.T) {
	for form, more := range forms {
		t.Run(form, func(t *testing.T) {
			tree, tel, path := newTree(t, "trace.pfw", &pfw.Options{NoBegin: true}, more...)
			ctx, train := tree.Pipeline.Train.StartContext(context.Background())
			for epoch := range tree.Pipeline.Epoch.Range(ctx, 3) {
				for step := range tree.DataLoader.Fetch.Range(ctx, 2) {
					tree.Root.Update(ai.Epoch(epoch), ai.Step(step))
					tree.Compute.Forward.Start(ctx).End()
				}
			}
			tree.Pipeline.Evaluate.Begin(ctx)
			tree.Root.Update(ai.Step(7), ai.ImageIndex(3))
			tree.Pipeline.Evaluate.Stop(ctx)
			own := tree.Data.Start(ctx, ai.Epoch(9))
			own.Set(ai.ImageIndex(4))
			tree.Root.Update(ai.ImageIndex(5))
			own.End()
			train.End()
			var list []string
			for _, ev := range finish(t, tel, path) {
				list = append(list, fmt.Sprintf("%s %s.%s#%s/%s", ev.Name, arg(ev, "epoch"), arg(ev, "step"), arg(ev, "count"), arg(ev, "image_idx")))
			}
			want := []string{"train 2.7#-/5",
				"epoch.iter -.-#1/-", "epoch.block 0.1#1/-",
				"fetch.iter -.-#1/-", "fetch.block 0.0#1/-", "forward 0.0#-/-", "fetch.iter 0.0#2/-", "fetch.block 0.1#2/-", "forward 0.1#-/-",
				"epoch.iter 0.1#2/-", "epoch.block 1.1#2/-",
				"fetch.iter 0.1#1/-", "fetch.block 1.0#1/-", "forward 1.0#-/-", "fetch.iter 1.0#2/-", "fetch.block 1.1#2/-", "forward 1.1#-/-",
				"epoch.iter 1.1#3/-", "epoch.block 2.1#3/-",
				"fetch.iter 1.1#1/-", "fetch.block 2.0#1/-", "forward 2.0#-/-", "fetch.iter 2.0#2/-", "fetch.block 2.1#2/-", "forward 2.1#-/-",
				"evaluate 2.7#-/3", "data 9.7#-/4"}
			if got, want := strings.Join(list, "\n"), strings.Join(want, "\n"); got != want {
				t.Errorf("events are\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestFail(t *testing.T) {
	first, second := errors.New("Get \"https://u:hunter2@store/x\": EOF"), errors.New("second")
	clean := failure.Text(first)
	if strings.Contains(clean, "hunter2") {
		t.Fatalf("%q has the password, want it without", clean)
	}
	for form, more := range forms {
		t.Run(form, func(t *testing.T) {
			tree, tel, path := newTree(t, "trace.pfw", nil, more...)
			ctx := context.Background()
			inner, s := tree.Compute.StartContext(ctx)
			s.Fail(first)
			s.Fail(nil)
			s.Fail(second)
			tree.Compute.Forward.Start(inner).EndErr(nil)
			s.End()
			s.Fail(first)
			err := func() (err error) {
				defer tree.Compute.Backward.Start(ctx).EndErr(&err)
				return first
			}()
			if err != first {
				t.Errorf("EndErr changed the error to %v, want %v", err, first)
			}
			got := finish(t, tel, path)
			for name, want := range map[string]string{"compute": "ERROR second", "forward": "- -", "backward": "ERROR " + clean} {
				ev := find(t, got, name)
				if have := arg(ev, "otel.status_code") + " " + arg(ev, "otel.status_description"); have != want {
					t.Errorf("%s has the status %s, want %s", name, have, want)
				}
			}
			if ev := find(t, got, "forward"); ev.Level != 2 {
				t.Error("Fail ended the scope, want it open")
			}
		})
	}
}

// Scopes and iterators use the provider's clock too.
func TestClockOfTheProvider(t *testing.T) {
	for form, more := range forms {
		t.Run(form, func(t *testing.T) {
			ahead := 24 * time.Hour
			clock := func() time.Time { return time.Now().Add(ahead) }
			tree, tel, path := newTree(t, "trace.pfw", nil, append([]with{func(b *telemetry.TrainingTelemetryBuilder) { b.WithClock(clock) }}, more...)...)
			ctx, s := tel.StartSpan(context.Background(), "outer")
			for range tree.DataLoader.Fetch.Range(ctx, 2) {
				tree.Compute.Start(ctx).End()
			}
			tree.Pipeline.Epoch.NoteStart(ctx)
			s.End()
			from := time.Now().Add(ahead - time.Hour).UnixMicro()
			for _, ev := range finish(t, tel, path) {
				if ev.TS < from || ev.Dur > time.Hour.Microseconds() {
					t.Errorf("%s starts %v off and lasts %d µs, want 0 and at most an hour", ev.Name, time.Duration(from-ev.TS)*time.Microsecond, ev.Dur)
				}
			}
			for _, ev := range dftest.Events(t, path) {
				if key, value := ev.Meta(); key == "epoch.start" && value < fmt.Sprint(from) {
					t.Errorf("record epoch.start has the time %s, want %d or later", value, from)
				}
			}
		})
	}
}

// Spans that are open at Shutdown keep their parents and are marked.
func TestOpenAtShutdown(t *testing.T) {
	for form, more := range forms {
		t.Run(form, func(t *testing.T) {
			tree, tel, path := newTree(t, "trace.pfw", nil, more...)
			ctx, _ := tel.StartSpan(context.Background(), "outer")
			ctx, _ = tree.Pipeline.Train.StartContext(ctx)
			tree.Compute.Begin(ctx)
			tree.Compute.Forward.Start(ctx).End()
			tree.Compute.Backward.Start(ctx)
			got := finish(t, tel, path)
			if o := outline(got); o != "outer(train(compute(forward backward)))" {
				t.Errorf("the trace is %s, want \"outer(train(compute(forward backward)))\"", o)
			}
			for _, ev := range got {
				if want := ev.Name != "forward"; (arg(ev, "truncated") == "1") != want {
					t.Errorf("%s: truncated is %s, want 1: %v", ev.Name, arg(ev, "truncated"), want)
				}
			}
		})
	}
}

// Goroutines share contexts against the advice: parents are uncertain when
// loops and hooks overlap, but the trace is valid.
func TestSharedContexts(t *testing.T) {
	for form, more := range forms {
		t.Run(form, func(t *testing.T) {
			tree, tel, path := newTree(t, "trace.pfw", nil, more...)
			shared, s := tree.Pipeline.Train.StartContext(context.Background())
			var wg sync.WaitGroup
			const goroutines, rounds = 8, 20
			for g := range goroutines {
				wg.Go(func() {
					ctx := shared
					if g%2 == 0 {
						ctx = context.Background()
					}
					for range tree.DataLoader.Fetch.Range(ctx, rounds) {
						tree.Compute.Begin(ctx)
						_, custom := tel.StartSpan(ctx, "custom")
						tree.Compute.Forward.Start(ctx).End()
						custom.End()
						tree.Compute.Stop(ctx)
					}
				})
			}
			wg.Wait()
			s.End()
			tree.Checkpoint.Capture.Start(context.Background()).End()
			got := finish(t, tel, path)
			if want := goroutines*rounds*5 + 2; len(got) != want {
				t.Errorf("%d events, want %d", len(got), want)
			}
		})
	}
}

// A request from another process is a root, whatever the program is doing.
func TestRemoteParent(t *testing.T) {
	remote := trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true,
	}))
	tree, tel, path := newTree(t, "trace.pfw", nil)
	for range tree.Pipeline.Epoch.Range(context.Background(), 1, &ai.IterOptions{NoIter: true}) {
		_, s := tel.Tracer("x").Start(remote, "request")
		s.End()
	}
	for range tree.Pipeline.Epoch.Range(remote, 1, &ai.IterOptions{NoIter: true}) {
		tree.Compute.Start(remote).End()
	}
	if o := outline(finish(t, tel, path)); o != "epoch.block request epoch.block(compute)" {
		t.Errorf("the trace is %s, want \"epoch.block request epoch.block(compute)\"", o)
	}
}

func TestOpenAtForceDisable(t *testing.T) {
	tree, tel, path := newTree(t, "trace.pfw", nil)
	ctx, _ := tel.StartSpan(context.Background(), "outer")
	tree.Compute.Start(ctx)
	tel.ForceDisable()
	if o := outline(finish(t, tel, path)); o != "outer(compute)" {
		t.Errorf("the trace is %s, want \"outer(compute)\"", o)
	}
}

// Goroutines record continuously; each trace is complete whenever Shutdown
// comes.
func TestShutdownAtAnyMoment(t *testing.T) {
	for round := range 15 {
		tree, tel, path := newTree(t, "trace.pfw", &pfw.Options{BeginAfter: time.Millisecond})
		stop, now := make(chan struct{}), make(chan struct{})
		var rounds atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for ctx := context.Background(); ; {
					if rounds.Add(1) == int64(1+8*round) {
						close(now)
					}
					select {
					case <-stop:
						return
					default:
					}
					inner, s := tree.Pipeline.Train.StartContext(ctx)
					for range tree.DataLoader.Fetch.Range(inner, 3) {
						tree.Compute.Begin(inner)
						_, custom := tel.StartSpan(inner, "custom")
						tree.Compute.Forward.Start(inner).End()
						custom.End()
						tree.Compute.Stop(inner)
					}
					s.End()
				}
			})
		}
		<-now
		if err := tel.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		close(stop)
		wg.Wait()
		if report := dftest.Check(t, path); t.Failed() || report.Orphans+report.Open+report.Lost != 0 {
			t.Fatalf("round %d: %d orphans, %d open, %d lost; want none", round, report.Orphans, report.Open, report.Lost)
		}
	}
}

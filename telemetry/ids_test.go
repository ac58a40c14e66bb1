package telemetry_test

import (
	"context"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/trace"
)

// 1,024 ranks with equal seeds: all ids differ, and all ranks are in one trace.
func TestRanksShareATraceAndNoSpanID(t *testing.T) {
	const ranks, each = 1024, 256
	ctx := context.Background()
	var mu sync.Mutex
	seen := make(map[trace.SpanID]bool, ranks*each)
	traces := map[trace.TraceID]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range ranks / 8 {
				g := telemetry.JobIDs("run-42", "job-7", 1)
				ids := make([]trace.SpanID, 0, each)
				tid, sid := g.NewIDs(ctx)
				ids = append(ids, sid)
				for len(ids) < each {
					ids = append(ids, g.NewSpanID(ctx, tid))
				}
				mu.Lock()
				traces[tid] = true
				for _, id := range ids {
					if seen[id] {
						t.Errorf("two spans have the ID %s, want different ones", id)
					}
					seen[id] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(traces) != 1 || len(seen) != ranks*each {
		t.Errorf("%d traces and %d span IDs, want 1 and %d", len(traces), len(seen), ranks*each)
	}
}

func TestTraceIDDerivesFromTheJob(t *testing.T) {
	ctx := context.Background()
	id := func(session, job string, attempt int) trace.TraceID {
		tid, _ := telemetry.JobIDs(session, job, attempt).NewIDs(ctx)
		return tid
	}
	first := id("run", "job", 0)
	if first != id("run", "job", 0) {
		t.Error("two calls give two trace ids, want one for the same job")
	}
	for name, other := range map[string]trace.TraceID{
		"session": id("run2", "job", 0), "job": id("run", "job2", 0), "attempt": id("run", "job", 1), "shift": id("runj", "ob", 0),
	} {
		if other == first {
			t.Errorf("another %s has the same trace ID, want another", name)
		}
	}
	a, _ := telemetry.RandomIDs().NewIDs(ctx)
	b, _ := telemetry.RandomIDs().NewIDs(ctx)
	if a == b {
		t.Errorf("two random trace ids are %v, want different ones", a)
	}
}

func TestProcessesOfAJobShareATrace(t *testing.T) {
	trace := func(world, attempt int, job string) trace.TraceID {
		j := newJob(t, func(c *config.Base, b *telemetry.TrainingTelemetryBuilder) {
			c.WorldSize = config.Value(world)
			b.WithIdentity(telemetry.Identity{Ranks: config.Ranks{Attempt: config.Value(attempt), Job: job}})
		})
		_, s := j.tel.StartSpan(j.ctx, "x")
		defer s.End()
		return s.SpanContext().TraceID()
	}
	first, second := trace(2, 0, "j"), trace(2, 0, "j")
	if first != second {
		t.Errorf("two ranks of a job have the trace ids %v and %v, want one", first, second)
	}
	if first == trace(2, 1, "j") {
		t.Errorf("two attempts have the trace id %v, want one for each", first)
	}
	if alone, other := trace(1, 0, "j"), trace(1, 0, "j"); alone == other {
		t.Errorf("two jobs of one process have the trace id %v, want one for each", alone)
	}
	if one, another := trace(2, 0, "j"), trace(2, 0, "k"); one == another {
		t.Errorf("two runs with one session tag have the trace id %v, want one for each", one)
	}
	if one, another := trace(2, 0, ""), trace(2, 0, ""); one == another {
		t.Error("two runs with only a session tag have one trace, want two")
	}
}

func TestSpanIDAllocations(t *testing.T) {
	g := telemetry.RandomIDs()
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() { g.NewSpanID(ctx, trace.TraceID{1}) }); n > 0 {
		t.Errorf("a span id allocates %v times, want none", n)
	}
}

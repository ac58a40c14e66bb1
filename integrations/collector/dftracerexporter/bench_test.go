package dftracerexporter

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// job makes the spans of iterations of a training loop that stays open, in the
// order in which an SDK sends them.
func job(from, iterations int) ptrace.Traces {
	return jobOf(42, from, iterations)
}

func jobOf(pid, from, iterations int) ptrace.Traces {
	td := batch(pid)
	spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	add := func(id, parent int, name string, start, end int64, step int) {
		s := spans.AppendEmpty()
		s.SetTraceID(traceID())
		s.SetSpanID(scattered(id))
		s.SetParentSpanID(scattered(parent))
		s.SetName(name)
		s.SetStartTimestamp(at(start))
		s.SetEndTimestamp(at(end))
		s.SetFlags(flagKnowsRemote)
		s.Attributes().PutInt("epoch", int64(step/100))
		s.Attributes().PutInt("step", int64(step))
	}
	for i := from; i < from+iterations; i++ {
		id, begin := 10+i*10, int64(1000*i)
		add(id+1, id, "data_loading", begin+1, begin+100, i)
		add(id+2, id, "model_forward", begin+100, begin+400, i)
		add(id+3, id, "model_backward", begin+400, begin+800, i)
		add(id+4, id, "optimizer_update", begin+800, begin+900, i)
		add(id, 1, "training_single_iteration", begin, begin+950, i)
	}
	return td
}

// scattered returns ids as random as those of an SDK, so that compressed sizes
// are realistic.
func scattered(n int) pcommon.SpanID {
	id := wideID(int(uint64(n) * 0x9e3779b97f4a7c15 >> 1))
	return id
}

func BenchmarkExport(b *testing.B) {
	r := start(b, func(c *Config) { c.OrderWindow = 0 })
	const iterations = 100
	td := job(0, iterations)
	wire, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err != nil {
		b.Fatal(err)
	}
	packed := gziptest.Pack(wire)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		td := job(n*iterations, iterations)
		n++
		b.StartTimer()
		if err := r.traces.ConsumeTraces(context.Background(), td); err != nil {
			b.Fatal(err)
		}
	}
	r.stop()
	per := float64(5 * iterations)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/per, "ns/span")
	b.ReportMetric(float64(len(wire))/per, "otlp-bytes/span")
	b.ReportMetric(float64(len(packed))/per, "otlp-gzip-bytes/span")
	var disk int64
	for _, f := range r.files() {
		disk += sizeOf(b, f)
	}
	b.ReportMetric(float64(disk)/float64(n)/per, "disk-bytes/span")
}

// BenchmarkMemory has 1,024 and 10,240 resources that send continuously, with
// 50 spans below one that is open. It reports the highest memory of the heap
// and of the process, and the heap for each resource, which does not grow with
// their number:
//
//	go test -run '^$' -bench Memory -benchtime 1x .
func BenchmarkMemory(b *testing.B) {
	for _, resources := range []int{1024, 10_240} {
		b.Run(strconv.Itoa(resources), func(b *testing.B) { memory(b, resources, 10_240/resources) })
	}
}

func memory(b *testing.B, resources, rounds int) {
	for b.Loop() {
		r := start(b, func(c *Config) {
			c.OrderWindow, c.MaxFilesPerHost, c.MaxProcesses = 2*time.Second, resources, max(resources, c.MaxProcesses)
		})
		var most growth.Peak
		for round := range rounds {
			for p := range resources {
				r.send(jobOf(1000+p, 10*round, 10))
				if p%128 == 0 {
					most.Look(b)
				}
			}
		}
		r.stop()
		if n := r.counter("otelcol_dftracer_spans_written"); n != int64(50*rounds*resources) {
			b.Fatalf("%d spans are written, want %d", n, 50*rounds*resources)
		}
		most.Report(b)
		b.ReportMetric(most.Heap()/float64(resources)/1e3, "heap-kB/resource")
	}
}

package dftracer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// BenchmarkFlush prints what flushing costs in bytes per event, for a job with
// a number of spans a second. Each flush makes a gzip member, or with single is
// a flush of the only member.
func BenchmarkFlush(b *testing.B) {
	for _, rate := range []int{20, 1000} {
		for _, every := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second} {
			for name, compression := range map[string]dftracer.Compression{"members": dftracer.CompressMembers, "single": dftracer.CompressSingle} {
				b.Run(fmt.Sprintf("%d/%v/%s", rate, every, name), func(b *testing.B) {
					var n, size uint64
					for b.Loop() {
						w := newBenchWriter(b, &dftracer.Options{FlushInterval: time.Hour, Heartbeat: -1, Compression: compression})
						n, size = slowJob(b, w, rate, int(float64(rate)*every.Seconds()))
					}
					b.ReportMetric(float64(size)/float64(n), "B/event")
				})
			}
		}
	}
}

// slowJob writes steps at a rate and flushes after each batch. It returns the
// number of events and of bytes.
func slowJob(b *testing.B, w *dftracer.Writer, rate, batch int) (events, size uint64) {
	b.Helper()
	var keys [len(stepNames)]dftracer.Key
	for i, s := range stepNames {
		keys[i] = dftracer.NewKey(s.cat, s.name)
	}
	before := w.Stats().DiskBytes
	random := rand.New(rand.NewPCG(1, 2))
	ts, gap := int64(1700000000000000), int64(1_000_000/rate)
	const n = 20_000
	var parent uint64
	for i := range n {
		at, step := i%len(keys), int64(i/len(keys))
		if at == 0 {
			parent = w.NextID()
		}
		id := w.NextID()
		ts += gap/2 + random.Int64N(gap)
		w.WriteComplete(&keys[at], dftracer.Span{ID: id, TID: 4242, TS: ts, Dur: gap/4 + random.Int64N(gap/8), Level: 2, Parent: int64(parent)},
			dftracer.Int("epoch", step/1000), dftracer.Int("step", step%1000))
		if i%batch == batch-1 {
			if err := w.FlushContext(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := w.FlushContext(context.Background()); err != nil {
		b.Fatal(err)
	}
	return n, w.Stats().DiskBytes - before
}

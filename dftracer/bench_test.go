package dftracer_test

import (
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

func newBenchWriter(b *testing.B, opts *dftracer.Options) *dftracer.Writer {
	b.Helper()
	w, err := dftracer.NewWriter(io.Discard, opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = w.Close() })
	return w
}

func BenchmarkWriteComplete(b *testing.B) {
	w := newBenchWriter(b, nil)
	key := dftracer.NewKey("compute", "forward")
	ts := time.Now().UnixMicro()
	b.ReportAllocs()
	for b.Loop() {
		ts += 37
		w.WriteComplete(&key, dftracer.Span{ID: w.NextID(), TID: 4242, TS: ts, Dur: 31, Level: 3, Parent: 17},
			dftracer.Int("epoch", 3), dftracer.Int("step", 1234), dftracer.Int("image_idx", 77))
	}
}

func BenchmarkWriteCompletePlain(b *testing.B) {
	w := newBenchWriter(b, &dftracer.Options{Compression: dftracer.CompressNone})
	key := dftracer.NewKey("compute", "forward")
	ts := time.Now().UnixMicro()
	b.ReportAllocs()
	for b.Loop() {
		ts += 37
		w.WriteComplete(&key, dftracer.Span{ID: w.NextID(), TID: 4242, TS: ts, Dur: 31, Level: 3, Parent: 17},
			dftracer.Int("epoch", 3), dftracer.Int("step", 1234), dftracer.Int("image_idx", 77))
	}
}

func BenchmarkWriteCompleteParallel(b *testing.B) {
	w := newBenchWriter(b, nil)
	key := dftracer.NewKey("compute", "forward")
	start := time.Now().UnixMicro()
	var lane atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		tid, ts := 4242+lane.Add(1), start
		for pb.Next() {
			ts += 37
			w.WriteComplete(&key, dftracer.Span{ID: w.NextID(), TID: tid, TS: ts, Dur: 31, Level: 3, Parent: 17},
				dftracer.Int("epoch", 3), dftracer.Int("step", 1234), dftracer.Int("image_idx", 77))
		}
	})
}

func BenchmarkWriteEvent(b *testing.B) {
	w := newBenchWriter(b, nil)
	args := []dftracer.Arg{dftracer.Int("epoch", 3), dftracer.Int("step", 1234), dftracer.Int("image_idx", 77)}
	ev := dftracer.Event{Name: "forward", Cat: "compute", TID: 4242, TS: time.Now().UnixMicro(), Dur: 31, Level: 3, Parent: 17, Args: args}
	b.ReportAllocs()
	for b.Loop() {
		ev.ID = w.NextID()
		ev.TS += 37
		w.Write(&ev)
	}
}

// stepNames is the mix of a training step: waiting for data, the passes, the
// optimizer and communication, inside an iteration.
var stepNames = [...]struct {
	cat, name string
	dur       int64
}{
	{"dataloader", "fetch.iter", 180},
	{"data", "item", 90},
	{"device", "transfer", 240},
	{"compute", "forward", 1900},
	{"compute", "backward", 3800},
	{"comm", "all_reduce", 700},
	{"compute", "step", 420},
	{"pipeline", "train.iteration", 7600},
}

// writeSteps writes n events of the mix with durations that vary like real ones.
func writeSteps(w *dftracer.Writer, lane int64, n int) {
	var keys [len(stepNames)]dftracer.Key
	for i, s := range stepNames {
		keys[i] = dftracer.NewKey(s.cat, s.name)
	}
	ts := time.Now().UnixMicro()
	noise := uint64(lane)*0x9e3779b97f4a7c15 + 1
	var parent uint64
	var begin int64
	for i := range n {
		at := i % len(stepNames)
		step := int64(i / len(stepNames))
		if at == 0 {
			parent, begin = w.NextID(), ts
		}
		noise ^= noise << 13
		noise ^= noise >> 7
		noise ^= noise << 17
		dur := stepNames[at].dur + int64(noise%uint64(stepNames[at].dur/4))
		if at == len(stepNames)-1 {
			ts += dur % 64
			w.WriteComplete(&keys[at], dftracer.Span{ID: parent, TID: lane, TS: begin, Dur: ts - begin, Level: 1, Parent: dftracer.NoParent},
				dftracer.Int("epoch", step/1000), dftracer.Int("step", step%1000))
			continue
		}
		w.WriteComplete(&keys[at], dftracer.Span{ID: w.NextID(), TID: lane, TS: ts, Dur: dur, Level: 2, Parent: int64(parent)},
			dftracer.Int("epoch", step/1000), dftracer.Int("step", step%1000))
		ts += dur + int64(noise>>32%16)
	}
}

func BenchmarkEndToEnd(b *testing.B) {
	for _, bench := range []struct {
		name  string
		level int
	}{{"adaptive", 0}, {"level1", 1}, {"level6", 6}} {
		b.Run(bench.name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "trace.pfw.gz")
			w, err := dftracer.Create(path, &dftracer.Options{Level: bench.level})
			if err != nil {
				b.Fatal(err)
			}
			const batch = 10000
			var lane, events atomic.Int64
			b.SetParallelism(1)
			start := time.Now()
			b.RunParallel(func(pb *testing.PB) {
				tid := 4242 + lane.Add(1)
				for pb.Next() {
					writeSteps(w, tid, batch)
					events.Add(batch)
				}
			})
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			s := w.Stats()
			sec := time.Since(start).Seconds()
			info, err := os.Stat(path)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(events.Load())/sec, "events/s")
			b.ReportMetric(float64(s.Bytes)/1e6/sec, "MB/s")
			b.ReportMetric(float64(info.Size())/float64(s.Lines), "diskB/event")
			b.ReportMetric(float64(s.Bytes)/float64(s.Lines), "textB/event")
		})
	}
}

package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/dftracer"
)

// Sustained returns the events per second that all cores together write to a
// compressed trace, until the file is closed, and the events per second of CPU
// time, including compression and garbage collection.
func Sustained(dir string, perGoroutine int) (rate, perCore float64, err error) {
	tree, tel, err := newTree(dir, "sustained.pfw.gz", nil)
	if err != nil {
		return 0, 0, err
	}
	tree.Root.Update(ai.Epoch(3), ai.Step(12))
	used, start := processTime(), time.Now()
	var wg sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for range cores {
		wg.Go(func() {
			ctx, s := tree.Compute.StartContext(context.Background())
			defer s.End()
			for range perGoroutine {
				tree.Compute.Forward.Start(ctx).End()
			}
		})
	}
	wg.Wait()
	if err := tel.Shutdown(context.Background()); err != nil {
		return 0, 0, err
	}
	events := float64(cores * (perGoroutine + 1))
	return events / time.Since(start).Seconds(), events / (processTime() - used).Seconds(), nil
}

// Latency returns the quantiles of the durations of single scopes while their
// records are compressed.
func Latency(dir string, scopes int) (p50, p99, p999 time.Duration, err error) {
	tree, tel, err := newTree(dir, "latency.pfw.gz", nil)
	if err != nil {
		return 0, 0, 0, err
	}
	tree.Root.Update(ai.Epoch(3), ai.Step(12))
	times := make([]time.Duration, scopes)
	ctx := context.Background()
	for i := range times {
		start := time.Now()
		tree.Compute.Forward.Start(ctx).End()
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	at := func(q float64) time.Duration { return times[int(q*float64(scopes))] }
	return at(0.5), at(0.99), at(0.999), tel.Shutdown(ctx)
}

// stepMix is one training step: its events in their order, with the median
// duration in microseconds and the depth.
var stepMix = []struct {
	key   dftracer.Key
	dur   float64
	vary  float64 // spread of the times around the median
	depth int
	count bool
}{
	{dftracer.NewKey("dataloader", "fetch.iter"), 900, 0.5, 1, true},
	{dftracer.NewKey("data", "item"), 2100, 0.25, 2, false},
	{dftracer.NewKey("data", "preprocess.collate"), 350, 0.1, 2, false},
	{dftracer.NewKey("device", "transfer"), 600, 0.05, 2, false},
	{dftracer.NewKey("compute", "forward"), 21000, 0.02, 3, false},
	{dftracer.NewKey("compute", "backward"), 43000, 0.02, 3, false},
	{dftracer.NewKey("comm", "all_reduce"), 9000, 0.1, 3, false},
	{dftracer.NewKey("compute", "compute"), 76000, 0.02, 2, false},
	{dftracer.NewKey("compute", "step"), 4200, 0.02, 2, false},
	{dftracer.NewKey("pipeline", "train.iteration"), 84000, 0.03, 1, false},
	{dftracer.NewKey("dataloader", "fetch.block"), 84500, 0.03, 0, true},
}

// BytesPerEvent writes a realistic mix of events with random durations and
// returns its size on disk and as text, per event, and the path of the file. A
// gzip member ends after that number of steps, or, at 0, when it is full. A
// real job uses level 6 at its pace; this benchmark writes faster.
func BytesPerEvent(dir string, steps, member, level int) (disk, text float64, path string, err error) {
	path = filepath.Join(dir, fmt.Sprintf("mix%d-%d.pfw.gz", member, level))
	w, err := dftracer.Create(path, &dftracer.Options{Level: level})
	if err != nil {
		return 0, 0, "", err
	}
	r := rand.New(rand.NewPCG(1, 2))
	now := time.Now().UnixMicro()
	events := 0
	pid := int64(os.Getpid())
	for step := range steps {
		first := w.NextID()
		at := now
		for i := range stepMix {
			m := &stepMix[i]
			dur := int64(m.dur * math.Exp(m.vary*r.NormFloat64()))
			id := first
			if i > 0 {
				id = w.NextID()
			}
			args := []dftracer.Arg{dftracer.Int("epoch", int64(step/1000)), dftracer.Int("step", int64(step%1000))}
			if m.count {
				args = append(args, dftracer.Int("count", int64(step%1000+1)))
			}
			w.WriteComplete(&m.key, dftracer.Span{ID: id, TID: pid, TS: at, Dur: dur, Level: m.depth + 2, Parent: int64(first)}, args...)
			at += dur + int64(r.IntN(40))
			events++
		}
		now = at
		if member > 0 && step%member == member-1 {
			if err := w.FlushContext(context.Background()); err != nil {
				return 0, 0, "", err
			}
		}
	}
	if err := w.Close(); err != nil {
		return 0, 0, "", err
	}
	st := w.Stats()
	return float64(st.DiskBytes) / float64(events), float64(st.Bytes) / float64(events), w.Path(), nil
}

package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

var benchEvents = flag.Int("events", 200_000, "events of the trace that the benchmarks read")

// writeJob writes about n events of a training job with three lanes in the
// order in which its spans end, and returns their number.
func writeJob(tb testing.TB, path string, n int) (events int) { return writeRank(tb, path, 0, n) }

// writeRank is writeJob for one of several ranks.
func writeRank(tb testing.TB, path string, rank, n int) (events int) {
	tb.Helper()
	w, err := dftracer.Create(path, &dftracer.Options{Process: dftracer.Process{Rank: &rank}, Level: 1})
	if err != nil {
		tb.Fatal(err)
	}
	keys := [...]dftracer.Key{dftracer.NewKey("dataloader", "fetch.iter"), dftracer.NewKey("compute", "forward"),
		dftracer.NewKey("compute", "backward"), dftracer.NewKey("comm", "all_reduce"), dftracer.NewKey("compute", "step")}
	iteration, block, read := dftracer.NewKey("pipeline", "train.iteration"), dftracer.NewKey("pipeline", "epoch.block"), dftracer.NewKey("POSIX", "pread")
	const steps = 10000 // of an epoch
	ts := int64(1_700_000_000_000_000)
	began := ts
	for step := 0; events < n; step++ {
		epoch, at, start := dftracer.Int("epoch", int64(step/steps)), dftracer.Int("step", int64(step)), ts
		for i := range keys {
			d := int64(100 + (step*7+i*131)%977)
			w.WriteComplete(&keys[i], dftracer.Span{TID: 1, TS: ts, Dur: d, Level: 3}, epoch, at)
			ts += d + 3
		}
		for i := range int64(4) {
			w.WriteComplete(&read, dftracer.Span{TID: 2 + i%2, TS: start + i/2*200 + i*10, Dur: 150, Level: 3},
				epoch, at, dftracer.Int("ret", 4096), dftracer.Int("fd", 7+i))
		}
		w.WriteComplete(&iteration, dftracer.Span{TID: 1, TS: start, Dur: ts - start, Level: 2}, epoch, at)
		events += len(keys) + 5
		if (step+1)%steps == 0 || events >= n {
			w.WriteComplete(&block, dftracer.Span{TID: 1, TS: began, Dur: ts - began, Level: 1}, epoch)
			events++
			began = ts
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return events
}

// BenchmarkSummary measures the whole command:
//
//	go test -run '^$' -bench Summary ./cmd/trainspan -args -events=10000000
func BenchmarkSummary(b *testing.B) {
	path := filepath.Join(b.TempDir(), "job.pfw.gz")
	n := writeJob(b, path, *benchEvents)
	resetPeak()
	for b.Loop() {
		var out, errs bytes.Buffer
		if status := run(context.Background(), []string{"trace", "summary", path}, ui.Streams{Out: &out, Err: &errs}); status != 0 {
			b.Fatalf("trace summary: status %d, want 0: %s", status, errs.String())
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	if mb := peakMemory(); mb > 0 {
		b.ReportMetric(mb, "peak-MB")
	}
}

var benchRanks = flag.Int("ranks", 64, "ranks of the job that BenchmarkManyFiles reads, 1,000 steps each")

// BenchmarkManyFiles measures the memory of a job with a file for each rank:
//
//	go test -run '^$' -bench ManyFiles -benchtime 1x ./cmd/trainspan -args -ranks=1024
func BenchmarkManyFiles(b *testing.B) {
	dir := b.TempDir()
	if err := (simjob.Large{Ranks: *benchRanks, Steps: 1000, Slow: *benchRanks / 2, Extra: 12, Save: 200}).Write(dir); err != nil {
		b.Fatal(err)
	}
	for _, verb := range []string{"trace summary", "trace info", "report"} {
		b.Run(verb, func(b *testing.B) {
			debug.FreeOSMemory()
			resetPeak()
			for b.Loop() {
				var out, errs bytes.Buffer
				if status := run(context.Background(), append(strings.Fields(verb), dir), ui.Streams{Out: &out, Err: &errs}); status != 0 {
					b.Fatalf("%s: status %d, want 0: %s", verb, status, errs.String())
				}
			}
			b.ReportMetric(peakMemory(), "peak-MB")
		})
	}
}

// peakMemory returns the maximum resident size of this process in megabytes, if
// the system provides it.
func peakMemory() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	kb, _ := strconv.ParseFloat(fields[0], 64)
	return kb / 1000
}

// resetPeak restarts the measurement of peakMemory.
func resetPeak() {
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

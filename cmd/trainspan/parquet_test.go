package main

import (
	"bytes"
	"context"
	"io/fs"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
)

// BenchmarkParquet compares a conversion to Parquet with reading the trace alone,
// and the sizes:
//
//	go test -run '^$' -bench Parquet -benchtime 3x ./cmd/trainspan -args -events=2000000
func BenchmarkParquet(b *testing.B) {
	traces := b.TempDir()
	n := 0.0
	for rank := range 8 {
		n += float64(writeRank(b, filepath.Join(traces, "trace-"+strconv.Itoa(rank)+"-of-8.pfw.gz"), rank, *benchEvents/8))
	}
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			for rank := range 8 {
				path := filepath.Join(traces, "trace-"+strconv.Itoa(rank)+"-of-8.pfw.gz")
				if _, err := dftracer.Scan(path, &dftracer.ReaderOptions{NoHashes: true}, func(*dftracer.Event) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	})
	b.Run("convert", func(b *testing.B) {
		resetPeak()
		lake := filepath.Join(b.TempDir(), "lake")
		for b.Loop() {
			var out, errs bytes.Buffer
			args := []string{"convert", traces, "--to", "parquet", "-o", lake, "--force"}
			if status := run(context.Background(), args, streams{out: &out, err: &errs}); status != 0 {
				b.Fatalf("status %d: %s", status, errs.String())
			}
		}
		b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		b.ReportMetric(float64(bytesBelow(b, lake))/n, "B/event")
		b.ReportMetric(float64(bytesBelow(b, traces))/n, "pfw.gz-B/event")
		b.ReportMetric(peakMemory(), "peak-MB")
	})
}

// bytesBelow adds up the sizes of the files below a folder.
func bytesBelow(tb testing.TB, dir string) (n int64) {
	tb.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
)

// TestParquetRuns checks that a run is added to a data set beside the others,
// and replaces its own earlier version only on request. A failure leaves the
// data set unchanged.
func TestParquetRuns(t *testing.T) {
	dir := t.TempDir()
	trace, other := filepath.Join(dir, "trace.pfw.gz"), filepath.Join(dir, "other.pfw.gz")
	writeJob(t, trace, 100)
	writeJob(t, other, 300)
	lake := filepath.Join(dir, "lake")
	run1 := filepath.Join(lake, "events", "run=a%2F1")
	// The folder also has a file that is not a trace.
	if err := os.WriteFile(filepath.Join(dir, "notes.jsonl"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args   string
		status int
		says   string
	}{
		{"TRACE --run a/1 --nesting", ui.StatusUse, "--nesting"},
		{"TRACE --run a/1 -o DIR/none/lake", ui.StatusUse, "its directory does not exist"},
		{"TRACE --run a/1 -o TRACE", ui.StatusUse, "is a file"},
		{"TRACE --run a/1 -o -", ui.StatusUse, "-o -"},
		{"TRACE --run a/1 --category nothing", ui.StatusData, "no event"},
		{"TRACE --run a/1", ui.StatusOK, "run=a%2F1, 101 events"},
		{"OTHER --run a/1", ui.StatusUse, "already exists"},
		{"OTHER", ui.StatusOK, "run=job, 301 events"},
		{"OTHER", ui.StatusUse, "already exists"},
		{"OTHER --run a/1 --force", ui.StatusOK, "301 events"},
		{"OTHER --run b --category comm", ui.StatusOK, "0 rows of the ledger"},
		{"DIR --run c --rank 0", ui.StatusOK, "run=c, 402 events"},
		{"DIR --run d --rank 1", ui.StatusUse, "no process with that rank"},
	} {
		args := []string{"trace", "convert", "--to", "parquet"}
		if !strings.Contains(tc.args, "-o") {
			args = append(args, "-o", lake)
		}
		args = append(args, strings.Fields(strings.NewReplacer("TRACE", trace, "OTHER", other, "DIR", dir).Replace(tc.args))...)
		before := bytesBelow(t, dir)
		var out, errs bytes.Buffer
		status := run(context.Background(), args, ui.Streams{Out: &out, Err: &errs})
		if status != tc.status || !strings.Contains(out.String()+errs.String(), tc.says) {
			t.Errorf("%s: status %d, %s%s; want %d and %q", tc.args, status, out.String(), errs.String(), tc.status, tc.says)
		}
		if status != ui.StatusOK && bytesBelow(t, dir) != before {
			t.Errorf("%s failed and changed files, want them as before", tc.args)
		}
	}
	if bytesBelow(t, run1) == 0 {
		t.Error("the first run was deleted, want it kept")
	}
	if got := listing(t, dir); !slices.Equal(got, []string{"lake", "notes.jsonl", "other.pfw.gz", "trace.pfw.gz"}) {
		t.Errorf("left %v, want [lake notes.jsonl other.pfw.gz trace.pfw.gz]", got)
	}
	if got := listing(t, lake); !slices.Equal(got, []string{"events", "ledger", "runs", "steps"}) {
		t.Errorf("left %v, want [events ledger runs steps]", got)
	}
	if got := listing(t, filepath.Join(lake, "ledger")); !slices.Equal(got, []string{"run=a%2F1", "run=job"}) {
		t.Errorf("ledgers %v, want [run=a%%2F1 run=job]", got)
	}
}

// TestParquetOfDamagedTrace checks that a damaged trace is used as far as it
// can be read, and reported.
func TestParquetOfDamagedTrace(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace.pfw.gz")
	writeJob(t, trace, 50_000)
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(trace, data[:len(data)*2/3], 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status := run(context.Background(), []string{"trace", "convert", trace, "--to", "parquet", "-o", filepath.Join(dir, "lake")}, ui.Streams{Out: &out, Err: &errs})
	if status != ui.StatusData || !strings.Contains(out.String(), "events") || !strings.Contains(errs.String(), "damaged or cut off") {
		t.Errorf(`parquet of a damaged trace: status %d, %s%s; want %d, the events and "damaged or cut off"`, status, out.String(), errs.String(), ui.StatusData)
	}
}

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
				if _, err := dftracer.Scan(path, &dftracer.ReaderOptions{Concurrent: true}, func(*dftracer.Event) error { return nil }); err != nil {
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
			args := []string{"trace", "convert", traces, "--to", "parquet", "-o", lake, "--force"}
			if status := run(context.Background(), args, ui.Streams{Out: &out, Err: &errs}); status != 0 {
				b.Fatalf("parquet: status %d, want 0: %s", status, errs.String())
			}
		}
		b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		b.ReportMetric(float64(bytesBelow(b, lake))/n, "B/event")
		b.ReportMetric(float64(bytesBelow(b, traces))/n, "pfw.gz-B/event")
		b.ReportMetric(peakMemory(), "peak-MB")
	})
}

// bytesBelow returns the total size of the files below a folder.
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

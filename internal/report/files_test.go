package report_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// call is one record of category cat about a file.
type call struct {
	cat, name, path string
	dur             int64 // microseconds; -1: a record that stands for several calls
	args            []dftracer.Arg
	later           int64 // offset in microseconds from 0.2 s per earlier call
}

// fileJob writes a job of one rank with 50 steps and some calls.
func fileJob(t *testing.T, calls []call) *report.Report {
	t.Helper()
	dir := t.TempDir()
	rank := 0
	w, err := dftracer.Create(filepath.Join(dir, "trace.pfw"), &dftracer.Options{Process: dftracer.Process{Rank: &rank, SessionTag: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	const start = 1_760_000_000_000_000
	event := func(cat, name string, ts, dur int64, args ...dftracer.Arg) {
		w.Write(&dftracer.Event{Cat: cat, Name: name, TID: 1, TS: ts, Dur: dur, Args: args})
	}
	event("ai_root", "ai_root", start, 10_000_000)
	event("pipeline", "train", start+1, 9_999_000)
	for i := range int64(50) {
		event("pipeline", "train.iteration", start+1000+i*100_000, 90_000, dftracer.Int("step", i))
	}
	for i, c := range calls {
		args := c.args
		if c.path != "" {
			args = append(args, tracefile.HashArg("fhash", w.Hash(tracefile.NameFileHash, c.path)))
		}
		ts := start + 2000 + int64(i)*200_000 + c.later
		if c.dur < 0 {
			w.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Cat: c.cat, Name: c.name, TID: 1, TS: ts, Args: args})
			continue
		}
		event(c.cat, c.name, ts, c.dur, args...)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return report.Build(read(t, dir))
}

func TestFiles(t *testing.T) {
	ret := func(n int64) []dftracer.Arg { return []dftracer.Arg{dftracer.Int("ret", n)} }
	r := fileJob(t, []call{
		{"POSIX", "open64", "/data/a", 10, ret(3), 0},
		{"POSIX", "read", "/data/a", 1000, ret(4_000_000), 0},
		{"POSIX", "read", "/data/a", 3000, ret(2_000_000), 0},
		{"POSIX", "read", "/data/a", 5, ret(0), 0},
		{"POSIX", "pread", "/data/a", 7, ret(-1), 0},
		{"STDIO", "fread", "/data/a", 5000, ret(6_000_000), 0}, // the same bytes
		{"posix", "write", "/data/b", 2000, ret(500), 0},
		{"STDIO", "fwrite", "/data/c", 100, ret(70), 0},
		{"POSIX", "read", "/data/d", -1, []dftracer.Arg{
			dftracer.Int("dft_cnt", 10), dftracer.Int("dur_sum", 500_000), dftracer.Int("dur_max", 400_000),
			dftracer.Int("size_sum", 1_000_000), dftracer.Int("size_min", 10), dftracer.Int("size_max", 900_000), dftracer.Int("failed", 2),
		}, 0},
		{"POSIX", "stat", "", 3, ret(0), 0},
		{"compute", "read", "/data/e", 3, ret(100), 0},
	})
	io := r.IO
	if io == nil || io.Files != 5 || io.Failed != 3 {
		t.Fatalf("I/O %+v, want 5 files, 3 failed calls", io)
	}
	if g := io.Read; g.Calls != 14 || g.Bytes != 7_000_000 || g.Time != 504_012_000 || g.Longest != 400_000_000 || g.Most != 4_000_000 || g.Least != 0 {
		t.Errorf("read %+v, want 14 calls of 0 to 4,000,000 bytes, 7,000,000 bytes in 504.012 ms, the longest 400 ms", g)
	}
	if g := io.Written; g.Calls != 2 || g.Bytes != 570 || g.Least != 70 || g.Most != 500 {
		t.Errorf("written %+v, want 2 calls of 70 to 500 bytes, 570 in all", g)
	}
	if g := io.Other; g.Calls != 2 || g.Bytes != 0 || g.Time != 13_000 {
		t.Errorf("others %+v, want 2 calls, no bytes, 13 µs", g)
	}
	if io.Slowest[0].Path != "/data/d" || io.Slowest[1].Path != "/data/a" || len(io.Slowest) != 5 {
		t.Errorf("slowest files %+v, want five, first /data/d, then /data/a", io.Slowest)
	}
	text := strings.Join(strings.Fields(strings.Join(screen(t, r), "\n")), " ")
	for _, part := range []string{"FILES 5: read 7.0 MB in 14 calls of 500 kB at 13.9 MB/s, wrote 570 B in 2 calls", "/data/d"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	var page, doc bytes.Buffer
	if err := report.HTML(&page, r, ""); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"<h2>Files</h2>", "<td class=\"left\">/data/d</td>", "(further files)"} {
		if !strings.Contains(page.String(), part) {
			t.Errorf("the page has no %q", part)
		}
	}
	if err := report.JSON(&doc, r); err != nil {
		t.Fatal(err)
	}
	var back struct {
		IO struct {
			Read struct{ Bytes int64 }
		}
	}
	if err := json.Unmarshal(doc.Bytes(), &back); err != nil || back.IO.Read.Bytes != 7_000_000 {
		t.Errorf("JSON: %v, %+v; want 7,000,000 bytes read", err, back)
	}
}

// The report of a job without file calls does not mention files.
func TestNoFiles(t *testing.T) {
	r := fileJob(t, nil)
	var page, doc bytes.Buffer
	if err := report.HTML(&page, r, ""); err != nil {
		t.Fatal(err)
	}
	if err := report.JSON(&doc, r); err != nil {
		t.Fatal(err)
	}
	if r.IO != nil || strings.Contains(strings.Join(screen(t, r), "\n"), "FILES") || strings.Contains(page.String(), "<h2>Files") || strings.Contains(doc.String(), `"io"`) {
		t.Error("got a section about files, want none")
	}
}

// A long path keeps its end, and the line is not too wide.
func TestLongPath(t *testing.T) {
	r := fileJob(t, []call{{"POSIX", "read", "/" + strings.Repeat("long/", 100) + "shard-7.bin", 10, []dftracer.Arg{dftracer.Int("ret", 1)}, 0}})
	if text := strings.Join(screen(t, r), "\n"); !strings.Contains(text, "long/shard-7.bin") || !strings.Contains(text, "…") {
		t.Errorf("want the end of the path in\n%s", text)
	}
}

// A job without steps has no slow rank, but it has a page.
func TestJobWithoutSteps(t *testing.T) {
	dir := t.TempDir()
	rank := 0
	w, err := dftracer.Create(filepath.Join(dir, "trace.pfw"), &dftracer.Options{Process: dftracer.Process{Rank: &rank, SessionTag: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	w.Write(&dftracer.Event{Cat: "compute", Name: "matmul", TID: 1, TS: 1_760_000_000_000_000, Dur: 1000})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := report.Build(read(t, dir))
	r.Verdict.Rank = nil
	if text := page(t, r); !strings.Contains(text, `"slow":[]`) {
		t.Error("the page has slow ranks, want none")
	}
	if len(screen(t, r)) == 0 {
		t.Error("the screen is empty, want some lines")
	}
}

// A checkpoint that both a framework and the program recorded counts once.
func TestCheckpointRecordedTwice(t *testing.T) {
	r := fileJob(t, []call{
		{"checkpoint", "capture", "", 300_000, nil, 0},
		{"checkpoint", "capture", "", 10_000, nil, 0}, // inside the one before
		{"checkpoint", "capture", "", 10_000, nil, 0},
	})
	if n := len(r.Checkpoints); n != 2 || r.Checkpoints[0].Load || r.Checkpoints[1].Load {
		t.Errorf("%d checkpoints %+v, want 2, both saves", n, r.Checkpoints)
	}
}

// TestFilesOfACheckpoint checks that files saved between the same two steps are one checkpoint,
// whose blocking time is the time of all of them together.
func TestFilesOfACheckpoint(t *testing.T) {
	r := fileJob(t, []call{
		{"checkpoint", "capture", "", 8_000, nil, 0},
		{"checkpoint", "capture", "", 5_000, nil, -190_000},
		{"checkpoint", "capture", "", 10_000, nil, -386_000}, // overlaps the last one by a millisecond
		{"checkpoint", "capture", "", 7_000, nil, 0},
	})
	if len(r.Checkpoints) != 2 || r.Checkpoints[0].Blocking != 22_000_000 || r.Checkpoints[1].Blocking != 7_000_000 || r.Checkpoints[0].Step != -1 {
		t.Errorf("checkpoints %+v, want two that block 22 and 7 ms, the first without a step", r.Checkpoints)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// placeInJob has the fields of a report about the place of processes in a job.
type placeInJob struct {
	Job      string `json:"job_id"`
	Tag      string `json:"session_tag"`
	Attempts []struct {
		Number int `json:"attempt"`
	} `json:"attempts"`
	Ledger struct {
		Missing []int `json:"missing_ranks"`
	} `json:"ledger"`
}

func placeOf(t *testing.T, paths ...string) (p placeInJob) {
	t.Helper()
	if err := json.Unmarshal([]byte(want(t, append([]string{"report", "--json"}, paths...)...)), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRewritingKeepsThePlaceInAJob checks that a rewritten trace keeps its job,
// attempt and world size, and that a trace made from several has the values
// that all of them share.
func TestRewritingKeepsThePlaceInAJob(t *testing.T) {
	dir := t.TempDir()
	in := makeJob(t, filepath.Join(dir, "in"), simjob.Attempt{Ranks: 4, Steps: 60, Number: 1, Tag: "mine", Plain: true, Skip: map[int]bool{1: true}})
	files, err := filepath.Glob(filepath.Join(in, "*"))
	if err != nil || len(files) != 3 {
		t.Fatalf("files %v, %v; want 3", files, err)
	}
	check := func(name string, paths ...string) {
		t.Helper()
		p := placeOf(t, paths...)
		if p.Job != "4711" || p.Tag != "mine" || len(p.Attempts) != 1 || p.Attempts[0].Number != 2 || !slices.Equal(p.Ledger.Missing, []int{1}) {
			t.Errorf("%s: %+v, want job 4711, tag mine, attempt 2, rank 1 missing", name, p)
		}
	}
	check("as recorded", in)
	converted, merged, split := filepath.Join(dir, "converted"), filepath.Join(dir, "all.pfw.gz"), filepath.Join(dir, "split")
	if err := os.Mkdir(converted, 0o755); err != nil { //nolint:gosec // with the mode of a user's folder
		t.Fatal(err)
	}
	want(t, "trace", "convert", in, "--to", "v1", "-o", converted)
	check("converted", converted)
	want(t, "trace", "merge", in, "-o", merged)
	check("merged", merged)
	for _, file := range files {
		want(t, "trace", "split", file, "--by", "process", "-o", split)
	}
	check("split", split)

	// The record of the start is not in the selected part.
	cut, later, piece := filepath.Join(dir, "cut"), filepath.Join(dir, "later.pfw.gz"), filepath.Join(dir, "piece")
	if err := os.Mkdir(cut, 0o755); err != nil { //nolint:gosec // with the mode of a user's folder
		t.Fatal(err)
	}
	want(t, "trace", "convert", in, "--to", "v1", "-o", cut, "--from", "+1s")
	check("converted from a time on", cut)
	want(t, "trace", "merge", in, "-o", later, "--from", "+1s")
	check("merged from a time on", later)
	for _, file := range files {
		want(t, "trace", "split", file, "--by", "process", "-o", piece, "--from", "+1s")
	}
	check("split from a time on", piece)

	other := makeJob(t, filepath.Join(dir, "other"), simjob.Attempt{Ranks: 2, Steps: 60, Number: 2, Tag: "theirs", Plain: true, Start: time.Unix(1_800_000_000, 0)})
	mixed := filepath.Join(dir, "mixed.pfw.gz")
	want(t, "trace", "merge", in, other, "-o", mixed)
	if p := placeOf(t, mixed); p.Tag != "" {
		t.Errorf("trace of two jobs: %+v, want no tag", p)
	}
}

// TestFiltersJudgeBegins checks that no part has the begin of a span that the
// filters exclude, which would look as if the span was open to the end, and no
// record of an excluded rank.
func TestFiltersJudgeBegins(t *testing.T) {
	dir := t.TempDir()
	const start, second = int64(1_700_000_000_000_000), int64(1_000_000)
	var files []string
	for rank := range 2 {
		path := filepath.Join(dir, fmt.Sprint("rank", rank, ".pfw.gz"))
		w, err := dftracer.Create(path, &dftracer.Options{Process: dftracer.Process{PID: 100 + rank, Host: "node", Rank: &rank, WorldSize: 2}})
		if err != nil {
			t.Fatal(err)
		}
		span := func(cat, name string, at, dur int64, begins bool) {
			ev := dftracer.Event{ID: w.NextID(), Cat: cat, Name: name, TID: 1, TS: start + at*second, Args: []dftracer.Arg{dftracer.Int("epoch", at)}}
			if begins {
				tracefile.WriteBegin(w, &ev)
			}
			if dur > 0 {
				ev.Dur = dur * second
				w.Write(&ev)
			}
		}
		span("pipeline", "epoch", 0, 60, true)
		span("checkpoint", "save", 70, 5, true)
		span("pipeline", "epoch", 100, 0, true) // open
		span("compute", "step", 110, 1, false)
		tracefile.WriteCustom(w, tracefile.KeyHeartbeat, fmt.Sprint(start+111*second))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		files = append(files, w.Path())
	}
	all := filepath.Join(dir, "all.pfw.gz")
	want(t, append([]string{"trace", "merge", "-o", all}, files...)...)
	for filter, spans := range map[string]string{
		"--category checkpoint":        "100 begin save, 100 save, 101 begin save, 101 save",
		"--name epoch":                 "100 begin epoch, 100 begin epoch, 100 epoch, 101 begin epoch, 101 begin epoch, 101 epoch",
		"--from +90s":                  "100 begin epoch, 100 step, 101 begin epoch, 101 step",
		"--until +65s":                 "100 begin epoch, 100 epoch, 101 begin epoch, 101 epoch",
		"--epoch 100":                  "100 begin epoch, 101 begin epoch",
		"--rank 1":                     "101 begin epoch, 101 begin epoch, 101 begin save, 101 epoch, 101 save, 101 step",
		"--rank 1 --category pipeline": "101 begin epoch, 101 begin epoch, 101 epoch",
	} {
		out := filepath.Join(dir, "out.pfw")
		want(t, append([]string{"trace", "convert", all, "--to", "v2", "--force", "-o", out}, strings.Fields(filter)...)...)
		var got []string
		for _, ev := range dftest.Events(t, out) {
			if begun, ok := tracefile.BeginOf(&ev); ok {
				got = append(got, fmt.Sprint(begun.PID, " begin ", begun.Name))
			} else if ev.Phase == dftracer.PhaseComplete && ev.Cat != dftracer.CatDFTracer {
				got = append(got, fmt.Sprint(ev.PID, " ", ev.Name))
			} else if key, _ := ev.Meta(); strings.Contains(filter, "--rank") && ev.PID == 100 && (key == "rank" || key == tracefile.KeyHeartbeat) {
				t.Errorf("%s: %+v is of another rank", filter, ev)
			}
		}
		slices.Sort(got)
		if strings.Join(got, ", ") != spans {
			t.Errorf("%s: %q, want %q", filter, strings.Join(got, ", "), spans)
		}
		sent := want(t, append([]string{"trace", "convert", all, "--to", "otlp", "-o", "-"}, strings.Fields(filter)...)...)
		open := strings.Count(spans, "begin ") - strings.Count(spans, "0 epoch") - strings.Count(spans, "1 epoch") - strings.Count(spans, "0 save") - strings.Count(spans, "1 save")
		if n := strings.Count(sent, `"truncated"`); n != open {
			t.Errorf("%s: %d spans of OTLP are truncated, want %d: %s", filter, n, open, sent)
		}
	}
}

// TestSplitKeepsMetadataOfLateProcesses checks that each process of a long merged
// trace has its own metadata in its part.
func TestSplitKeepsMetadataOfLateProcesses(t *testing.T) {
	dir := t.TempDir()
	path, parts := filepath.Join(dir, "all.pfw"), filepath.Join(dir, "parts")
	w, err := dftracer.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	const start = int64(1_700_000_000_000_000)
	record := func(pid int64, kind, name, value string) {
		ev := tracefile.Record(kind, name, dftracer.String("", value))
		ev.PID, ev.TID = pid, 1
		w.Write(&ev)
	}
	const ranks = 3
	for rank := range int64(ranks) {
		pid := 100 + rank
		record(pid, tracefile.NameProcess, "rank", fmt.Sprint(rank))
		record(pid, tracefile.NameCustom, tracefile.KeyFlushInterval, "500000")
		w.Write(&dftracer.Event{Name: "step", Cat: "compute", PID: pid, TID: 1, TS: start, Dur: 5})
		if err := w.FlushContext(t.Context()); err != nil { // before the records of a long run
			t.Fatal(err)
		}
		for beat := range int64(9000) {
			record(pid, tracefile.NameCustom, tracefile.KeyHeartbeat, fmt.Sprint(start+beat))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, "trace", "split", path, "-o", parts)
	for rank := range ranks {
		counts := make(map[string]int)
		for _, ev := range dftest.Events(t, filepath.Join(parts, fmt.Sprintf("all-rank%d.pfw.gz", rank))) {
			if key, _ := ev.Meta(); ev.Phase == dftracer.PhaseMetadata {
				counts[key]++
			}
		}
		if counts["rank"] != 1 || counts[tracefile.KeyFlushInterval] != 1 || counts[tracefile.KeyHeartbeat] != 9000 {
			t.Errorf("rank %d: %v, want one rank, one flush interval, 9000 heartbeats", rank, counts)
		}
	}
}

// TestRewritingKeepsTheForwardOperator checks that a backward operator of a
// profile refers to the new id of its forward operator.
func TestRewritingKeepsTheForwardOperator(t *testing.T) {
	dir := t.TempDir()
	path, out := filepath.Join(dir, "in.pfw.gz"), filepath.Join(dir, "out.pfw")
	w, err := dftracer.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	forward := w.NextID()
	w.Write(&dftracer.Event{ID: forward, Name: "aten::mm", Cat: "PP", TS: 1_700_000_000_000_000, Dur: 10, Args: []dftracer.Arg{dftracer.Int("seq", 4)}})
	w.Write(&dftracer.Event{ID: w.NextID(), Name: "MmBackward0", Cat: "PP", TS: 1_700_000_000_000_100, Dur: 10, Args: []dftracer.Arg{dftracer.Int("seq", 4), dftracer.Int("fwd_id", int64(forward))}})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other.pfw.gz")
	if err := os.WriteFile(other, text, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, "trace", "merge", path, other, "-o", out)
	forwards, refers := make(map[int64]bool), make(map[int64]bool)
	if _, err := dftracer.Scan(out, nil, func(ev *dftracer.Event) error {
		if arg, ok := ev.Arg("fwd_id"); ok {
			refers[arg.Int64()] = true
		} else if ev.Name == "aten::mm" {
			forwards[int64(ev.ID)] = true
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(refers) != 2 || !maps.Equal(refers, forwards) {
		t.Errorf("fwd_id %v, want the ids of the two forward operators %v", refers, forwards)
	}
}

// TestMergeKeepsAttemptsApart checks that a process id that repeats in the next
// attempt, as in a container that restarts, is another process, and that two
// traces of one process have one id.
func TestMergeKeepsAttemptsApart(t *testing.T) {
	dir := t.TempDir()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	first := makeJob(t, filepath.Join(dir, "first"), simjob.Attempt{Ranks: 1, Steps: 60, Plain: true, Killed: true, Start: noon})
	second := makeJob(t, filepath.Join(dir, "second"), simjob.Attempt{Ranks: 1, Steps: 60, Number: 1, Plain: true, Start: noon.Add(time.Hour)})
	merged := func(paths ...string) []string {
		t.Helper()
		out := filepath.Join(dir, "merged.pfw")
		want(t, append([]string{"trace", "merge", "--force", "-o", out}, paths...)...)
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		all := regexp.MustCompile(`"pid":\d+`).FindAllString(string(text), -1)
		slices.Sort(all)
		return slices.Compact(all)
	}
	files, err := filepath.Glob(filepath.Join(second, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v; want 1", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	own := merged(first)
	if err := os.WriteFile(files[0], bytes.ReplaceAll(text, []byte(`"pid":2000`), []byte(own[0])), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := merged(first, second); len(own) != 1 || len(got) != 2 {
		t.Errorf("merged traces of two attempts: %q, want two ids, of one attempt %q, want one", got, own)
	}
	if p := placeOf(t, filepath.Join(dir, "merged.pfw")); len(p.Attempts) != 2 {
		t.Errorf("report of the merged traces: %d attempts, want 2", len(p.Attempts))
	}
	if got := merged(first, first); len(got) != 1 {
		t.Errorf("merged traces of one attempt: %q, want one id", got)
	}
}

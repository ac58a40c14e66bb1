package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
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

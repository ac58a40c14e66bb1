package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

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

	other := makeJob(t, filepath.Join(dir, "other"), simjob.Attempt{Ranks: 2, Steps: 60, Number: 2, Tag: "theirs", Plain: true, Start: time.Unix(1_800_000_000, 0)})
	mixed := filepath.Join(dir, "mixed.pfw.gz")
	want(t, "trace", "merge", in, other, "-o", mixed)
	if p := placeOf(t, mixed); p.Tag != "" {
		t.Errorf("trace of two jobs: %+v, want no tag", p)
	}
}

package report_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// TestMissingFiles checks that the first screen names the ranks whose files are missing, in all
// attempts or in one.
func TestMissingFiles(t *testing.T) {
	skip := func(ranks ...int) map[int]bool {
		out := make(map[int]bool)
		for _, r := range ranks {
			out[r] = true
		}
		return out
	}
	const unknown = "what it did, and how long others waited for it, is unknown."
	for name, c := range map[string]struct {
		attempts []map[int]bool // the ranks without files
		lines    string         // a file of JSON lines in place of the last attempt's trace of rank 1
		want     string
	}{
		"none":             {[]map[int]bool{nil, nil}, "", ""},
		"in all attempts":  {[]map[int]bool{skip(1), skip(1)}, "", "The files of rank 1 are missing: " + unknown},
		"the only attempt": {[]map[int]bool{skip(1, 3)}, "", "The files of ranks 1, 3 are missing: what they did, and how long others waited for them, is unknown."},
		"in the last":      {[]map[int]bool{nil, skip(1)}, "", "The files of rank 1 in attempt 2 are missing: " + unknown},
		"in two":           {[]map[int]bool{skip(2), nil, skip(2)}, "", "The files of rank 2 in attempts 1, 3 are missing: " + unknown},
		"one everywhere, one in the last": {[]map[int]bool{skip(1), skip(1, 3)}, "",
			"The files of rank 1 are missing: " + unknown + " The files of rank 3 in attempt 2 are missing: " + unknown},
		"JSON lines only": {[]map[int]bool{skip(1)}, `{"type":"start","id":"1","name":"training_loop","start_event":{"name":"span_start","attributes":{"timestamp_msec":1763625600100}},"count":1,"pid":4,"rank":1,"attempt":0}`,
			"No trace of rank 1: its steps are not split into phases."},
	} {
		dir := t.TempDir()
		at := time.Date(2025, 11, 20, 8, 0, 0, 0, time.UTC)
		for n, without := range c.attempts {
			write(t, dir, simjob.Attempt{Ranks: 4, Steps: 40, Number: n, First: 40 * n, Start: at, Slow: 2, Extra: [4]float64{9}, Skip: without})
			at = at.Add(time.Minute)
		}
		if c.lines != "" {
			if err := os.WriteFile(filepath.Join(dir, "lines.jsonl"), []byte(c.lines+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := report.Build(collect(t, dir).Jobs()[0])
		text := strings.Join(strings.Fields(strings.Join(r.First(80), "\n")), " ")
		var got []string
		for i, part := range strings.Split(text, "Missing ") {
			if i > 0 {
				end := strings.LastIndex(part, "unknown.") + len("unknown.")
				if end < len("unknown.") {
					end = strings.LastIndex(part, "phases.") + len("phases.")
				}
				got = append(got, part[:end])
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q\n%s", name, got, c.want, strings.Join(r.First(80), "\n"))
		}
		if c.want != "" && !slices.ContainsFunc(r.Verdict.Doubts, func(s string) bool { return strings.Contains(s, "ank") }) {
			t.Errorf("%s: doubts %q, want one about the ranks", name, r.Verdict.Doubts)
		}
	}
}

// TestCommunicationOfIncompleteFolders checks the diagnosis of a job of eight ranks whose rank 5 loads data for 40 ms
// longer in each step, if files are missing or incomplete. The others wait for it in collectives, and without its
// records nobody can tell a wait from a transfer: the answer must not be about communication. Steps that rank 5 has
// on record before its file ends show that the others wait for it.
func TestCommunicationOfIncompleteFolders(t *testing.T) {
	cut := func(ends func(size int) int) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			path := filepath.Join(dir, "attempt0-rank5.pfw")
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, text[:ends(len(text))], 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	keep := func(ranks ...int) map[int]bool {
		skip := make(map[int]bool)
		for r := range 8 {
			skip[r] = !slices.Contains(ranks, r)
		}
		return skip
	}
	for name, c := range map[string]struct {
		skip   map[int]bool
		damage func(*testing.T, string)
		want   string // the diagnosis
		about  string // part of the sentence
	}{
		"complete":              {nil, nil, "SLOW RANK", "Rank 5's data loading"},
		"without the slow rank": {keep(0, 1, 2, 3, 4, 6, 7), nil, "UNKNOWN", "wait for rank 5 in collectives is unknown: its records are missing"},
		"without another rank":  {keep(0, 1, 2, 3, 4, 5, 7), nil, "SLOW RANK", "Rank 5's data loading"},
		"half without it":       {keep(0, 1, 2, 3), nil, "UNKNOWN", "wait for ranks 4, 5, 6, 7 in collectives is unknown: their records are missing"},
		"half with it":          {keep(4, 5, 6, 7), nil, "SLOW RANK", "Rank 5's data loading"},
		"one other rank":        {keep(2), nil, "UNKNOWN", "the records of another rank"},
		"cut in the middle":     {nil, cut(func(size int) int { return size / 2 }), "WAIT", "Wait for rank 5"}, // in the steps of all ranks
		"it ended early":        {nil, cut(func(size int) int { return size / 3 }), "WAIT", "Wait for rank 5"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, simjob.Attempt{Ranks: 8, Steps: 60, Slow: 5, Extra: [4]float64{40}, Skip: c.skip, Plain: true})
			if c.damage != nil {
				c.damage(t, dir)
			}
			v := &report.Build(collect(t, dir).Jobs()[0]).Verdict
			if v.Diagnosis != c.want || !strings.Contains(v.Why, c.about) {
				t.Errorf("diagnosis %s: %s\nwant %s with %q", v.Diagnosis, v.Why, c.want, c.about)
			}
			for _, text := range v.Next {
				if strings.Contains(text, "overlap") {
					t.Errorf("next actions %q, want none about overlap", v.Next)
				}
			}
		})
	}
}

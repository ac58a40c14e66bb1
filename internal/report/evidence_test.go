package report_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/hang"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// pickled writes a value in pickle format, as PyTorch does.
func pickled(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case map[string]any:
		b.WriteString("}(")
		for k, e := range v {
			pickled(b, k)
			pickled(b, e)
		}
		b.WriteByte('u')
	case []any:
		b.WriteString("](")
		for _, e := range v {
			pickled(b, e)
		}
		b.WriteByte('e')
	case string:
		b.WriteByte('X')
		_ = binary.Write(b, binary.LittleEndian, uint32(len(v))) // to memory: cannot fail
		b.WriteString(v)
	case int64:
		b.WriteString("\x8a\x08")
		_ = binary.Write(b, binary.LittleEndian, v)
	case bool:
		b.WriteByte(map[bool]byte{true: 0x88, false: 0x89}[v])
	}
}

// dumped writes the dump of one of four ranks. The last collective has the given number and
// may be open.
func dumped(t *testing.T, path string, at, seq int64, done bool) {
	t.Helper()
	b := bytes.NewBufferString("\x80\x02")
	pickled(b, map[string]any{
		"version": "2.10", "pg_config": map[string]any{"0": map[string]any{"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
		"entries": []any{map[string]any{
			"process_group": []any{"0", "default_pg"}, "collective_seq_id": seq, "profiling_name": "nccl:all_reduce", "is_p2p": false, "retired": true, "time_created_ns": at,
			"state": map[bool]string{true: "completed", false: "started"}[done], "frames": []any{map[string]any{"filename": "/a/train.py", "line": int64(7), "name": "main"}},
		}},
	})
	b.WriteByte('.')
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWitness checks that the report of a hanging job quotes the dumps and stacks beside its
// records, and takes the missing rank from them if the records do not show it. Files from
// another time are ignored.
func TestWitness(t *testing.T) {
	build := func(t *testing.T, dir string) *report.Report { return report.Build(read(t, dir)) }
	hung := func(t *testing.T, phase string) (dir string, end int64) {
		j := simjob.Job{Layout: simjob.DP, Ranks: 4, Steps: 40, Seed: 7, Faults: []simjob.Fault{{What: simjob.Hang, Ranks: []int{2}, Phase: phase, From: 36, Watchdog: 30000}}}
		if phase == "" {
			j.Faults[0].Group = "world" // the collective that does not end
		}
		dir = t.TempDir()
		if _, err := j.Write(dir); err != nil {
			t.Fatal(err)
		}
		return dir, build(t, dir).Ledger.To
	}
	stack := func(t *testing.T, dir, name string, copied time.Duration) {
		t.Helper()
		text := "Current thread 0x1 (most recent call first):\n  File \"/a/b/train.py\", line 5 in load\n  File \"/a/b/train.py\", line 9 in main\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Unix(0, build(t, dir).Ledger.To).Add(copied)
		if err := os.Chtimes(filepath.Join(dir, name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("the records say who", func(t *testing.T) {
		dir, end := hung(t, simjob.Backward)
		for r := range 4 {
			dumped(t, filepath.Join(dir, fmt.Sprint("comm_lib_trace_rank_", r)), end, map[bool]int64{true: 36, false: 37}[r == 2], r == 2)
		}
		stack(t, dir, "stacks-rank2.txt", 0)
		r := build(t, dir)
		v := r.Verdict.Rank
		if v.Kind != finding.Hang || !slices.Equal(v.Ranks, []int{2}) || v.Cause != "backward" || r.Outcome == nil || r.Outcome.How != job.Hung {
			t.Fatalf("verdict %+v, want a hang of rank 2 in backward, outcome hung", v)
		}
		want := []string{"PyTorch's flight recorder: rank 2 did not enter all_reduce 37 of group default_pg (train.py:7 in main), in which ranks 0, 1, 3 wait"}
		if !slices.Equal(v.Witness, want) {
			t.Errorf("witness %q, want %q", v.Witness, want)
		}
		if len(v.Stacks) != 1 || v.Stacks[0].Rank != 2 || v.Stacks[0].Place != "train.py:5" || v.Stacks[0].Function != "load" || v.Stacks[0].From != "faulthandler" ||
			v.Stacks[0].At != end || v.Stacks[0].After != v.Evidence.Waited || !slices.Equal(v.Stacks[0].Frames, []string{"load (train.py:5)", "main (train.py:9)"}) {
			t.Errorf("Stacks = %+v, want load of train.py:5 at %d after %v ms", v.Stacks, end, v.Evidence.Waited)
		}
		if r.Quality.Foreign != 0 || len(r.Quality.Skipped) != 0 {
			t.Errorf("quality %+v, want no foreign and no skipped file", r.Quality)
		}
		var screen bytes.Buffer
		if err := report.Text(&screen, r); err != nil || !strings.Contains(screen.String(), "Stack      Rank 2 was in train.py:5 (load) after 30.0 s") || !strings.Contains(screen.String(), "Next       Read train.py:5 (load): rank 2 is blocked there.\n") || !strings.Contains(screen.String(), "HUNG · 4 ranks") || !strings.Contains(screen.String(), "\nHANG  ") {
			t.Errorf("Text() = %v, want the stack of rank 2, where to read, HUNG and HANG in\n%s", err, &screen)
		}
	})
	t.Run("a copy of another day", func(t *testing.T) {
		dir, end := hung(t, simjob.Backward)
		stack(t, dir, hang.StackName(2, 7, time.Unix(0, end)), 48*time.Hour)
		if s := build(t, dir).Verdict.Rank.Stacks; len(s) != 1 || s[0].Rank != 2 || s[0].At != end/1e6*1e6 {
			t.Errorf("Stacks = %+v, want that of rank 2 at %d", s, end)
		}
	})
	t.Run("on the page", func(t *testing.T) {
		dir, _ := hung(t, simjob.Backward)
		stack(t, dir, "stacks-rank2.txt", 0)
		var page bytes.Buffer
		if err := report.HTML(&page, build(t, dir), ""); err != nil || !strings.Contains(page.String(), "<p>Rank 2 was in train.py:5 (load) after 30.0 s, by faulthandler.</p>") {
			t.Errorf("HTML() = %v, want a page with the stack of rank 2", err)
		}
	})
	t.Run("the dumps say who", func(t *testing.T) {
		dir, end := hung(t, "")
		if v := build(t, dir).Verdict.Rank; v.Kind != finding.Hang || len(v.Ranks) != 0 {
			t.Fatalf("verdict %+v, want a hang without ranks", v)
		}
		for r := range 4 {
			dumped(t, filepath.Join(dir, fmt.Sprint("comm_lib_trace_rank_", r)), end, map[bool]int64{true: 36, false: 37}[r == 1], r == 1)
		}
		r := build(t, dir)
		if v := r.Verdict.Rank; v.Kind != finding.Hang || !slices.Equal(v.Ranks, []int{1}) || !strings.Contains(v.Sentence, "rank 1 did not enter") || *r.Outcome.Rank != 1 {
			t.Errorf("verdict %+v, want a hang of rank 1, which did not enter the collective", v)
		}
	})
	t.Run("of another time", func(t *testing.T) {
		dir, end := hung(t, simjob.Backward)
		for _, hours := range []int64{2, -2} {
			dumped(t, filepath.Join(dir, "comm_lib_trace_rank_0"), end+hours*3600e9, 37, false)
			if v := build(t, dir).Verdict.Rank; len(v.Witness) != 0 {
				t.Errorf("%d hours after the end: %q, want none", hours, v.Witness)
			}
		}
	})
	t.Run("damaged", func(t *testing.T) {
		dir, _ := hung(t, simjob.Backward)
		if err := os.WriteFile(filepath.Join(dir, "comm_lib_trace_rank_0"), []byte("\x80\x02}X\x09\x00\x00\x00pg_configcos\nsystem\nX\x07\x00\x00\x00entries\x85R."), 0o600); err != nil {
			t.Fatal(err)
		}
		if q := build(t, dir).Quality; len(q.Skipped) != 1 || !strings.Contains(q.Skipped[0], "unsupported instruction") {
			t.Errorf("quality %+v, want one skipped file with an unsupported instruction", q)
		}
	})
}

package pytorch

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/until"
)

// TestHang checks that a rank that waits forever in its loader, and ranks that
// call collectives in another order, are named while the job runs, and in the
// report after it was killed.
func TestHang(t *testing.T) {
	for _, tt := range []struct {
		how, outcome, cause, dump string
		ranks                     []int
		stacks                    []string
	}{
		{"loader", "Hung: rank 1 in input", "input", "rank 1 did not enter all_reduce", []int{1}, []string{"rank 1 in hangs.py (wait)"}},
		{"mismatch", "Hung: all ranks wait", "mismatch", "of group default_pg", nil, []string{"rank 0 in hangs.py (all_reduce)", "rank 1 in hangs.py (all_reduce)"}},
	} {
		t.Run(tt.how, func(t *testing.T) {
			t.Parallel() // they wait
			j := newJob(t, 2)
			j.Args = append(j.Args[:6], j.Args[6], "launch.py", "--ranks", "2", "testdata/hangs.py", tt.how)
			j.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := j.Start(); err != nil {
				t.Fatal(err)
			}
			killed := false
			kill := func() {
				if !killed {
					killed = true
					_ = syscall.Kill(-j.Process.Pid, syscall.SIGKILL)
					_ = j.Wait()
				}
			}
			t.Cleanup(kill)
			told := filepath.Join(t.TempDir(), "told.json")
			until.True(t, "a run", func() bool { _, err := os.Stat(filepath.Join(j.dir, "run.json")); return err == nil })
			alert := exec.Command(j.Path, "alert", j.dir, "--exec", fmt.Sprintf("cat > '%s.new' && mv '%s.new' '%s'", told, told, told))
			alert.Stderr = os.Stderr
			if err := alert.Start(); err != nil {
				t.Fatal(err)
			}
			defer alert.Wait()                       //nolint:errcheck // it is interrupted
			defer alert.Process.Signal(os.Interrupt) //nolint:errcheck // it is there
			var m struct {
				Running bool
				Outcome *struct{ How, Text string }
				Verdict verdict
			}
			until.Nil(t, func() error {
				text, err := os.ReadFile(told)
				if err != nil {
					return fmt.Errorf("%w\n%s", err, &j.out)
				}
				if err := json.Unmarshal(text, &m); err != nil {
					return err
				}
				if m.Verdict.Straggler.Kind != "hang" { // an earlier verdict may differ
					return fmt.Errorf("notified: %s", m.Verdict.Sentence)
				}
				return nil
			})
			check := func(v verdict) {
				t.Helper()
				s := v.Straggler
				if s.Kind != "hang" || s.Cause != tt.cause || !slices.Equal(s.Ranks, tt.ranks) || !strings.HasPrefix(v.Sentence, tt.outcome) {
					t.Errorf("verdict %+v, want a hang of ranks %v, cause %s, sentence with %q first", v, tt.ranks, tt.cause, tt.outcome)
				}
				if newDumps(t, j.dir) && (len(s.Witness) == 0 || !strings.Contains(s.Witness[0], tt.dump)) {
					t.Errorf("witness %q, want one with %s", s.Witness, tt.dump)
				}
			}
			check(m.Verdict)
			if !m.Running || m.Outcome == nil || m.Outcome.How != "hung" {
				t.Errorf("report while the job hangs: %+v, want it running and hung", m)
			}
			if waited := m.Verdict.Straggler.Evidence.Waited; waited > 60e3 {
				t.Errorf("notified after %v ms, want at most 60e3", waited)
			}
			until.True(t, "the stacks of each rank that is asked", func() bool {
				found, err := filepath.Glob(filepath.Join(j.dir, "stacks-rank*.txt"))
				return err == nil && len(found) == len(tt.stacks)
			})
			kill()
			v := j.report(t).Verdict
			check(v)
			var stacks []string
			for _, s := range v.Straggler.Stacks {
				file, _, _ := strings.Cut(s.Place, ":")
				stacks = append(stacks, fmt.Sprintf("rank %d in %s (%s)", s.Rank, file, s.Function))
			}
			if !slices.Equal(stacks, tt.stacks) {
				t.Errorf("Stacks = %q, want %q", stacks, tt.stacks)
			}
		})
	}
}

// newDumps reports whether this PyTorch has a flight recorder for gloo.
func newDumps(t *testing.T, dir string) bool {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "comm_lib_trace_rank_*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

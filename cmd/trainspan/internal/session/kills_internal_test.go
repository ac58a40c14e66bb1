//go:build unix

package session

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/launch"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/resources"
	"github.com/trainspan/trainspan/internal/job/rundir"
)

// TestOldKillsExplainNothing checks that a kill in the control group, which may contain other jobs,
// explains the end of a command only for some minutes.
func TestOldKillsExplainNothing(t *testing.T) {
	begun := time.Unix(1_700_000_000, 0)
	failed := launch.Status{Code: 1}
	for name, c := range map[string]struct {
		kills  []int64 // before the command, in the middle and at its end
		after  time.Duration
		status launch.Status
		want   string
		count  int64
	}{
		"at the end":                    {[]int64{3, 3, 4}, time.Hour, launch.Status{Signal: syscall.SIGKILL}, rundir.ByMemory, 1},
		"a worker, shortly before":      {[]int64{3, 4, 4}, killedWithin, failed, rundir.ByMemory, 1},
		"two days before":               {[]int64{3, 4, 4}, 48 * time.Hour, failed, rundir.ByExit, 1},
		"two days before, and a signal": {[]int64{3, 4, 4}, 48 * time.Hour, launch.Status{Signal: syscall.SIGKILL}, rundir.BySignal, 1},
		"before the command":            {[]int64{3, 3, 3}, time.Hour, failed, rundir.ByExit, 0},
		"unknown before":                {[]int64{-1, 4, 4}, time.Hour, failed, rundir.ByExit, 0},
		"unknown at the end":            {[]int64{3, 4, -1}, time.Minute, failed, rundir.ByMemory, 1},
		"and it completed":              {[]int64{3, 3, 4}, time.Hour, launch.Status{}, rundir.ByExit, 1},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write := func(path, text string) {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("proc/7/cgroup", "0::/job\n")
			write("sys/fs/cgroup/job/memory.events", fmt.Sprintf("low 0\noom_kill %d\n", c.kills[2]))
			s := &Session{start: &start{record: &record{}}, cgroup: resources.FindCgroup(filepath.Join(root, "proc"), filepath.Join(root, "sys"), 7)}
			s.kills = oomKills{first: c.kills[0], last: c.kills[0]}
			s.kills.note(c.kills[1], begun)
			s.outcome(&launch.Exited{Status: c.status, At: begun.Add(c.after)})
			if s.run.EndedBy != c.want || s.run.OOMKills != c.count {
				t.Errorf("ended by %q with %d kills, want %q with %d", s.run.EndedBy, s.run.OOMKills, c.want, c.count)
			}
		})
	}
}

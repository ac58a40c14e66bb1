//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"golang.org/x/sys/unix"
)

// sampled returns the traces of resources below a folder, and the ids of the
// processes in them.
func sampled(dir string) (paths []string, pids map[int64]bool) {
	paths, _ = filepath.Glob(filepath.Join(dir, rundir.Root, "*", "*", "*", "resources*.pfw.gz"))
	pids = make(map[int64]bool)
	for _, path := range paths {
		_, _ = dftracer.Scan(path, nil, func(ev *dftracer.Event) error { // a trace that is being written has no end
			if ev.Phase == dftracer.PhaseCounter && ev.Name == "cpu" {
				pids[ev.PID] = true
			}
			return nil
		})
	}
	return paths, pids
}

// TestOneSamplerOfANode checks that one of the ranks of a start on one node
// samples for all, that another one takes over when it is killed, and that each
// rank makes few files.
func TestOneSamplerOfANode(t *testing.T) {
	t.Parallel()
	const ranks = 4
	dir := t.TempDir()
	var all []*started
	for rank := range ranks {
		s := prepare(t, dir, "--name", "job", "--quiet", "--", "runjob", "signals")
		s.Env = append(s.Env, "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", fmt.Sprintf("SLURM_NTASKS=%d", ranks), fmt.Sprintf("SLURM_PROCID=%d", rank), fmt.Sprintf("SLURM_LOCALID=%d", rank))
		s.begin()
		s.expect("ready")
		all = append(all, s)
	}
	until.True(t, "counters of all ranks", func() bool {
		_, pids := sampled(dir)
		return len(pids) == ranks
	})
	paths, _ := sampled(dir)
	if len(paths) != 1 {
		t.Fatalf("%v are there, want one", paths)
	}
	leader := slices.IndexFunc(all, func(s *started) bool {
		return strings.HasSuffix(filepath.Dir(paths[0]), fmt.Sprintf("-%d", s.Process.Pid))
	})
	if err := unix.Kill(helperOf(t, all[leader].Process.Pid), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until.True(t, "another one that samples for all", func() bool {
		now, _ := sampled(dir)
		if len(now) != 2 {
			return false
		}
		n := 0
		for _, path := range now {
			if path != paths[0] {
				_, _ = dftracer.Scan(path, nil, func(ev *dftracer.Event) error {
					if ev.Phase == dftracer.PhaseCounter && ev.Name == "cpu" && ev.PID != 0 {
						n++
					}
					return nil
				})
			}
		}
		return n >= ranks
	})
	for _, s := range all {
		_ = s.Process.Signal(unix.SIGUSR2)
	}
	for _, s := range all {
		if _, status := s.rest(); status != 0 {
			t.Errorf("status %d, want 0: %s", status, s.err.String())
		}
	}
	files := make(map[string]int)
	err := filepath.WalkDir(filepath.Join(dir, rundir.Root), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), "resources") {
			files[filepath.Base(path)]++
		}
		return err
	})
	if err != nil || files[rundir.FileName] != ranks || files[".start"] != 1 || len(files) != 2+ranks {
		t.Errorf("files %v, %v; want %d of %s, one start file and one set of counters", files, err, ranks, rundir.FileName)
	}
	if left, _ := filepath.Glob("/dev/shm/trainspan-node-*"); len(left) > 0 {
		t.Logf("left, perhaps of others: %v", left)
	}
}

//go:build linux

package python_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/integrations/pytorch"
)

// TestTorchProfile: PyTorch's own profiler, imported onto the same axis, saw the
// same phases at the same times.
func TestTorchProfile(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "profile.json")
	j := newTorchJob(t, "profiled.py", profile)
	j.run(t)
	hooks := only(t, j.traces(t), "pipeline/train.iteration")

	sources, err := pytorch.Files(profile)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "profile.pfw.gz")
	w, err := dftracer.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pytorch.Import(context.Background(), w, sources, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	profiled := readTrace(t, path)

	for ours, theirs := range map[string]string{
		"dataloader/fetch.iter": "dataloader/fetch.iter", "compute/step": "compute/step", "compute/step.zero_grad": "PP/Optimizer.zero_grad#SGD.zero_grad",
	} {
		rows := profiled.named(theirs)
		slices.SortFunc(rows, func(a, b *span) int { return int(a.TS - b.TS) })
		spans := hooks.named(ours)
		if len(rows) != len(spans) || len(rows) < 20 {
			t.Errorf("%d rows of %s, %d of %s", len(rows), theirs, len(spans), ours)
			continue
		}
		// The rows are inside of our spans, but for the moment at which the
		// profiler began, which this version does not record exactly. A busy
		// machine may stop a process anywhere: most must agree.
		var apart []int64
		for i, s := range spans {
			apart = append(apart, max(abs(s.TS-rows[i].TS), abs(s.TS+s.Dur-rows[i].TS-rows[i].Dur)))
		}
		slices.Sort(apart)
		if d := apart[len(apart)*3/4]; d > 1000 {
			t.Errorf("%s and %s are %d µs apart", ours, theirs, d)
		}
	}
}

func abs(n int64) int64 { return max(n, -n) }

// TestTorchFullDisk: without space for a ring a job trains on and nothing is
// recorded; with little it records what fits.
func TestTorchFullDisk(t *testing.T) {
	for size, wants := range map[string]bool{"512k": false, "8m": true} {
		t.Run(size, func(t *testing.T) {
			j := newTorchJob(t, "loops.py", "plain", "no_loader")
			if err := syscall.Mount("none", j.rings, "tmpfs", 0, "size="+size); err != nil {
				t.Skipf("cannot make a small file system: %v", err)
			}
			t.Cleanup(func() { _ = exec.Command("umount", j.rings).Run() })
			if out := j.run(t); strings.Count(out, " 0\n") != 2 {
				t.Errorf("it printed %q", out)
			}
			rings, err := filepath.Glob(filepath.Join(j.rings, "*.ring"))
			if err != nil || (len(rings) > 0) != wants {
				t.Errorf("rings: %v, %v", rings, err)
			}
			if wants && only(t, j.traces(t)[:1], "ai_root/ai_root").count["compute/step"] == 0 {
				t.Error("nothing was recorded")
			}
		})
	}
}

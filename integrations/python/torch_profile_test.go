//go:build linux

package python_test

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
)

// TestTorchProfile checks that PyTorch's own profiler, imported onto the same
// time axis, has the same phases at the same times.
func TestTorchProfile(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "profile.json")
	j := newTorchJob(t, "profiled.py", profile)
	j.run(t)
	hooks := only(t, j.traces(t), "pipeline/train.iteration")

	sources, err := torch.Files(profile)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "profile.pfw.gz")
	w, err := dftracer.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torch.Import(context.Background(), w, sources, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	profiled := readTrace(t, path)

	// PyTorch 1.13 does not record the start of a profile, so all its rows may be
	// shifted by the same time, as long as they are within the job. Apart from
	// that, each row is nearer to its own span than to any other with that name.
	// Load may stop a process anywhere, also between the two clock readings, so
	// only most rows must agree.
	var shift int64
	for i, names := range [][2]string{
		{"dataloader/fetch.iter", "dataloader/fetch.iter"}, {"compute/step", "compute/step"}, {"compute/step.zero_grad", "PP/Optimizer.zero_grad#SGD.zero_grad"},
	} {
		rows, spans := profiled.named(names[1]), hooks.named(names[0])
		slices.SortFunc(rows, func(a, b *span) int { return cmp.Compare(a.TS, b.TS) })
		if len(rows) != len(spans) || len(rows) < 20 {
			t.Errorf("%d rows of %s, %d of %s; want as many, 20 or more", len(rows), names[1], len(spans), names[0])
			continue
		}
		if i == 0 {
			var apart []int64
			for k, s := range spans {
				apart = append(apart, s.TS-rows[k].TS)
			}
			slices.Sort(apart)
			shift = apart[len(apart)/2]
			if last := spans[len(spans)-1]; max(shift, -shift) > last.TS+last.Dur-spans[0].TS {
				t.Errorf("the profile is %d µs from the job, want less than its length", shift)
			}
		}
		own := 0
		for k, row := range rows {
			away := func(s *span) int64 {
				d := row.TS + shift + row.Dur/2 - s.TS - s.Dur/2
				return max(d, -d)
			}
			nearest := slices.MinFunc(spans, func(a, b *span) int { return cmp.Compare(away(a), away(b)) })
			if nearest == spans[k] {
				own++
			}
		}
		if own < len(rows)*3/4 {
			t.Errorf("%d of %d rows of %s are nearest to their span, want three quarters", own, len(rows), names[1])
		}
	}
}

// TestTorchFullDisk checks that without space for a ring buffer a job trains
// and nothing is recorded; with little space, what fits is recorded.
func TestTorchFullDisk(t *testing.T) {
	for size, wants := range map[string]bool{"512k": false, "8m": true} {
		t.Run(size, func(t *testing.T) {
			j := newTorchJob(t, "loops.py", "plain", "no_loader")
			if err := syscall.Mount("none", j.rings, "tmpfs", 0, "size="+size); err != nil {
				t.Skipf("cannot make a small file system: %v", err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(j.rings, 0) })
			if out := j.run(t); strings.Count(out, " 0\n") != 2 {
				t.Errorf("program printed %q, want two lines that end in 0", out)
			}
			rings, err := filepath.Glob(filepath.Join(j.rings, "*.ring"))
			if err != nil || (len(rings) > 0) != wants {
				t.Errorf("rings %v, %v; want some: %v", rings, err, wants)
			}
			if wants && only(t, j.traces(t)[:1], "ai_root/ai_root").count["compute/step"] == 0 {
				t.Error("no step was recorded, want some")
			}
		})
	}
}

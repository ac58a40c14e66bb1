package report_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/findingtest"
)

// compiling writes the trace of a process with 40 steps of 10 ms. The compiler runs in steps 0, 20 and 30: 1 s on
// the thread of the training, in forward, and 1 s on another one, in backward.
func compiling(t *testing.T) string {
	dir := t.TempDir()
	w, err := dftracer.Create(filepath.Join(dir, "trace-7.pfw"), &dftracer.Options{Process: dftracer.Process{PID: 7, Host: "node-a0", JobID: "4711"}})
	if err != nil {
		t.Fatal(err)
	}
	at, id := time.Now().Add(-7*time.Second).UnixMicro(), uint64(0)
	span := func(cat, name string, tid, from, to int64, args ...dftracer.Arg) {
		id++
		w.Write(&dftracer.Event{Phase: dftracer.PhaseComplete, ID: id, Cat: cat, Name: name, PID: 7, TID: tid, TS: from, Dur: to - from, Args: args, Parent: dftracer.NoParent})
	}
	for step := range int64(40) {
		from, forward := at, at+4_000
		compiled := step == 0 || step == 20 || step == 30
		if compiled {
			args := []dftracer.Arg{dftracer.String("trigger", "dynamo")}
			if step > 0 {
				args = append(args, dftracer.String("reason", "0/0: tensor 'x' size mismatch at index 1. expected 256, actual 148"))
			}
			forward += 1_000_000
			span("compile", "graph_compile", 7, from+1_000, from+1_001_000, args...)
		}
		backward := forward + 5_000
		if compiled {
			backward += 1_000_000
			span("compile", "graph_compile", 8, forward+1_000, forward+1_001_000)
		}
		span("compute", "forward", 7, from, forward)
		span("compute", "backward", 7, forward, backward)
		at = backward + 1_000
		span("pipeline", "train.iteration", 7, from, at, dftracer.Int("step", step))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRecompilation checks that compilations in later steps are the diagnosis, with the reason of the compiler, and
// no part of the start; also in a report of a digest.
func TestRecompilation(t *testing.T) {
	state, err := report.Load(nil, compiling(t))
	if err != nil {
		t.Fatal(err)
	}
	var kept bytes.Buffer
	if err := state.WriteDigest(&kept); err != nil {
		t.Fatal(err)
	}
	read, err := report.ReadDigest(&kept)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*report.State{"traces": state, "digest": read} {
		r := report.Build(s.Jobs()[0])
		screen := strings.Join(r.First(80), "\n")
		f := r.Verdict.Finding
		if f == nil || f.Kind != finding.Recompile || f.Lost < 3.9e9 || f.Lost > 4.1e9 {
			t.Fatalf("%s: finding %+v, want recompilations of 4 s:\n%s", name, f, screen)
		}
		if bad := findingtest.Check(f); len(bad) > 0 {
			t.Errorf("%s: the finding breaks the rules: %q", name, bad)
		}
		if e := f.Evidence; !slices.Equal(e.Steps, []int64{20, 30}) || e.Affected != 2 || e.Excess < 1990 || e.Excess > 2010 {
			t.Errorf("%s: evidence %+v, want 2000 ms in steps 20 and 30", name, e)
		}
		for _, want := range []string{"RECOMPILATION", "steps 20 and 30, 2.0 s", "tensor 'x' size mismatch", "dynamic=True", "\nStart      2."} {
			if !strings.Contains(screen, want) {
				t.Errorf("%s: the screen does not have %q:\n%s", name, want, screen)
			}
		}
		var all int64
		for _, share := range r.Shares {
			all += share.Time
		}
		if want := r.Ledger.Categories.Sum(); all != want {
			t.Errorf("%s: the shares add up to %d ns, want %d", name, all, want)
		}
	}
}

package spanstats_test

import (
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// profiled returns a profile of a GPU job: backward lasts all the time on the
// host, kernels run in half of it, and a collective runs partly beside one of
// them.
func profiled() []dftracer.Event {
	ev := func(cat, name string, tid, ts, dur int64, args ...dftracer.Arg) dftracer.Event {
		return dftracer.Event{Phase: dftracer.PhaseComplete, Cat: cat, Name: name, PID: 1, TID: tid, TS: ts, Dur: dur, Args: args}
	}
	kind := func(k string) dftracer.Arg { return dftracer.String("kind", k) }
	return []dftracer.Event{
		ev("PP", "aten::mm", 1, 1000, 100),
		ev("PP", "cudaLaunchKernel", 1, 1010, 5, kind("cuda_runtime")),
		ev("PP", "gemm", 2, 1000, 30, kind("kernel")),
		ev("PP", "gemm", 2, 1040, 20, kind("kernel")),
		ev("PP", "Memcpy HtoD", 2, 1090, 10, kind("gpu_memcpy")),
		ev("PP", "all_reduce_kernel", 3, 1050, 30, kind("kernel"), dftracer.Int("collective", 1)),
		ev("PP", "ncclKernel_AllReduce", 3, 1050, 30, kind("kernel")), // an import before the mark
		ev("comm", "all_reduce", 3, 1050, 30),
		ev("compute", "backward", 1, 1000, 100),
	}
}

func TestKernelsAreTheComputingOfAProfile(t *testing.T) {
	for _, tc := range []struct {
		name            string
		classes         spanstats.Classes
		compute, hidden int64 // hidden is communication outside of communication stalls
		kernels         bool
	}{
		{"default", spanstats.Classes{}, 50, 20, true},
		{"categories alone", spanstats.Classes{Compute: []string{"compute"}, Comm: []string{"comm"}, NoKernels: true}, 100, 0, false},
		{"the whole profile by hand", spanstats.Classes{Compute: []string{"PP"}, Comm: []string{"comm"}, NoKernels: true}, 100, 0, false},
	} {
		agg := spanstats.New(&spanstats.Options{Classes: tc.classes})
		for _, ev := range profiled() {
			agg.Add(&ev)
		}
		p := agg.Result().Processes[0]
		if p.Compute != tc.compute || p.Comm != 30 || p.CommStall != tc.hidden || p.Kernels != tc.kernels {
			t.Errorf("%s: %+v, want compute %d, 30 of communication with %d stalled, kernels %v", tc.name, p, tc.compute, tc.hidden, tc.kernels)
		}
	}
	// Without kernels the host's phases count as computing.
	agg := spanstats.New(nil)
	for _, ev := range profiled() {
		if k, _ := ev.Arg("kind"); tracefile.Str(k) != "kernel" {
			agg.Add(&ev)
		}
	}
	if p := agg.Result().Processes[0]; p.Compute != 100 || p.Kernels {
		t.Errorf("host only: %+v, want compute 100 without kernels", p)
	}
}

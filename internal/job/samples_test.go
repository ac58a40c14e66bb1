package job_test

import (
	"maps"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
)

// The samples of a process are in another file than its spans, but belong to
// the process; those of the system belong to the process that took them.
func TestSamples(t *testing.T) {
	dir := t.TempDir()
	start := time.Unix(1_800_000_000, 0)
	open := func(name string, pid int) *dftracer.Writer {
		w, err := dftracer.Create(filepath.Join(dir, name), &dftracer.Options{Process: dftracer.Process{PID: pid, Host: "node-a", JobID: "4711"}})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	closed := func(w *dftracer.Writer) {
		t.Helper()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	trace := open("trace.pfw.gz", 11)
	for i := range 5 {
		trace.Write(&dftracer.Event{Phase: dftracer.PhaseComplete, Cat: "pipeline", Name: "train.iteration", PID: 11, TID: 11, ID: uint64(i + 1), TS: start.Add(time.Duration(i) * time.Second).UnixMicro(), Dur: 900_000})
	}
	closed(trace)
	const many = 5000 // more than are kept individually
	res := open("resources.pfw.gz", 10)
	count := func(pid int64, at time.Time, name string, args ...dftracer.Arg) {
		res.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Cat: "resources", Name: name, PID: pid, TID: pid, TS: at.UnixMicro(), Args: args})
	}
	for i := range many {
		at := start.Add(time.Duration(i) * time.Millisecond)
		count(11, at, "cpu", dftracer.Float("user_cores", float64(i)/many))
		count(11, at, "sched", dftracer.Float("run_delay_share", 0.25), dftracer.Int("allowed_cores", 1))
		if i < 2 {
			count(10, at, "system", dftracer.Int("runnable", 9), dftracer.Int("cores", 2))
			count(10, at, "gpu3", dftracer.Float("clock_mhz", 1230), dftracer.Float("clock_max_mhz", 1980))
		}
	}
	count(11, start, "compute_gpu", dftracer.Int("gpu", 3))
	count(11, start.Add(time.Second), "compute_gpu", dftracer.Int("gpu", 3))
	count(12, start, "compute_gpu", dftracer.Int("gpu", 3))
	count(12, start.Add(time.Second), "compute_gpu", dftracer.Int("gpu", 4))
	count(13, start, "compute_gpu", dftracer.Int("gpu", -1))
	closed(res)

	set, err := job.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := set.Read(func(*job.Process) job.Sink { return job.Sinks{} })
	if err != nil || len(jobs) != 1 || len(jobs[0].Processes) != 1 {
		t.Fatalf("%d jobs, want one of one process: %v", len(jobs), err)
	}
	s := jobs[0].Processes[0].Samples
	if s == nil || len(s.Rows) > 256 {
		t.Fatalf("samples of the process are %+v, want at most 256 rows", s)
	}
	// They cover the whole time evenly, and each is the mean since the one before.
	for i := 1; i < len(s.Rows); i++ {
		from, to := s.Rows[i-1].At-start.UnixNano(), s.Rows[i].At-start.UnixNano()
		mean := float64(from+to) / 2 / float64(many*time.Millisecond)
		if got := float64(s.Rows[i].Values[job.UserCores]); to-from > int64(many*time.Millisecond)/60 || math.Abs(got-mean) > 0.001 {
			t.Errorf("sample %d is of %v to %v: %v, want %.4f of a 60th of the time or less", i, time.Duration(from), time.Duration(to), got, mean)
		}
	}
	last := s.Rows[len(s.Rows)-1]
	if last.Values[job.RunDelay] != 0.25 || last.Values[job.AllowedCores] != 1 || !math.IsNaN(float64(last.Values[job.Steal])) {
		t.Errorf("last sample %+v, want run delay 0.25, user cores 0.5, 1 allowed core, no steal", last)
	}
	if want := start.Add((many - 1) * time.Millisecond).UnixNano(); last.At != want {
		t.Errorf("the last sample is of %d, want %d", last.At, want)
	}
	devices := map[int64]string{11: s.Device}
	var system *job.Samples
	for _, p := range jobs[0].Helpers {
		switch p.PID {
		case 10:
			system = p.Samples
		case 12, 13:
			devices[p.PID] = p.Samples.Device
		}
	}
	if system == nil || len(system.Rows) != 2 || system.Rows[1].Values[job.Runnable] != 9 || len(system.GPUs["3"]) != 2 || system.GPUs["3"][0].Values[job.Clock] != 1230 {
		t.Errorf("samples of the system are %+v, want 2 rows, 9 runnable, device 3 at 1230 MHz", system)
	}
	if want := map[int64]string{11: "3", 12: job.SeveralDevices, 13: job.SeveralDevices}; !maps.Equal(devices, want) {
		t.Errorf("the devices are %v, want %v", devices, want)
	}
}

package resources

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// TestWaits checks that waits are recorded for each process and for the system.
// The texts are from a kernel 6.18 with a version-1 group limited to a fifth of
// a CPU.
func TestWaits(t *testing.T) {
	s := newSystem(t)
	file := filepath.Join(t.TempDir(), "resources.pfw")
	w, err := dftracer.Create(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	sampler := &Sampler{o: Options{Member: Member{Command: 11, Base: 10}, Proc: filepath.Join(s.root, "proc"), Sys: filepath.Join(s.root, "sys")},
		tree: newTree(filepath.Join(s.root, "proc"), Member{Command: 11, Base: 10}), writer: w, limit: -1, held: [2]int64{-1, -1}}
	now := time.Unix(1_800_000_000, 0)
	s.write("proc/11/status", "Name:\tpython\nCpus_allowed:\t2\n")
	s.write("proc/11/cgroup", "4:memory:/x\n2:cpuacct:/\n1:cpu:/tsm-a\n0::/\n")
	s.write("sys/fs/cgroup/cpu/tsm-a/cpu.cfs_quota_us", "20000\n")
	s.write("sys/fs/cgroup/cpu/tsm-a/cpu.cfs_period_us", "100000\n")
	for i := range 3 {
		s.process(11, 10, "python", 1, 100, 0)
		s.write("proc/11/task/11/schedstat", fmt.Sprintf("%d %d 253\n", i*100_000_000, i*250_000_000))
		s.write("proc/11/task/12/schedstat", fmt.Sprintf("%d %d 253\n", i*100_000_000, i*800_000_000))
		s.write("sys/fs/cgroup/cpu/tsm-a/cpu.stat", fmt.Sprintf("nr_periods %d\nnr_throttled %d\nthrottled_time 600162246\nnr_bursts 0\nburst_time 0\n", 22+10*i, 18+8*i))
		s.write("proc/stat", fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 %d 0 0\ncpu0 1 0 0 1 0 0 0 0 0 0\ncpu1 1 0 0 1 0 0 0 0 0 0\nprocs_running 11\n", 100+150*i, 100+20*i, 30*i))
		s.write("proc/pressure/cpu", fmt.Sprintf("some avg10=93.48 avg60=81.95 avg300=47.03 total=%d\n", 900_000*i))
		sampler.sample(now)
		now = now.Add(time.Second)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := samples(t, file)
	for key, want := range map[string]float64{
		"11 sched run_delay_share": 0.8, "11 sched allowed_cores": 1, "11 sched cpu_limit_cores": 0.2, "11 sched throttled_share": 0.8,
		"10 system runnable": 11, "10 system cores": 2, "10 system busy_share": 0.75, "10 system steal_share": 0.15, "10 system cpu_pressure_share": 0.9,
	} {
		if len(got[key]) != 2 || got[key][1] != want {
			t.Errorf("%s = %v, want %v twice", key, got[key], want)
		}
	}
	if v := got["11 sched io_delay_share"]; v != nil {
		t.Errorf("io_delay_share is %v, want none where the kernel counts no waits for block devices", v)
	}
}

// samples returns the values of the counters of a trace, by process, name and
// argument.
func samples(t *testing.T, file string) map[string][]float64 {
	t.Helper()
	r, err := dftracer.OpenReader(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // only read
	out := make(map[string][]float64)
	for {
		ev, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Phase != dftracer.PhaseCounter {
			continue
		}
		for i := range ev.Args {
			key := fmt.Sprintf("%d %s %s", ev.PID, ev.Name, ev.Args[i].Key)
			out[key] = append(out[key], ev.Args[i].Float64())
		}
	}
}

// BenchmarkSample measures a sample of one process: this one, with its threads.
func BenchmarkSample(b *testing.B) {
	file := filepath.Join(b.TempDir(), "resources.pfw")
	w, err := dftracer.Create(file, nil)
	if err != nil {
		b.Fatal(err)
	}
	m := Member{Command: os.Getpid(), Base: os.Getppid()}
	s := &Sampler{o: Options{Member: m, Proc: "/proc", Sys: "/sys"}, tree: newTree("/proc", m), writer: w, limit: -1, held: [2]int64{-1, -1}}
	now := time.Now()
	for b.Loop() {
		now = now.Add(time.Second)
		s.sample(now)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

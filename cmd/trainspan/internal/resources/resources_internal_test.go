package resources

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/job/rundir"
)

// system is an artificial /proc and /sys.
type system struct {
	t    *testing.T
	root string
}

func newSystem(t *testing.T) *system { return &system{t, t.TempDir()} }

func (s *system) write(path, text string) {
	s.t.Helper()
	path = filepath.Join(s.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// process adds a process with a number of memory pages and of bytes read.
func (s *system) process(pid, parent int, program string, started, pages, read int) {
	s.write(fmt.Sprintf("proc/%d/stat", pid),
		fmt.Sprintf("%d (%s) S %d 0 0 0 0 0 7 0 1 0 100 50 0 0 20 0 3 0 %d 0 %d 0", pid, program, parent, started, pages))
	s.write(fmt.Sprintf("proc/%d/io", pid), fmt.Sprintf("rchar: %d\nwchar: 0\nsyscr: 5\nsyscw: 0\nread_bytes: %d\nwrite_bytes: 0\n", read, read/2))
}

func (s *system) gone(pid int) {
	if err := os.RemoveAll(filepath.Join(s.root, "proc", fmt.Sprint(pid))); err != nil {
		s.t.Fatal(err)
	}
}

// TestTree checks that the tree contains the command, its descendants and
// orphans, and nothing else, and that a reused process id counts as another
// process.
func TestTree(t *testing.T) {
	s := newSystem(t)
	now := time.Unix(1000, 0)
	tr := newTree(filepath.Join(s.root, "proc"), Member{Command: 11, Base: 10, Exclude: 12})
	look := func() (pids []int) {
		now = now.Add(time.Second)
		tr.look(now, func(p *Process, _ *stat) { pids = append(pids, p.PID) })
		slices.Sort(pids)
		return pids
	}
	expect := func(what string, want ...int) {
		t.Helper()
		if got := look(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	s.process(1, 0, "init", 1, 1, 0)
	s.process(10, 1, "trainspan", 1, 1, 0)
	s.process(11, 10, "python", 1, 1, 0)
	s.process(12, 10, "trainspan", 1, 1, 0)
	s.process(13, 12, "nvidia-smi", 1, 1, 0)
	s.process(9, 14, "worker", 1, 1, 0)
	s.process(14, 11, "python", 1, 1, 0)
	expect("at first", 9, 11, 14)
	s.gone(14)
	s.process(9, 10, "worker", 1, 1, 0) // adopted
	s.process(15, 1, "stranger", 1, 1, 0)
	expect("an orphan", 9, 11)
	s.process(15, 11, "python", 2, 1, 0) // the reused id, after a while
	expect("too early", 9, 11)
	now = now.Add(forget)
	expect("in time", 9, 11, 15)
	s.process(9, 1, "stranger", 7, 1, 0)
	expect("another process", 11, 15)
	if list := tr.all(); len(list) != 4 { // 9, 14, 11, 15
		t.Errorf("%d processes, want 4", len(list))
	}
}

// TestGrowth checks that memory counts as growing if it still grows in the
// second half of the time, and not while a program starts.
func TestGrowth(t *testing.T) {
	for name, c := range map[string]struct {
		size func(second int) float64 // bytes
		want string
	}{
		"start":        {func(s int) float64 { return 1e9 * float64(min(s, 250)) / 250 }, ""},
		"leak":         {func(s int) float64 { return 1e9 + 1e6*float64(s) }, "memory grows by 60 MB per minute in the second half, to 1.6 GB at the end"},
		"late":         {func(s int) float64 { return 1e9 + 2e6*float64(max(s-300, 0)) }, "memory grows by 120 MB per minute in the second half, to 1.6 GB at the end"},
		"level":        {func(int) float64 { return 1e9 }, ""},
		"up and down":  {func(s int) float64 { return 1e9 + 1e8*float64(s%20) }, ""},
		"hardly grows": {func(s int) float64 { return 1e9 + 3e4*float64(s) }, ""},
	} {
		var s Sampler
		begin := time.Unix(1000, 0)
		s.tree = newTree("", Member{})
		for second := range 601 {
			at := begin.Add(time.Duration(second) * time.Second)
			s.group.begin(at)
			s.group.peak = max(s.group.peak, int64(c.size(second)))
			s.group.memory.add(float64(second), c.size(second))
		}
		if got := strings.Join(s.growth(), " "); got != c.want {
			t.Errorf("%s: growth() = %q, want %q", name, got, c.want)
		}
		if n := len(s.group.memory.samples); n > maxTrend {
			t.Errorf("%s: %d samples are kept, want at most %d", name, n, maxTrend)
		}
	}
}

func TestEvidence(t *testing.T) {
	s := newSystem(t)
	s.write("proc/11/cgroup", "0::/job\n")
	s.write("sys/fs/cgroup/job/memory.events", "low 0\noom_kill 2\n")
	s.write("sys/fs/cgroup/job/memory.max", "1000\n")
	s.write("sys/fs/cgroup/job/memory.current", "950\n")
	s.write("sys/fs/cgroup/job/cpu.max", "150000 100000\n")
	s.write("sys/fs/cgroup/job/cpu.stat", "usage_usec 5\nthrottled_usec 0\n")
	group := FindCgroup(filepath.Join(s.root, "proc"), filepath.Join(s.root, "sys"), 11)
	if n := group.OOMKills(); n != 2 {
		t.Errorf("%d kills, want 2", n)
	}
	if l, want := group.Limits(), (Limits{Memory: 950, MemoryLimit: 1000, Cores: 1.5, Throttled: 0, Periods: -1, Held: -1}); l != want {
		t.Errorf("limits are %+v, want %+v", l, want)
	}
	sampler := &Sampler{o: Options{Cgroup: group}, tree: newTree(filepath.Join(s.root, "proc"), Member{Command: 11, Base: 10, Exclude: 12}), limit: -1, held: [2]int64{-1, -1}, gpus: map[string]*gpuUsage{}}
	now := time.Unix(1000, 0)
	pages := (1 << 20) / os.Getpagesize() // of a mebibyte
	for i := range 61 {
		s.process(11, 10, "python", 1, (100+i)*pages, 0)
		for w := range 4 {
			s.process(20+w, 11, "python", 1, 10*pages, i*25_000_000)
		}
		if i == 60 {
			s.write("sys/fs/cgroup/job/cpu.stat", "throttled_usec 7000000\n")
		}
		sampler.sample(now)
		now = now.Add(time.Second)
	}
	for range 40 {
		sampler.gpu(gpuSample{index: "0", uuid: "GPU-bb", use: 20, memory: 10 << 30, total: 80 << 30}, now)
	}
	unified, _ := parseGPU("1, GPU-cc, 30, [N/A], [N/A], 40.5") // it shares the memory of the system
	for range 40 {
		sampler.gpu(unified, now)
	}
	got := strings.Join(sampler.Evidence(), "\n") + "\n"
	for _, want := range []string{
		"memory reached 95 % of the limit of the control group (1.0 kB)",
		"throttled it for 7 s",
		"memory grows by 63 MB per minute in the second half, to 210 MB at the end",
		"worker processes (python) read 100 MB/s, of which 50 MB/s came from storage",
		"GPU 0 was busy for 20 % of the time, with up to 11 GB of its 86 GB",
		"GPU 1 was busy for 30 % of the time\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestNothingStandsOut(t *testing.T) {
	s := newSystem(t)
	sampler := &Sampler{tree: newTree(filepath.Join(s.root, "proc"), Member{Command: 11, Base: 10, Exclude: 12}), limit: -1, held: [2]int64{-1, -1}}
	now := time.Unix(1000, 0)
	for i := range 120 {
		s.process(11, 10, "python", 1, 10_000+i%7*100, 1000*i)
		sampler.sample(now)
		now = now.Add(time.Second)
	}
	if got := sampler.Evidence(); len(got) != 0 {
		t.Errorf("Evidence() = %q, want none", got)
	}
}

func TestCgroupV1(t *testing.T) {
	s := newSystem(t)
	s.write("proc/11/cgroup", "3:cpu,cpuacct:/x\n2:memory:/job\n")
	s.write("sys/fs/cgroup/memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
	s.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "5\n")
	s.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n")
	group := FindCgroup(filepath.Join(s.root, "proc"), filepath.Join(s.root, "sys"), 11)
	if n, l := group.OOMKills(), group.Limits(); n != 3 || l.Memory != 5 || l.MemoryLimit != -1 || l.Cores != -1 {
		t.Errorf("cgroup v1: %d kills, limits %+v; want 3 kills, 5 bytes used, no limits", n, l)
	}
	if n := FindCgroup(filepath.Join(s.root, "proc"), filepath.Join(s.root, "sys"), 99).OOMKills(); n != -1 {
		t.Errorf("%d kills without a process, want -1", n)
	}
}

func TestParseGPU(t *testing.T) {
	got, ok := parseGPU("1, GPU-aa, 97, 40536, 81559, 612.40")
	if want := (gpuSample{index: "1", uuid: "GPU-aa", use: 97, memory: 40536 << 20, total: 81559 << 20, power: 612.4, temperature: -1, clock: -1, most: -1, slowed: -1}); !ok || got != want {
		t.Errorf("parseGPU() = %+v, %v; want %+v", got, ok, want)
	}
	got, ok = parseGPU("0, GPU-bb, 97, 40536, 81559, 612.40, 84, 1230, 1980, 0x0000000000000024")
	if want := (gpuSample{index: "0", uuid: "GPU-bb", use: 97, memory: 40536 << 20, total: 81559 << 20, power: 612.4, temperature: 84, clock: 1230, most: 1980, slowed: 0x24}); !ok || got != want {
		t.Errorf("parseGPU() = %+v, %v; want %+v", got, ok, want)
	}
	if got, ok := parseGPU("0, GPU-bb, 5, 1, 2, [N/A]"); !ok || got.power != -1 {
		t.Errorf("parseGPU() = %+v, %v; want an unknown power", got, ok)
	}
	for _, bad := range []string{"", "No devices were found", "0, GPU-bb, [N/A], 1, 2, 3", "0, 97, 1, 2, 3", "a,b,c"} {
		if got, ok := parseGPU(bad); ok {
			t.Errorf("parseGPU(%q) = %+v, want it refused", bad, got)
		}
	}
}

// TestCPU checks the reported time in which all processors that a command may use were in use,
// limited by its affinity or its control group. Less than a few seconds of samples give no report.
func TestCPU(t *testing.T) {
	for name, c := range map[string]struct {
		cores    float64 // used
		affinity int
		limit    float64
		seconds  int
		allowed  float64 // 0 without a report
		full     float64
	}{
		"half":           {cores: 2, affinity: 4, seconds: 20, allowed: 4},
		"all":            {cores: 3.9, affinity: 4, seconds: 20, allowed: 4, full: 1},
		"limit":          {cores: 1.5, affinity: 4, limit: 1.5, seconds: 20, allowed: 1.5, full: 1},
		"a wider limit":  {cores: 2, affinity: 2, limit: 8, seconds: 20, allowed: 2, full: 1},
		"not known":      {cores: 2, seconds: 20},
		"a few seconds":  {cores: 4, affinity: 4, seconds: 3},
		"no affinity":    {cores: 1, limit: 2, seconds: 20, allowed: 2},
		"nine tenths in": {cores: 3.6, affinity: 4, seconds: 20, allowed: 4, full: 1},
	} {
		s := &Sampler{}
		s.cpu.limit = c.limit
		for i := range c.seconds + 1 {
			s.cpu.note(c.cores, c.affinity, time.Unix(int64(1000+i), 0))
		}
		s.cpu.note(0, 0, time.Unix(int64(1001+c.seconds), 0)) // after the end of the command
		switch got := s.CPU(); {
		case (got != nil) != (c.allowed > 0):
			t.Errorf("%s: CPU() = %+v, want %v processors", name, got, c.allowed)
		case got != nil && (got.Allowed != c.allowed || got.Full != c.full):
			t.Errorf("%s: CPU() = %+v, want %v processors, full for %v of the time", name, got, c.allowed, c.full)
		}
	}
}

// TestCPUOfSeveralMembers checks that the processes of all commands on a node are compared with
// the processors of all of them: a launcher may bind each command to its own.
func TestCPUOfSeveralMembers(t *testing.T) {
	for name, c := range map[string]struct {
		masks  [2]string
		ticks  int // of processor time, of each command in a second
		ending bool
		want   rundir.CPU
	}{
		"bound, half are busy":      {[2]string{"3", "c"}, 100, false, rundir.CPU{Allowed: 4}},
		"bound, all are busy":       {[2]string{"3", "c"}, 190, false, rundir.CPU{Allowed: 4, Full: 1}},
		"unbound, all are busy":     {[2]string{"f", "f"}, 190, false, rundir.CPU{Allowed: 4, Full: 1}},
		"another command has ended": {[2]string{"3", "c"}, 100, true, rundir.CPU{Allowed: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			own := Member{Command: 11, Base: 10}
			sampler := &Sampler{o: Options{Member: own, Proc: filepath.Join(s.root, "proc")}, tree: newTree(filepath.Join(s.root, "proc"), own), limit: -1}
			sampler.tree.watch([]Member{own, {Command: 21, Base: 20}})
			for i := range 20 {
				for n, pid := range []int{11, 21} {
					s.write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (python) S %d 0 0 0 0 0 7 0 1 0 %d 0 0 0 20 0 3 0 1 0 100 0", pid, pid-1, c.ticks*i))
					s.write(fmt.Sprintf("proc/%d/status", pid), "Name:\tpython\nCpus_allowed:\t"+c.masks[n]+"\n")
				}
				if c.ending && i == 19 {
					s.gone(21)
				}
				sampler.sample(time.Unix(int64(1000+i), 0))
			}
			if got := sampler.CPU(); got == nil || *got != c.want {
				t.Errorf("CPU() = %+v, want %+v", got, c.want)
			}
		})
	}
}

// Package resources samples the resources that the processes of a command use
// and wait for: CPU, memory, I/O, page faults, the limits of their control
// groups, the load of the system, and GPUs. It samples from outside: it runs no
// code in the processes and needs only the rights of their user.
package resources

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/proc"
)

// Category is the category of the counter events.
const Category = "resources"

// Options configures a Sampler.
type Options struct {
	// Member is the command.
	Member
	// Node coordinates the processes of the same start on the same node; it may be
	// nil. A process that does not sample for the others samples only its own
	// processes, every few seconds, and has no evidence.
	Node *Node
	// Open returns the writer of the counter events. Events of a process have its
	// id, those of the control group and the GPUs have Base. Open is called once,
	// when this process begins to sample for all. If it is nil, nothing is written.
	Open func() *dftracer.Writer
	// Interval is the time between two samples; 0 means 1 s.
	Interval time.Duration
	// Cgroup is the control group; nil if unknown.
	Cgroup *Cgroup
	// Proc is the path of /proc, Sys that of /sys. Empty means these paths.
	Proc, Sys string
	// Sampled samples the GPUs. Nil means that no GPUs are sampled.
	Sampled *GPUs
}

// Sampler samples until it is stopped. It is safe for concurrent use.
type Sampler struct {
	o    Options
	stop chan struct{}
	work sync.WaitGroup
	once sync.Once

	// Used by the sampling goroutine.
	leads   bool
	gpusOf  string        // the members whose GPUs are sampled
	gpuStop chan struct{} // ends the sampling of GPUs

	mu      sync.Mutex
	tree    *tree
	writer  *dftracer.Writer
	aside   bool  // another process samples for this one
	group   usage // of all processes together
	groupAt int64 // peak of the control group
	limit   int64
	held    [2]int64 // first and last microseconds of throttling
	cpu     cpuUsage
	gpus    map[string]*gpuUsage
	host    hostUsage
	groups  map[string]*groupUsage // by folder
}

// Start returns a running Sampler.
func Start(o Options) *Sampler {
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Sys == "" {
		o.Sys = "/sys"
	}
	s := &Sampler{
		o: o, stop: make(chan struct{}), tree: newTree(o.Proc, o.Member),
		limit: -1, held: [2]int64{-1, -1}, gpus: make(map[string]*gpuUsage),
	}
	s.work.Go(s.run)
	return s
}

// Stop takes a last sample and ends the sampling.
func (s *Sampler) Stop() {
	s.once.Do(func() {
		close(s.stop)
		s.work.Wait()
	})
}

func (s *Sampler) run() {
	ticker := time.NewTicker(s.o.Interval)
	defer ticker.Stop()
	s.turn(time.Now(), 0)
	for n := 1; ; n++ {
		select {
		case now := <-ticker.C:
			s.turn(now, n)
		case <-s.stop:
			s.turn(time.Now(), 0)
			if s.gpuStop != nil {
				close(s.gpuStop)
			}
			return
		}
	}
}

// apart is the factor by which the interval of a process is longer if another
// process samples for it.
const apart = 5

// turn samples at the n-th interval since the start, unless another process
// samples for this one and the interval is skipped.
func (s *Sampler) turn(now time.Time, n int) {
	members := []Member{s.o.Member}
	leads := s.o.Node == nil
	if s.o.Node != nil {
		if leads = s.o.Node.Leads(); leads {
			members = s.o.Node.Members()
		}
	}
	if !leads && n%apart != 0 {
		return
	}
	if leads {
		s.lead(members)
	}
	s.mu.Lock()
	s.aside = !leads
	s.tree.watch(members)
	s.mu.Unlock()
	s.sample(now)
}

// lead opens the resources that only the leading process needs.
func (s *Sampler) lead(members []Member) {
	if !s.leads && s.o.Open != nil {
		w := s.o.Open()
		s.mu.Lock()
		s.writer = w
		s.mu.Unlock()
	}
	if only := gpusOf(members); s.o.Sampled != nil && len(members) > 0 && (!s.leads || only != s.gpusOf) {
		if s.gpuStop != nil {
			close(s.gpuStop)
		}
		stop := make(chan struct{})
		s.gpuStop, s.gpusOf = stop, only
		g := GPUs{Path: s.o.Sampled.Path, Only: only}
		s.work.Go(func() { g.read(stop, s.gpu) })
		if inInitialNamespace(s.o.Proc) {
			s.work.Go(func() { g.readProcesses(stop, s.computes) })
		}
	}
	s.leads = true
}

// sample takes one sample of all values.
func (s *Sampler) sample(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rss int64
	var cores float64
	children := make(map[int]int) // number of children that run the program of their parent
	s.readGroups()
	s.tree.look(now, func(p *Process, st *stat) {
		if s.writer != nil {
			st.delays, st.group = proc.RunDelays(s.o.Proc, p.PID), s.groupOf(p.PID)
		}
		rss += st.RSS
		if up := s.tree.ours[p.Parent]; up != nil && up.Program == p.Program {
			children[p.Parent]++
		}
		if !p.at.IsZero() {
			if seconds := now.Sub(p.at).Seconds(); seconds > 0 {
				cores += float64(subtract(st.User+st.Sys, p.last.User+p.last.Sys)) / tick / seconds
			}
			s.counters(p, st, now)
			s.waits(p, st, now)
			s.device(p, now)
		}
		p.usage.note(st, &p.last, now)
	})
	for _, p := range s.tree.ours {
		p.usage.workers = p.usage.workers || children[p.Parent] > 1
	}
	if rss > 0 {
		s.group.peak = max(s.group.peak, rss)
		s.group.begin(now)
		s.group.memory.add(now.Sub(s.group.first).Seconds(), float64(rss))
	}
	s.limits(now)
	s.system(now)
	var commands []int
	for _, m := range s.tree.members {
		commands = append(commands, m.Command)
	}
	allowed := proc.AllowedCores(s.o.Proc, commands...)
	if n := s.host.last.Cores; n > 0 { // an affinity may include processors that do not exist
		allowed = min(allowed, n)
	}
	s.cpu.note(cores, allowed, now)
}

// cpuUsage measures the time in which the processes together used all
// processors that they may use.
type cpuUsage struct {
	at            time.Time
	limit         float64 // cores of the control group, 0 without a limit
	affinity      int     // cores of all commands at the last sample of all, 0 if unknown
	allowed       float64 // cores at that sample
	sampled, full float64 // seconds
}

// note adds a sample. The affinity is 0 from the end of a command on: the use of
// the others is not compared with the processors of all.
func (c *cpuUsage) note(cores float64, affinity int, now time.Time) {
	if affinity == 0 && c.affinity > 0 {
		c.at = now
		return
	}
	c.affinity = affinity
	seconds := now.Sub(c.at).Seconds()
	if c.at.IsZero() {
		seconds = 0
	}
	c.at = now
	if c.allowed = float64(affinity); c.limit > 0 && (c.limit < c.allowed || affinity == 0) {
		c.allowed = c.limit
	}
	if c.allowed <= 0 || seconds <= 0 {
		return
	}
	if c.sampled += seconds; cores >= nearLimit*c.allowed {
		c.full += seconds
	}
}

// CPU returns a summary of the CPU samples, or nil if there are too few samples
// or another process samples.
func (s *Sampler) CPU() *rundir.CPU {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := &s.cpu; !s.aside && c.sampled >= leastCPU {
		return &rundir.CPU{Allowed: c.allowed, Full: c.full / c.sampled}
	}
	return nil
}

func (u *usage) begin(now time.Time) {
	if u.first.IsZero() {
		u.first = now
	}
	u.last = now
}

// note adds a sample to the sums.
func (u *usage) note(st, last *stat, now time.Time) {
	u.begin(now)
	u.peak = max(u.peak, st.RSS)
	u.cpu = float64(st.User+st.Sys) / tick
	u.memory.add(now.Sub(u.first).Seconds(), float64(st.RSS))
	if st.io.known && last.io.known {
		u.read += subtract(st.io.chars, last.io.chars)
		u.wrote += subtract(st.io.written, last.io.written)
		u.fetched += subtract(st.io.fromStorage, last.io.fromStorage)
		u.stored += subtract(st.io.toStorage, last.io.toStorage)
	}
}

// subtract returns a-b, or 0 for a count that decreased.
func subtract(a, b uint64) uint64 {
	if a < b {
		return 0
	}
	return a - b
}

// counters writes the resources that a process used since the last sample.
func (s *Sampler) counters(p *Process, st *stat, now time.Time) {
	seconds := now.Sub(p.at).Seconds()
	if s.writer == nil || seconds <= 0 {
		return
	}
	rate := func(a, b uint64) float64 { return float64(subtract(a, b)) / seconds }
	ts, pid := now.UnixMicro(), int64(p.PID)
	write := func(name string, args ...dftracer.Arg) {
		s.writer.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Cat: Category, Name: name, PID: pid, TID: pid, TS: ts, Args: args})
	}
	write("cpu",
		dftracer.Float("user_cores", rate(st.User, p.last.User)/tick),
		dftracer.Float("system_cores", rate(st.Sys, p.last.Sys)/tick),
		dftracer.Int("threads", st.Threads))
	write("memory", dftracer.Int("rss_bytes", st.RSS))
	write("page_faults",
		dftracer.Float("minor_per_s", rate(st.Minor, p.last.Minor)),
		dftracer.Float("major_per_s", rate(st.Major, p.last.Major)))
	if a, b := &st.io, &p.last.io; a.known && b.known {
		write("io",
			dftracer.Float("read_bytes_per_s", rate(a.chars, b.chars)),
			dftracer.Float("write_bytes_per_s", rate(a.written, b.written)),
			dftracer.Float("reads_per_s", rate(a.readCalls, b.readCalls)),
			dftracer.Float("writes_per_s", rate(a.writeCalls, b.writeCalls)),
			dftracer.Float("storage_read_bytes_per_s", rate(a.fromStorage, b.fromStorage)),
			dftracer.Float("storage_write_bytes_per_s", rate(a.toStorage, b.toStorage)))
	}
}

// limits writes the usage and the limits of the control group.
func (s *Sampler) limits(now time.Time) {
	if s.o.Cgroup == nil || s.aside {
		return
	}
	l := s.o.Cgroup.Limits()
	s.groupAt, s.limit = max(s.groupAt, l.Memory), l.MemoryLimit
	if s.held[0] < 0 {
		s.held[0] = l.Throttled
	}
	s.held[1] = l.Throttled
	var args []dftracer.Arg
	for _, v := range []struct {
		key string
		n   int64
	}{{"memory_bytes", l.Memory}, {"memory_limit_bytes", l.MemoryLimit}, {"throttled_us", l.Throttled}, {"periods", l.Periods}, {"periods_throttled", l.Held}} {
		if v.n >= 0 {
			args = append(args, dftracer.Int(v.key, v.n))
		}
	}
	s.cpu.limit = max(l.Cores, 0)
	if l.Cores >= 0 {
		args = append(args, dftracer.Float("cpu_limit_cores", l.Cores))
	}
	if len(args) > 0 {
		s.counter("cgroup", now, args...)
	}
}

// counter writes an event for all processes together.
func (s *Sampler) counter(name string, now time.Time, args ...dftracer.Arg) {
	if s.writer != nil {
		pid := int64(s.o.Base)
		s.writer.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Cat: Category, Name: name, PID: pid, TID: pid, TS: now.UnixMicro(), Args: args})
	}
}

// Processes returns the current and ended processes of the command, and the
// number of further processes that were not kept.
func (s *Sampler) Processes() (list []Process, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.tree.all() {
		if p.base == s.tree.own.Base {
			list = append(list, *p)
		}
	}
	return list, s.tree.missed
}

// usage summarizes the resources that a process used.
type usage struct {
	cpu         float64 // seconds
	first, last time.Time
	read, wrote uint64 // bytes by calls
	stored      uint64 // bytes to storage
	fetched     uint64 // bytes from storage
	peak        int64  // bytes of memory
	memory      trend
	workers     bool // it is one of several children that run their parent's program
}

func (u *usage) seconds() float64 { return u.last.Sub(u.first).Seconds() }

// trend keeps samples, and fits a line to those in the second half of the time.
type trend struct {
	samples [][2]float64
	every   int // one of this number of samples is kept
	n       int
}

// maxTrend is the maximum number of samples. When it is reached, every second
// sample is dropped.
const maxTrend = 256

func (t *trend) add(x, y float64) {
	if t.every == 0 {
		t.every = 1
	}
	if t.n++; (t.n-1)%t.every != 0 {
		return
	}
	if len(t.samples) == maxTrend {
		for i := range maxTrend / 2 {
			t.samples[i] = t.samples[2*i]
		}
		t.samples, t.every = t.samples[:maxTrend/2], 2*t.every
		if (t.n-1)%t.every != 0 {
			return
		}
	}
	t.samples = append(t.samples, [2]float64{x, y})
}

// line returns the slope of the line, the share of the variance that it
// explains, and the length of the second half. The first half is ignored,
// because the memory that a program needs to start is not growth.
func (t *trend) line() (slope, fit, span float64) {
	if len(t.samples) == 0 {
		return 0, 0, 0
	}
	first, last := t.samples[0][0], t.samples[len(t.samples)-1][0]
	half := t.samples
	for len(half) > 0 && half[0][0] < (first+last)/2 {
		half = half[1:]
	}
	var n, x, y, xx, xy, yy float64
	for _, s := range half {
		a, b := s[0]-half[0][0], s[1]-half[0][1]
		n, x, y, xx, xy, yy = n+1, x+a, y+b, xx+a*a, xy+a*b, yy+b*b
	}
	vx, vy, c := n*xx-x*x, n*yy-y*y, n*xy-x*y
	if vx <= 0 || vy <= 0 {
		return 0, 0, last - half[0][0]
	}
	return c / vx, math.Min(c*c/(vx*vy), 1), last - half[0][0]
}

// last returns the last value.
func (t *trend) last() float64 { return t.samples[len(t.samples)-1][1] }

// tick is 10 ms, the unit of processor time in /proc on every Linux system.
const tick = 100

// stat is the state of a process in /proc at one moment.
type stat struct {
	proc.Stat
	io ioStat

	delays map[int]uint64 // of its threads; see [proc.RunDelays]
	group  *groupUsage
}

// ioStat has the bytes that a process read and wrote: by calls, and from and to
// storage.
type ioStat struct {
	known                  bool
	chars, written         uint64 // bytes by calls, including those served from caches
	readCalls, writeCalls  uint64
	fromStorage, toStorage uint64
}

// readIO reads /proc/PID/io, which only the owner may read.
func readIO(root string, pid int) (s ioStat) {
	text, err := os.ReadFile(filepath.Join(root, strconv.Itoa(pid), "io"))
	if err != nil {
		return s
	}
	fields := map[string]*uint64{
		"rchar": &s.chars, "wchar": &s.written, "syscr": &s.readCalls, "syscw": &s.writeCalls,
		"read_bytes": &s.fromStorage, "write_bytes": &s.toStorage,
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		if to := fields[key]; to != nil {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			if err != nil {
				return ioStat{}
			}
			*to, s.known = n, true
		}
	}
	return s
}

// numbers returns the processes of the system.
func numbers(root string) []int {
	dir, err := os.Open(root)
	if err != nil {
		return nil
	}
	defer dir.Close() //nolint:errcheck // only read
	names, _ := dir.Readdirnames(-1)
	out := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
			out = append(out, pid)
		}
	}
	return out
}

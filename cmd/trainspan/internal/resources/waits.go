package resources

import (
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/proc"
)

// hostUsage holds the counters of the system at the last sample.
type hostUsage struct {
	last proc.Host
	at   time.Time
}

// groupUsage holds the counters of a control group's limit at the last sample
// and at this one.
type groupUsage struct {
	of       *Cgroup
	was, now Limits
	used     bool // a process of the last sample is in it
}

// readGroups updates the groups of the last sample.
func (s *Sampler) readGroups() {
	for dir, g := range s.groups {
		if !g.used {
			delete(s.groups, dir)
			continue
		}
		g.used, g.was = false, g.now
		g.of.readProcessor(&g.now)
	}
}

// groupOf returns the group of a process, which may have changed.
func (s *Sampler) groupOf(pid int) *groupUsage {
	c := FindCgroup(s.o.Proc, s.o.Sys, pid)
	if c == nil || c.cpu == "" {
		return nil
	}
	g := s.groups[c.cpu]
	if g == nil {
		g = &groupUsage{of: c, now: Limits{Cores: -1, Throttled: -1, Periods: -1, Held: -1}}
		g.of.readProcessor(&g.now)
		g.was = g.now
		if s.groups == nil {
			s.groups = make(map[string]*groupUsage)
		}
		s.groups[c.cpu] = g
	}
	g.used = true
	return g
}

// longestDelay returns the share of the time in which the thread with the
// longest delay was runnable without a CPU. It is negative if unknown.
func longestDelay(now, before map[int]uint64, seconds float64) float64 {
	most := -1.0
	for tid, ns := range now {
		if was, ok := before[tid]; ok {
			most = max(most, float64(subtract(ns, was))/1e9/seconds)
		}
	}
	return min(most, 1)
}

// waits writes the times for which a process could not run since the last
// sample, by cause.
func (s *Sampler) waits(p *Process, st *stat, now time.Time) {
	seconds := now.Sub(p.at).Seconds()
	if s.writer == nil || seconds <= 0 {
		return
	}
	var args []dftracer.Arg
	if d := longestDelay(st.delays, p.last.delays, seconds); d >= 0 {
		args = append(args, dftracer.Float("run_delay_share", d))
	}
	if n := proc.AllowedCores(s.o.Proc, p.PID); n > 0 {
		args = append(args, dftracer.Int("allowed_cores", int64(n)))
	}
	if st.IODelay > 0 { // only if the kernel counts it
		args = append(args, dftracer.Float("io_delay_share", min(float64(subtract(st.IODelay, p.last.IODelay))/tick/seconds, 1)))
	}
	if g := st.group; g != nil && g.now.Cores >= 0 {
		args = append(args, dftracer.Float("cpu_limit_cores", g.now.Cores))
		if n := g.now.Periods - g.was.Periods; n > 0 && g.was.Held >= 0 {
			args = append(args, dftracer.Float("throttled_share", float64(g.now.Held-g.was.Held)/float64(n)))
		}
	}
	if len(args) > 0 {
		pid := int64(p.PID)
		s.writer.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Cat: Category, Name: "sched", PID: pid, TID: pid, TS: now.UnixMicro(), Args: args})
	}
}

// system writes the counters of the system since the last sample.
func (s *Sampler) system(now time.Time) {
	if s.writer == nil || s.aside {
		return
	}
	h, err := proc.ReadHost(s.o.Proc)
	if err != nil {
		return // for example not on Linux
	}
	last, seconds := s.host.last, now.Sub(s.host.at).Seconds()
	known := !s.host.at.IsZero() && seconds > 0
	s.host = hostUsage{h, now}
	if !known {
		return
	}
	args := []dftracer.Arg{dftracer.Int("runnable", int64(h.Runnable)), dftracer.Int("cores", int64(h.Cores))}
	if all := float64(subtract(h.All, last.All)); all > 0 {
		args = append(args,
			dftracer.Float("busy_share", float64(subtract(h.Busy, last.Busy))/all),
			dftracer.Float("steal_share", float64(subtract(h.Steal, last.Steal))/all),
			dftracer.Float("io_wait_share", float64(subtract(h.IOWait, last.IOWait))/all))
	}
	for i, name := range proc.Resources {
		if h.PressureKnown[i] && last.PressureKnown[i] {
			args = append(args, dftracer.Float(name+"_pressure_share", min(float64(subtract(h.Pressure[i], last.Pressure[i]))/1e6/seconds, 1)))
		}
	}
	s.counter("system", now, args...)
}

package report

import (
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/compare"
	"github.com/trainspan/trainspan/internal/job"
)

// hostsOf returns the hosts of the ranks, sorted, or nil if the host of a rank is unknown.
func hostsOf(j *job.Job) (out []string) {
	for _, p := range j.Processes {
		if p.Host == "" {
			return nil
		}
		out = append(out, p.Host)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// spent returns the time per rank (mean over ranks) by its use.
func spent(led *account.Report) compare.Spent {
	n := float64(max(len(led.Ranks), 1))
	out := compare.Spent{Wall: float64(led.Categories.Sum()) / n, StepsRun: led.Iterations.Kept}
	for c, ns := range led.Categories {
		t := float64(ns) / n
		switch {
		case c.IsStartUp(), c == account.Init, c == account.CheckpointLoad, c == account.Warmup:
			out.StartUp += t
		case c == account.LostWork, c == account.Stall:
			out.Lost += t
		case c == account.Downtime, c == account.Absent, c == account.Unobserved:
			out.Down += t
		}
	}
	return out
}

// Comparable returns a job in the form that package compare uses.
func Comparable(j *Job, name string) *compare.Run {
	rep := begin(j)
	tables, s := rep.answer(j)
	var tokens int64
	var missing []int
	for i := range tables {
		tokens = max(tokens, tokensOf(tables[i]))
	}
	missing = rep.Ledger.Missing
	out := &compare.Run{Name: name, WorldSize: max(j.Job.Ranks, len(rep.Ranks)), Tokens: tokens, Missing: missing, Phases: make(map[string][]float64)}
	out.HostWork = rep.mostHostWork()
	out.Hosts, out.Spent, out.Finding = hostsOf(j.Job), spent(rep.Ledger), rep.Verdict.Finding
	for _, t := range tables {
		if t != nil && (out.Table == nil || len(t.Steps) > len(out.Table.Steps)) {
			out.Table = t
		}
	}
	if rep.Profile != nil {
		all := usesSum(j.uses)
		out.Profile, out.Spent = &all, compare.Spent{} // a profile covers only a window of the job
	}
	if rep.Goodput != nil && rep.Profile == nil {
		out.Goodput = *rep.Goodput
		for _, s := range rep.Shares {
			name := s.Name
			if s.Part != partWait { // without the rank, which may differ between runs
				name = PartName(s.Part)
			}
			out.Account = append(out.Account, compare.Share{Name: name, Seconds: float64(s.Time) / float64(max(len(rep.Ranks), 1)) / 1e9})
		}
	}
	keep := func(x []float64) []float64 {
		y := make([]float64, 0, len(x))
		for i, v := range x {
			if s.period[i] > 0 {
				y = append(y, max(v, 0)) // keeps NaN, which the loop below replaces
			}
		}
		for i, v := range y {
			if v != v {
				y[i] = 0
			}
		}
		return y
	}
	out.Periods = keep(s.period)
	for name, x := range s.phases {
		out.Phases[name] = keep(x)
	}
	if slices.ContainsFunc(s.wait, func(v float64) bool { return v == v }) {
		both := make([]float64, len(s.wait))
		for i := range both {
			both[i] = s.wait[i] + s.transfer[i]
		}
		out.Phases[communication] = keep(both)
	}
	return out
}

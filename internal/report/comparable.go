package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/compare"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// hostsOf returns the hosts of the ranks, sorted, or nil if the host of a rank is unknown.
func hostsOf(j *job.Job) (out []string) {
	for _, p := range j.Processes {
		host := p.KnownHost()
		if host == "" {
			return nil
		}
		out = append(out, host)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// spent returns the time per rank (mean over ranks) by its use. Its parts are those of the shares.
func (r *Report) spent() compare.Spent {
	led := r.Ledger
	n := float64(max(len(led.Ranks), 1))
	out := compare.Spent{Wall: float64(led.Categories.Sum()) / n, StepsRun: led.Iterations.Kept}
	for i := range r.Shares {
		t := float64(r.Shares[i].Time) / n
		switch r.Shares[i].Part {
		case partStart:
			out.StartUp += t
		case string(account.LostWork), string(account.Stall):
			out.Lost += t
		case string(account.Downtime), string(account.Absent), string(account.Unobserved):
			out.Down += t
		}
	}
	return out
}

// notCompared returns the ranks without records, and those whose steps are not in the table.
func (r *Report) notCompared(t *straggler.Table) []int {
	out := slices.Clone(r.Ledger.Missing)
	if t == nil {
		return out
	}
	for i := range r.Ranks {
		if _, in := slices.BinarySearch(t.Ranks, r.Ranks[i].Rank); !in {
			out = append(out, r.Ranks[i].Rank)
		}
	}
	slices.Sort(out)
	return out
}

// Comparable returns a job in the form that package compare uses.
func Comparable(j *Job, name string) *compare.Run {
	rep := begin(j)
	tables, s := rep.answer(j)
	var tokens int64
	for i := range tables {
		tokens = max(tokens, tokensOf(tables[i]))
	}
	out := &compare.Run{Name: name, WorldSize: max(j.Job.Ranks, len(rep.Ranks)), Tokens: tokens, Phases: make(map[string][]float64)}
	out.HostWork = rep.mostHostWork()
	out.Hosts, out.Spent, out.Finding = hostsOf(j.Job), rep.spent(), rep.Verdict.Finding
	if v := &rep.Verdict; v.Confidence == "low" {
		out.Doubts = strings.Join(v.Doubts, "; ")
	}
	for _, t := range tables {
		if t != nil && (out.Table == nil || len(t.Steps) > len(out.Table.Steps)) {
			out.Table = t
		}
	}
	out.Missing = rep.notCompared(out.Table)
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
	out.Updates = slices.ContainsFunc(j.Job.Processes, func(p *job.Process) bool { return p.Steps.Rule == vocab.StepUpdate })
	if s.count != len(s.number) {
		out.Unit, out.Steps = fmt.Sprintf("windows of %d steps", straggler.WindowSteps), s.count
	}
	for name, x := range s.phases {
		out.Phases[name] = keep(x)
	}
	if out.Table != nil && slices.ContainsFunc(s.wait, func(v float64) bool { return v == v }) {
		both := make([]float64, len(s.wait))
		for i := range both {
			both[i] = s.wait[i] + s.transfer[i]
		}
		// Two runs of one program can differ in whether a collective can be told from the phase that hides it.
		both, into := keep(both), communication
		if p, hides := out.Table.Hides(); hides {
			into = p.String()
			for i, v := range out.Phases[into] {
				both[i] += v
			}
		}
		out.Phases[into] = both
	}
	return out
}

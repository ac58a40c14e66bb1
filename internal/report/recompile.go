package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/job"
)

// Recompilation is a training step in which a compiler compiled the model again.
type Recompilation struct {
	Rank    int    `json:"rank"`
	Attempt int    `json:"attempt"`
	Step    int64  `json:"step"`
	Time    int64  `json:"ns"` // in the step; compilations that overlap count once
	Reason  string `json:"reason,omitempty"`

	inWarmup int64 // the part of Time on the thread of the training, which the ledger counts as warm-up
}

// maxRecompiled limits the list of recompilations in the JSON of a report.
const maxRecompiled = 1024

// compileTime is the time of the compilations of a rank in compared steps.
type compileTime struct {
	all      int64
	inWarmup int64 // the part on the thread of the training
}

func (c compiled) compare(o compiled) int {
	return cmp.Or(cmp.Compare(c.start, o.start), cmp.Compare(c.end, o.end), cmp.Compare(c.thread, o.thread), cmp.Compare(c.reason, o.reason))
}

// compiledSteps assigns the compilations of a process to its steps, by time: some run on another
// thread than the training. Those outside of steps are left out.
func compiledSteps(steps *job.Steps, all []compiled) (out []Recompilation) {
	if len(all) == 0 {
		return nil
	}
	its := steps.All()
	var until, onThread int64 // the end of the previous compilation, and of that on the thread of the training
	for _, c := range slices.SortedFunc(slices.Values(all), compiled.compare) {
		n, _ := slices.BinarySearchFunc(its, c.start, func(st job.Step, at int64) int {
			if st.Start <= at {
				return -1
			}
			return 1
		})
		if n == 0 || its[n-1].End != job.NoEnd && its[n-1].End < c.start {
			continue
		}
		took := max(c.end-max(c.start, until), 0)
		until = max(until, c.end)
		step := steps.Shown(n - 1)
		if k := len(out); k == 0 || out[k-1].Step != step {
			out = append(out, Recompilation{Step: step})
		}
		of := &out[len(out)-1]
		of.Time += took
		of.Reason = cmp.Or(of.Reason, c.reason)
		if job.ThreadOf(c.thread) == job.ThreadOf(its[n-1].Thread) {
			of.inWarmup += max(c.end-max(c.start, onThread), 0)
			onThread = max(onThread, c.end)
		}
	}
	return out
}

// recompiled sets Recompiled, the compilations in the compared steps, and their sums by rank. Those in the first
// steps of an attempt are part of its start.
func (r *Report) recompiled(d *details, s *steps) {
	if d == nil || len(d.compiled) == 0 {
		return
	}
	type key struct {
		attempt int
		step    int64
	}
	compared := make(map[key]bool, len(s.number))
	for i, n := range s.number {
		compared[key{s.attempt[i], n}] = true
	}
	r.compiling = make(map[int]compileTime)
	for _, c := range d.compiled {
		if compared[key{c.Attempt, c.Step}] && c.Time > 0 {
			r.Recompiled = append(r.Recompiled, c)
			of := r.compiling[c.Rank]
			r.compiling[c.Rank] = compileTime{of.all + c.Time, of.inWarmup + c.inWarmup}
		}
	}
	slices.SortFunc(r.Recompiled, func(a, b Recompilation) int {
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Step, b.Step), cmp.Compare(a.Rank, b.Rank))
	})
}

// recompileTime returns the time of the compilations of a rank in compared steps, and the part of it
// that the ledger counts as warm-up.
func (r *Report) recompileTime(rank *account.RankReport) (ns, inWarmup int64) {
	of := r.compiling[rank.Rank]
	inWarmup = min(of.inWarmup, rank.Categories[account.Warmup])
	return min(of.all, inWarmup+rank.Categories[account.Productive]), inWarmup
}

// startParts returns the parts of the start, the longest first. Warm-up is without the compilations
// in later steps, which the ledger counts with it.
func (r *Report) startParts() (parts []Loss, all int64) {
	var later int64
	early := make(account.Totals)
	for i := range r.Ledger.Ranks {
		_, inWarmup := r.recompileTime(&r.Ledger.Ranks[i])
		later += inWarmup
		for c, ns := range r.Ledger.Ranks[i].BeforeSteps {
			early[c] += ns
		}
	}
	for _, l := range r.Losses {
		if partOf(l.Category) != partStart {
			if l.Time = early[l.Category]; l.Time == 0 {
				continue
			}
		}
		if l.Category == account.Warmup {
			l.Time -= later
		}
		if all += l.Time; l.Time > 0 {
			parts = append(parts, l)
		}
	}
	slices.SortStableFunc(parts, func(a, b Loss) int { return cmp.Compare(b.Time, a.Time) })
	return parts, all
}

// recompileEvidence returns the affected steps, their mean cost and the first reason.
func (r *Report) recompileEvidence() *finding.Evidence {
	const most = 8
	e := &finding.Evidence{}
	var all int64
	type key struct {
		attempt int
		step    int64
	}
	var last key
	for i := range r.Recompiled {
		c := &r.Recompiled[i]
		all += c.Time
		e.Seen = cmp.Or(e.Seen, shortReason(c.Reason))
		if k := (key{c.Attempt, c.Step}); i == 0 || k != last {
			last = k
			if e.Affected++; len(e.Steps) < most {
				e.Steps = append(e.Steps, c.Step)
			}
		}
	}
	e.Interval, e.Judged = max(r.Steps.Compared, e.Affected), max(r.Steps.Compared, e.Affected)
	e.Excess = float64(all) / float64(max(len(r.Recompiled), 1)) / 1e6
	return e
}

// shortReason returns the first line of a compiler's reason without the number of the cache entry that
// it failed for: "0/0: tensor 'x' size mismatch".
func shortReason(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if number, rest, ok := strings.Cut(text, ": "); ok && strings.Trim(number, "0123456789/- ") == "" {
		text = rest
	}
	return strings.TrimSpace(text)
}

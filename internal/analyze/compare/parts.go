package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// Kinds of a [Part].
const (
	partSteps    = "number_of_steps"
	partStartUp  = "start_up"
	partLost     = "lost_work"
	partDown     = "downtime"
	partPhase    = "phase"         // within steps: work
	partTransfer = "transfer"      // within steps: of a group
	PartInSteps  = "rest_of_steps" // within steps: not explained by any exchange
	partOther    = "other"         // neither in steps nor one of these
)

// Part is the contribution of one cause to the difference of two runs.
type Part struct {
	Kind  string `json:"kind"`
	Phase string `json:"phase,omitempty"`
	Work  string `json:"work,omitempty"`  // of the phase host, if it was not other code: what most of its time was
	Ranks []int  `json:"ranks,omitempty"` // of a phase: those that changed themselves; empty is all others
	Group string `json:"group,omitempty"` // of a transfer
	// StepMS is the contribution to a mean step, within steps; Seconds that to the
	// run, nil if the duration of the run is unknown.
	StepMS  float64  `json:"step_ms,omitempty"`
	Seconds *float64 `json:"seconds,omitempty"`
	// LowMS and HighMS bound StepMS with 95 %, by how the steps of both runs vary; both are 0
	// where that is not known, as of what is left of a difference.
	LowMS  float64 `json:"step_low_ms,omitempty"`
	HighMS float64 `json:"step_high_ms,omitempty"`
}

// bounded reports whether the part has an interval.
func (p *Part) bounded() bool { return p.LowMS != 0 || p.HighMS != 0 }

// MayBeChance reports whether the interval of the part includes zero, because of
// the variation of the steps of both runs.
func (p *Part) MayBeChance() bool { return p.bounded() && p.LowMS <= 0 && p.HighMS >= 0 }

// inSteps reports whether the part is within steps.
func (p *Part) inSteps() bool {
	return p.Kind == partPhase || p.Kind == partTransfer || p.Kind == PartInSteps
}

// smallPart is the share of the largest part below which a part gets no line.
const smallPart = 0.02

// Large reports whether the part is relevant in a comparison.
func (p *Part) Large(r *Result) bool {
	most := func(of func(*Part) float64) (m float64) {
		for i := range r.Parts {
			m = max(m, math.Abs(of(&r.Parts[i])))
		}
		return m
	}
	step := func(p *Part) float64 { return p.StepMS }
	run := func(p *Part) float64 {
		if p.Seconds == nil {
			return 0
		}
		return *p.Seconds
	}
	large := func(of func(*Part) float64) bool { v := math.Abs(of(p)); return v > 0 && v >= smallPart*most(of) }
	return large(step) || large(run)
}

// Plus adds the contribution of another part.
func (p *Part) Plus(o *Part) {
	p.StepMS += o.StepMS
	p.LowMS, p.HighMS = 0, 0
	if o.Seconds != nil {
		sum := *o.Seconds
		if p.Seconds != nil {
			sum += *p.Seconds
		}
		p.Seconds = &sum
	}
}

// divide computes the parts. The duration of a run is its start, the lost time,
// and its steps times their mean; the product changes by each factor times the
// mean of the other.
func (r *Result) divide(a, b *Run) {
	ma, mb := stats.Mean(a.Periods), stats.Mean(b.Periods)
	r.StepMS = (mb - ma) / 1e6
	var steps float64 // seconds of the run for each millisecond of a step
	known := a.Spent.Wall > 0 && b.Spent.Wall > 0
	if known {
		steps = float64(a.Spent.StepsRun+b.Spent.StepsRun) / 2 / 1e3
	}
	within := func(p Part) {
		if known {
			s := p.StepMS * steps
			p.Seconds = &s
		}
		r.Parts = append(r.Parts, p)
	}
	rest := r.StepMS
	for _, x := range exchanged(a.Table, b.Table) {
		p := Part{Kind: partPhase, Phase: x.Phase, Work: workOf(x.Phase, a, b), Ranks: x.Ranks, StepMS: x.Time / 1e6, LowMS: x.Low / 1e6, HighMS: x.High / 1e6}
		if x.Group != "" || x.Phase == straggler.Communication.String() {
			p.Kind, p.Phase, p.Group = partTransfer, "", x.Group
		}
		rest -= p.StepMS
		within(p)
	}
	within(Part{Kind: PartInSteps, StepMS: rest})
	if known {
		all := (b.Spent.Wall - a.Spent.Wall) / 1e9
		left := all - r.StepMS*steps
		add := func(kind string, s float64) {
			left -= s
			r.Parts = append(r.Parts, Part{Kind: kind, Seconds: &s})
		}
		add(partSteps, float64(b.Spent.StepsRun-a.Spent.StepsRun)*(ma+mb)/2/1e9)
		add(partStartUp, (b.Spent.StartUp-a.Spent.StartUp)/1e9)
		add(partLost, (b.Spent.Lost-a.Spent.Lost)/1e9)
		add(partDown, (b.Spent.Down-a.Spent.Down)/1e9)
		add(partOther, left)
		r.Difference = &all
	}
	slices.SortStableFunc(r.Parts, func(p, q Part) int {
		if known {
			return cmp.Compare(math.Abs(*q.Seconds), math.Abs(*p.Seconds))
		}
		return cmp.Compare(math.Abs(q.StepMS), math.Abs(p.StepMS))
	})
}

func exchanged(a, b *straggler.Table) []straggler.Part {
	if a == nil || b == nil {
		return nil
	}
	return a.Exchange(b)
}

// NamedChange is the change of one named item of two profiles, in milliseconds
// of a mean step of a rank.
type NamedChange struct {
	Name string  `json:"name"`
	Base float64 `json:"base_ms"`
	New  float64 `json:"new_ms"`
}

// ProfileChange is the change between two profiles, the largest change first.
type ProfileChange struct {
	Device bool `json:"device"` // of devices; otherwise of the host alone
	// Parts add up to the difference of the profiled steps: compute,
	// exposed_communication, copies, input, idle.
	Parts     []NamedChange `json:"parts"`
	Operators []NamedChange `json:"operators"`
	Kernels   []NamedChange `json:"kernels,omitempty"`
}

// mostNamed is the number of listed operators and kernels.
const mostNamed = 10

func compareProfiles(a, b *profile.Use) *ProfileChange {
	if a == nil || b == nil || a.Steps == 0 || b.Steps == 0 || a.Device != b.Device {
		return nil
	}
	per := func(u *profile.Use, ns int64) float64 { return float64(ns) / float64(u.Steps) / 1e6 }
	out := &ProfileChange{Device: a.Device}
	for i := range profile.Parts {
		out.Parts = append(out.Parts, NamedChange{profile.Part(i).String(), per(a, a.Parts[i]), per(b, b.Parts[i])})
	}
	named := func(x, y []profile.Operator) []NamedChange {
		var list []NamedChange
		for _, op := range x {
			list = append(list, NamedChange{Name: op.Name, Base: per(a, op.Time)})
		}
		for _, op := range y {
			i := slices.IndexFunc(list, func(c NamedChange) bool { return c.Name == op.Name })
			if i < 0 {
				i, list = len(list), append(list, NamedChange{Name: op.Name})
			}
			list[i].New = per(b, op.Time)
		}
		sortChanges(list)
		return list[:min(len(list), mostNamed)]
	}
	sortChanges(out.Parts)
	out.Operators, out.Kernels = named(a.Operators, b.Operators), named(a.Kernels, b.Kernels)
	return out
}

// AccountChange is a share of the goodput account of two runs, in seconds of a
// mean rank.
type AccountChange struct {
	Name string  `json:"name"`
	Base float64 `json:"base_s"`
	New  float64 `json:"new_s"`
}

// compareAccounts returns the shares of both runs, the largest first.
func compareAccounts(a, b []Share) (out []AccountChange) {
	if a == nil || b == nil {
		return nil
	}
	for _, s := range a {
		out = append(out, AccountChange{Name: s.Name, Base: s.Seconds})
	}
	for _, s := range b {
		i := slices.IndexFunc(out, func(c AccountChange) bool { return c.Name == s.Name })
		if i < 0 {
			i, out = len(out), append(out, AccountChange{Name: s.Name})
		}
		out[i].New = s.Seconds
	}
	slices.SortStableFunc(out, func(p, q AccountChange) int { return cmp.Compare(max(q.Base, q.New), max(p.Base, p.New)) })
	return out
}

// Rows returns the changes of the goodput account for a table: at most that
// many by name, and the sum of the others.
func (r *Result) Rows(most int) []AccountChange {
	if len(r.Account) <= most {
		return r.Account
	}
	out := slices.Clone(r.Account[:most-1])
	rest := AccountChange{Name: display.Plural(len(r.Account)-most+1, "other")}
	for _, c := range r.Account[most-1:] {
		rest.Base, rest.New = rest.Base+c.Base, rest.New+c.New
	}
	return append(out, rest)
}

func sortChanges(list []NamedChange) {
	slices.SortStableFunc(list, func(p, q NamedChange) int { return cmp.Compare(math.Abs(q.New-q.Base), math.Abs(p.New-p.Base)) })
}

// PhaseChange is the change of one phase as a share of the step of the base run.
type PhaseChange struct {
	Phase  string   `json:"phase"`
	Work   string   `json:"work,omitempty"` // "not split" for the phase host if no span divides the steps
	Base   float64  `json:"base_ms"`        // median
	New    float64  `json:"new_ms"`
	Change Interval `json:"change"`
	// Sure is set if the change is significant, at 1 % over all phases together
	// (Holm).
	Sure bool `json:"sure"`

	p      float64
	stepMS float64 // the step that Change is a share of
}

// comparePhases returns the change of each phase that both runs have.
func comparePhases(a, b *Run) []PhaseChange {
	typical := stats.Median(slices.Clone(a.Periods))
	var out []PhaseChange
	for _, name := range a.phases() {
		y, ok := b.Phases[name]
		if !ok {
			continue
		}
		x := a.Phases[name]
		rx, ry := correlations(x, y)
		ex, ey := medianOf(x, rx), medianOf(y, ry)
		p := PhaseChange{Phase: name, Base: ex.value / 1e6, New: ey.value / 1e6, stepMS: typical / 1e6}
		if workOf(name, a, b) == finding.NotSplit { // other work is that of some steps, and these are medians
			p.Work = finding.NotSplit
		}
		iv, chance := change(ex, ey)
		p.Change, p.p = Interval{iv.Change / typical, iv.Low / typical, iv.High / typical}, chance
		out = append(out, p)
	}
	holm(out)
	slices.SortStableFunc(out, func(p, q PhaseChange) int {
		return cmp.Compare(math.Abs(q.Change.Change), math.Abs(p.Change.Change))
	})
	return out
}

// holm marks the phases with a significant change, at 1 % over all of them
// together (Holm 1979): it multiplies the smallest probability by their number,
// the next by one less.
func holm(ps []PhaseChange) {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(ps[i].p, ps[j].p) })
	for k, i := range order {
		if ps[i].p*float64(len(ps)-k) >= 0.01 {
			return
		}
		ps[i].Sure = true
	}
}

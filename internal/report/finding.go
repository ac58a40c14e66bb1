package report

import (
	"slices"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// notable is the share of the time above which a loss becomes the diagnosis if nothing was
// found in the steps.
const notable = 0.10

// kindOfLoss returns the kind of finding to which a loss belongs.
func kindOfLoss(c account.Category) finding.Kind {
	switch c {
	case account.Init, account.Warmup, account.CheckpointLoad:
		return finding.StartUp
	case account.CheckpointSave:
		return finding.Checkpoints
	case account.LostWork:
		return finding.LostWork
	case account.Downtime, account.Stall, account.Unobserved, account.Absent:
		return finding.Down
	case account.DataWait:
		return finding.InputSlow
	case account.Wait:
		return finding.Wait
	case account.Validation, account.Testing:
		return finding.Evaluation
	}
	if c.IsStartUp() {
		return finding.StartUp
	}
	return finding.Other
}

// kindOfPart returns the kind of finding to which a share belongs, or "" if it is not a loss.
func kindOfPart(part string) finding.Kind {
	switch part {
	case string(account.Compute), string(account.StepUnsplit), profile.Compute.String():
		return ""
	case string(account.Communication), profile.Communication.String():
		return finding.SlowTransfer
	case string(account.OtherCode):
		return finding.OtherCode
	case partStart:
		return finding.StartUp
	case partRecompile:
		return finding.Recompile
	case profile.Copies.String():
		return finding.Copies
	case profile.Input.String():
		return finding.InputSlow
	case profile.Idle.String():
		return finding.IdleDevice
	}
	return kindOfLoss(account.Category(part))
}

// largestLoss returns the finding of the largest notable loss, or nil. A long start is not compared with what
// happens after it: other losses are notable if they take a tenth of the time without it, and the start only
// if there is none and it matters (see startMatters).
func (r *Report) largestLoss() *finding.Finding {
	groups := make(map[finding.Kind]int64)
	var all, most int64
	for i := range r.Shares {
		s := &r.Shares[i]
		all += s.Time
		if kind := kindOfPart(s.Part); kind != "" && r.isLoss(s) {
			groups[kind] += s.Time
		}
		if s.Part == string(account.Communication) && r.Profile == nil {
			groups[finding.SlowTransfer] -= min(r.Ledger.Unmatched, s.Time) // it may be waiting for ranks without records
		}
	}
	start := groups[finding.StartUp]
	delete(groups, finding.StartUp)
	var largest finding.Kind
	rest := all
	if r.startIsLong() {
		rest -= start
	}
	for kind, ns := range groups {
		if float64(ns) > notable*float64(rest) && float64(ns) > leastLoss*float64(all) && (ns > most || ns == most && kind < largest) {
			largest, most = kind, ns
		}
	}
	_, waited, late := r.startedLate()
	switch {
	case largest != "" && !(late && r.startIsLong() && waited > most):
		return r.loss(largest, most)
	case r.startMatters():
		return r.loss(finding.StartUp, start)
	}
	return nil
}

const (
	// leastLoss is the share of the whole run below which a loss is not the diagnosis.
	leastLoss = 0.02
	// shortRun is the length of a run, in nanoseconds, below which its start is not a finding: a short run
	// always consists of imports.
	shortRun = int64(5 * time.Minute)
)

// startMatters reports whether the start may be the diagnosis: it takes a tenth of a run that is not short,
// all attempts together, or most of it is waiting for one rank.
func (r *Report) startMatters() bool {
	if r.Profile != nil || !r.startIsLong() {
		return false
	}
	_, _, late := r.startedLate()
	return late || r.Ledger.Wall >= shortRun
}

// startIsLong reports whether the start takes a tenth of the time.
func (r *Report) startIsLong() bool {
	_, ns := r.startParts()
	return float64(ns) > notable*float64(r.Ledger.Categories.Sum())
}

// loss returns the finding for the shares of a kind, which took ns summed over ranks.
func (r *Report) loss(kind finding.Kind, ns int64) *finding.Finding {
	ranks := int64(max(len(r.Ranks), 1))
	f := &finding.Finding{Kind: kind, ToStep: -1, Lost: ns / ranks, RunTime: float64(r.Ledger.Wall) / 1e9, Job: finding.Job{Ranks: int(ranks), OneHost: r.hosts() == 1}}
	defer func() {
		if r.Ledger.Wall > 0 {
			f.Cost = float64(f.Lost) / float64(r.Ledger.Wall)
		}
	}()
	const most = 4
	add := func(name string, time int64) {
		if len(f.Parts) < most && float64(time) >= worth*float64(r.Ledger.Categories.Sum()) {
			f.Parts = append(f.Parts, finding.Part{Name: name, Time: time / ranks})
		}
	}
	var of []*Share
	for i := range r.Shares {
		if s := &r.Shares[i]; kindOfPart(s.Part) == kind {
			of = append(of, s)
		}
	}
	for _, s := range of {
		switch {
		case s.Part == partStart:
		case s.Name == messagesName:
			add("sending and receiving messages, with the waits for them,", s.Time)
		case s.Part == string(account.Downtime):
			add("downtime", s.Time)
		default:
			add(s.Name, s.Time)
		}
	}
	if len(f.Parts) == 1 && kind != finding.StartUp { // the sentence is about this part alone
		f.Lost = f.Parts[0].Time
	}
	if len(of) == 1 && of[0].Rank != nil && of[0].Part != partWait && ranks > 1 {
		f.Ranks, f.OfOne, f.Lost = []int{*of[0].Rank}, true, of[0].own
		f.Parts = []finding.Part{{Name: PartName(of[0].Part), Time: of[0].own}}
		return f
	}
	if kind == finding.StartUp {
		parts, _ := r.startParts()
		for i := range parts {
			add(startName(parts[i].Category), parts[i].Time)
		}
		if rank, waited, ok := r.startedLate(); ok {
			f.Ranks, f.Evidence = []int{rank}, &finding.Evidence{Waited: float64(waited/ranks) / 1e6}
		}
	}
	if len(of) > 0 && of[0].Name == messagesName {
		if role, own, others := r.heaviestRole(); role != "" {
			f.Cause, f.Evidence = role, &finding.Evidence{Level: own, Others: others}
		}
	}
	if ms := r.Steps.Phases[phaseOfLoss[kind]]; ms > 0 && f.Evidence == nil && len(f.Parts) == 1 {
		f.Evidence = &finding.Evidence{Interval: r.Steps.Compared, Level: ms}
		if few := r.Steps.few[phaseOfLoss[kind]]; few != nil {
			f.Evidence, f.Pattern = few, finding.SingleSteps
		}
	}
	if kind == finding.Recompile {
		f.Evidence = r.recompileEvidence()
	}
	if kind == finding.Wait && len(f.Parts) == 1 && of[0].Rank != nil && ranks > 1 {
		f.Ranks, f.Lost = []int{*of[0].Rank}, of[0].Time/(ranks-1)
	}
	return f
}

// phaseOfLoss holds the phase of a step that a loss belongs to.
var phaseOfLoss = map[finding.Kind]string{finding.OtherCode: straggler.Host.String(), finding.InputSlow: straggler.Input.String()}

// heaviestRole returns the role, for example a pipeline stage, whose ranks have notably more own time in a step than
// the others, and the own times of both in milliseconds. The role is "" if there is none.
func (r *Report) heaviestRole() (role string, own, others float64) {
	if r.Verdict.Rank == nil {
		return "", 0, 0
	}
	of := make(map[string][]float64)
	for i := range r.Verdict.Rank.Ranking {
		row := &r.Verdict.Rank.Ranking[i]
		of[row.Role] = append(of[row.Role], row.Own)
	}
	for name, x := range of {
		if m := stats.Median(x); m > own || m == own && name < role {
			role, own = name, m
		}
	}
	var rest []float64
	for name, x := range of {
		if name != role {
			rest = append(rest, x...)
		}
	}
	if len(rest) == 0 || role == "" {
		return "", 0, 0
	}
	if others = stats.Median(rest); own < (1+notable)*others {
		return "", 0, 0
	}
	return role, own, others
}

// startedLate returns the rank for which the others waited longest during the start, and how
// long they waited, summed over them. ok reports whether that is at least half of the start.
func (r *Report) startedLate() (rank int, waited int64, ok bool) {
	_, start := r.startParts()
	for _, w := range r.Ledger.WaitedFor {
		if w.InInit > waited {
			rank, waited = w.Rank, w.InInit
		}
	}
	return rank, waited, waited > 0 && 2*waited >= start
}

// profiledWait returns the finding that the others wait for one rank for a notable part of the time, for a
// profile with too few steps to judge ranks, or nil.
func (r *Report) profiledWait() *finding.Finding {
	v := r.Verdict.Rank
	if v == nil || v.Kind != finding.Unknown || r.Profile == nil {
		return nil
	}
	for i := range r.Shares {
		s := &r.Shares[i]
		if s.Part != partWait || s.Rank == nil || s.Share <= notable {
			continue
		}
		return v.WaitedFor(*s.Rank)
	}
	return nil
}

// waitedMostFor returns the rank for which nearly all of the waiting was. ok is false if there is none.
func waitedMostFor(w *straggler.Waits) (rank int, ok bool) {
	if w == nil || w.By != "rank" {
		return 0, false
	}
	of := make([]int64, len(w.Names))
	for _, c := range w.Cells {
		of[c.For] += c.Time
	}
	for i, us := range of {
		if float64(us) >= ofOneRank*float64(w.Total) && us > 0 {
			return w.RankOf(i)
		}
	}
	return 0, false
}

// proveOutsideOfSteps sets the table of a finding about one rank if a category of the ledger, such as validation
// or a custom span, explains it: the rank spends longer in it than the others, by at least half of the time that
// each of them waits for the rank.
func (r *Report) proveOutsideOfSteps() {
	v := r.Verdict.Rank
	if v == nil || v.Kind != finding.SlowRanks || v.Cause != straggler.Host.String() || len(v.Ranks) != 1 {
		return
	}
	rank := v.Ranks[0]
	var waited int64
	for _, w := range r.Ledger.WaitedFor {
		if w.Rank == rank {
			waited = w.Time
		}
	}
	var all []int
	of := make(map[int]*account.RankReport)
	for i := range r.Ledger.Ranks {
		k := &r.Ledger.Ranks[i]
		of[k.Rank], all = k, append(all, k.Rank)
	}
	if len(all) < 2 || of[rank] == nil {
		return
	}
	most := waited / int64(len(all)-1) / 2
	if waited == 0 { // no wait can be matched, for example because files of ranks are missing
		most = int64(v.Evidence.Excess * 1e6 * float64(v.Evidence.Affected) / 2)
	}
	var best account.Category
	for c, ns := range of[rank].Categories {
		if !c.IsCustom() && c != account.Validation && c != account.Testing && c != account.CheckpointSave && c != account.DataWait {
			continue
		}
		if over := ns - r.usual(rank, c); over > most || over == most && c < best {
			best, most = c, over
		}
	}
	if best == "" {
		return
	}
	p := finding.NewProof([]string{strings.Trim(PartName(string(best)), "“”"), "in steps", "waits"}, all, v.Ranks, func(rank int) []int64 {
		k := of[rank]
		wait := k.ProductiveParts[account.WaitInStep]
		return []int64{k.Categories[best], k.Categories[account.Productive] - wait, k.Categories[account.Wait] + wait}
	})
	p.OfRun = true
	p.SetLate(v.Evidence)
	v.Finding.Proof, v.Finding.Step = p, nil
	v.Render()
}

// usual returns the median time of a category over the other ranks.
func (r *Report) usual(rank int, c account.Category) int64 {
	var others []int64
	for i := range r.Ledger.Ranks {
		if k := &r.Ledger.Ranks[i]; k.Rank != rank {
			others = append(others, k.Categories[c])
		}
	}
	slices.Sort(others)
	return (others[(len(others)-1)/2] + others[len(others)/2]) / 2
}

// hosts returns the number of hosts of the ranks, or 0 if the host of a rank is unknown.
func (r *Report) hosts() int {
	seen := make(map[string]bool)
	for i := range r.Ranks {
		host := r.Ranks[i].Host
		if host == "" {
			return 0
		}
		seen[host] = true
	}
	return len(seen)
}

package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// start holds the fields of a run.json (docs/guide/run.md) that the report uses: how one
// start of the job ended on one node, and its use of resources.
type start struct{ rundir.Run }

// appendStart appends the fields of a run.json that digests keep. It ignores r if err is
// not nil, or if the time of the start is not known.
func appendStart(all []start, r *rundir.Run, err error) []start {
	if err != nil || !r.IsKnown() {
		return all
	}
	return append(all, start{rundir.Run{Version: r.Version, Session: r.Session, Job: r.Job, Key: r.Key, Start: r.Start, Attempt: r.Attempt, Program: r.Program, Script: r.Script, Flags: r.Flags, Host: r.Host, Rank: r.Rank, State: r.State, Started: r.Started, Seen: r.Seen, Ended: r.Ended, CommandPID: r.CommandPID,
		EndedBy: r.EndedBy, ExitStatus: r.ExitStatus, Signal: r.Signal, Error: r.Error,
		Stopped: r.Stopped, StoppedAt: r.StoppedAt, Scheduler: r.Scheduler, TimeLimit: r.TimeLimit, Injected: r.Injected, Evidence: r.Evidence, Python: r.Python, Frameworks: r.Frameworks,
		User: r.User, System: r.System, MaxRSS: r.MaxRSS, CPU: r.CPU, GPUs: r.GPUs}})
}

// uniqueStarts returns the starts without duplicates, in an order that does not depend on
// the order of reading.
func uniqueStarts(all []start) (out []*rundir.Run) {
	all = slices.SortedFunc(slices.Values(all), func(a, b start) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.text(), b.text()))
	})
	for _, s := range slices.CompactFunc(all, func(a, b start) bool { return a.text() == b.text() }) {
		out = append(out, &s.Run)
	}
	return out
}

// text returns the JSON form of the start in a digest.
func (s *start) text() string {
	text, err := json.Marshal(&s.Run)
	if err != nil {
		return "" // times beyond year 9999; readers leave it out
	}
	return string(text)
}

// maxEvidence limits Report.Evidence, and the lists of resources and GPUs that the JSON and the page have: each
// node of a large job adds its own.
const maxEvidence = 100

// outcomes sets how each attempt ended, and adds the use of resources.
func (r *Report) outcomes(j *job.Job, corrections meet.Corrections) {
	of := make(map[int][]*job.Process)
	for _, p := range j.Processes {
		of[p.Attempt] = append(of[p.Attempt], p)
	}
	helpers := job.During(j.Helpers)
	for i := range r.Attempts {
		a := &r.Attempts[i]
		var starts []*rundir.Run
		from, to := a.Start, a.Stop // extended to its commands, which may report after the last rank
		for _, s := range j.Starts {
			if s.During(a.Number, a.Start, a.Stop) {
				starts = append(starts, s)
				from, to = min(from, s.Started.UnixNano()), max(to, s.Seen.UnixNano())
			}
		}
		var procs []*job.Process
		if !a.Silent {
			procs = slices.Clone(of[a.Number])
		}
		procs = append(procs, helpers(from, to)...)
		a.Outcome = job.OutcomeOf(starts, procs, corrections[a.Number].Clocks)
		if a.Number == r.running && !a.Silent && (a.Outcome == nil || a.Outcome.How == job.Unfinished) {
			a.Running, a.Outcome = true, nil
		}
		a.hung(procs)
		if lost := job.OutcomeOfCut(procs); lost != nil && !a.Running && (a.Outcome == nil || a.Outcome.How == job.Lost) {
			a.Outcome, a.Ended = lost, false
		}
	}
	if n := len(r.Attempts); n > 0 {
		r.Outcome = r.Attempts[n-1].Outcome
	}
	for _, s := range j.Starts {
		r.imported = cmp.Or(r.imported, s.Imported())
	}
	r.evidence(j.Starts)
	r.resources(j.Starts)
	if n := len(r.Attempts); n > 0 {
		r.badLoss(of[r.Attempts[n-1].Number])
	}
}

// badLoss sets BadLoss to the first rank of an attempt whose loss became NaN or infinite.
func (r *Report) badLoss(procs []*job.Process) {
	for _, p := range procs {
		b := p.BadLoss
		if b.At == 0 || r.BadLoss != nil && (b.At > r.BadLoss.At || b.At == r.BadLoss.At && p.Rank > r.BadLoss.Rank) {
			continue
		}
		if r.BadLoss = (&BadLoss{Rank: p.Rank, At: b.At}); b.Step != job.Unknown {
			r.BadLoss.Step = &b.Step
		}
	}
}

// resourceFacts describes the loss and resources, if they matter: a loss that is NaN or infinite, the first
// unusual use of resources, and the use of GPUs in the steps. If that was not sampled, it describes
// the use in the whole run if nothing else is wrong. others says where the other unusual uses are.
func (r *Report) resourceFacts(others string) (list []fact) {
	if text := r.lossSentence(); text != "" {
		list = append(list, fact{"Loss", text})
	}
	if n := len(r.Evidence); n > 0 {
		text := r.Evidence[0]
		if n > 1 {
			text += fmt.Sprintf("; %d more%s", n-1, others)
		}
		list = append(list, fact{"Resources", text})
	} else if text := r.cpuSentence(); text != "" {
		list = append(list, fact{"CPU", text})
	}
	if text := r.gpusInSteps(); text != "" {
		list = append(list, fact{"GPU", text})
	} else if r.Verdict.kind == finding.Fine && len(r.Evidence) == 0 && !r.sampledGPUs {
		list = append(list, fact{"GPU", r.gpuSentence()})
	}
	return list
}

// lossSentence describes a loss that is NaN or infinite, or returns "" if none is.
func (r *Report) lossSentence() string {
	b := r.BadLoss
	if b == nil {
		return ""
	}
	text := "NaN or infinite"
	if b.Step != nil {
		text += fmt.Sprintf(" from step %d", *b.Step)
	} else if from := r.Ledger.From; b.At > from {
		text += fmt.Sprintf(" from %s after the start", display.Duration(b.At-from))
	}
	text += " to the last one on record"
	if len(r.Ranks) > 1 {
		text += fmt.Sprintf(", first on rank %d", b.Rank)
	}
	return text
}

// fullCPU returns the processor usage of the start whose processors were all busy for the
// largest part of the time, at least half of it. It returns nil if there is none, or if the
// diagnosis is not slow input.
func (r *Report) fullCPU() (full *rundir.CPU) {
	if r.Verdict.kind != finding.InputSlow || r.Profile != nil {
		return nil
	}
	for i := range r.Resources {
		if c := r.Resources[i].CPU; c != nil && c.Full >= 0.5 && (full == nil || c.Full > full.Full) {
			full = c
		}
	}
	return full
}

// lacksCPU reports whether data loading is slow, and has no free processors for more workers: the
// job uses all that it may, or a host is overloaded.
func (r *Report) lacksCPU() bool {
	if r.Verdict.kind != finding.InputSlow || r.Profile != nil {
		return false
	}
	return r.fullCPU() != nil || r.Verdict.Machine != nil && len(r.Verdict.Machine.Overloaded) > 0
}

// cpuSentence explains that data loading has no free processors. It returns "" if it has.
func (r *Report) cpuSentence() string {
	c := r.fullCPU()
	if c == nil {
		return ""
	}
	return fmt.Sprintf("the processors that the job may use (%.3g) were all busy for %s of the time: more workers of the loader gain nothing", c.Allowed, display.Percent(c.Full))
}

// gpuSentence describes how busy the GPUs were in the last start of each host, and the highest
// use of their memory. It returns "" if they were not sampled.
func (r *Report) gpuSentence() string {
	last := make(map[string]*Resource) // by host and GPU
	for i := range r.Resources {
		k := &r.Resources[i]
		for _, g := range k.GPUs {
			if of := last[k.Host+"/"+g.Index]; of == nil || of.Start < k.Start {
				last[k.Host+"/"+g.Index] = k
			}
		}
	}
	least, most, n := 100.0, 0.0, 0
	var full rundir.GPU
	for _, of := range slices.Sorted(maps.Keys(last)) {
		k := last[of]
		for _, g := range k.GPUs {
			if k.Host+"/"+g.Index != of {
				continue
			}
			n++
			least, most = min(least, g.Busy), max(most, g.Busy)
			if g.MemoryTotal > 0 && (full.MemoryTotal == 0 || float64(g.Memory)/float64(g.MemoryTotal) > float64(full.Memory)/float64(full.MemoryTotal)) {
				full = g
			}
		}
	}
	if n == 0 {
		return ""
	}
	text := busyWords(n, least, most)
	if full.MemoryTotal > 0 {
		text += fmt.Sprintf(", at most %s of %s of memory in use", display.Bytes(float64(full.Memory)), display.Bytes(float64(full.MemoryTotal)))
	}
	return text
}

// hung sets the outcome of an attempt to a hang if its verdict is one. If the verdict names
// no rank, a rank that ended badly is the one that the others wait for.
func (a *Attempt) hung(procs []*job.Process) {
	v := a.Straggler
	if v == nil || v.Kind != finding.Hang {
		return
	}
	h := &job.Hang{Ranks: v.Ranks, Until: make(map[int]int64)}
	for _, p := range procs {
		h.At = max(h.At, p.LastSeen)
		h.Until[p.Rank] = max(h.Until[p.Rank], p.LastSeen)
		if len(v.Ranks) == 1 && p.Rank == v.Ranks[0] {
			h.Host = p.KnownHost()
		}
	}
	if v.Evidence != nil && v.Evidence.Waited > 0 {
		h.Since = h.At - int64(v.Evidence.Waited*1e6)
	}
	if v.Cause == finding.CauseUneven {
		h.What = "a loop of fewer steps"
	} else if v.Cause != finding.CauseMismatch && v.Cause != straggler.Host.String() {
		h.What = v.Cause
	}
	if a.Outcome = job.OutcomeOfHang(a.Outcome, h); a.Outcome.How != job.Hung && a.Outcome.Rank != nil && len(v.Ranks) == 0 {
		var hosts []string
		if a.Outcome.Host != "" {
			hosts = []string{a.Outcome.Host}
		}
		v.Blame([]int{*a.Outcome.Rank}, hosts, false, a.Outcome.Text)
	}
}

// evidence adds the evidence of all starts, up to maxEvidence.
func (r *Report) evidence(all []*rundir.Run) {
	for k := range all {
		where := ""
		if len(all) > 1 {
			where = all[k].Host + ", "
			if all[k].Rank != nil {
				where += fmt.Sprintf("rank %d, ", *all[k].Rank)
			}
			where += all[k].Started.UTC().Format("15:04:05") + ": "
		}
		for _, e := range all[k].Evidence {
			if len(r.Evidence) < maxEvidence {
				r.Evidence = append(r.Evidence, where+e)
			}
		}
	}
}

// resources adds the resource usage of each start.
func (r *Report) resources(all []*rundir.Run) {
	for _, s := range all {
		took := s.Took().Seconds()
		if took <= 0 || s.User+s.System == 0 && s.MaxRSS == 0 && len(s.GPUs) == 0 {
			continue
		}
		from := s.Started.UnixNano()
		r.Resources = append(r.Resources, Resource{Host: s.Host, Rank: s.Rank, Start: from, Stop: from + int64(s.Took()), Cores: (s.User + s.System) / took,
			Memory: s.MaxRSS, CPU: s.CPU, GPUs: s.GPUs})
	}
}

func (s *screen) evidence(r *Report) {
	if len(r.Evidence) == 0 {
		return
	}
	s.head("RESOURCES")
	const most = 4
	for _, e := range r.Evidence[:min(len(r.Evidence), most)] {
		s.line("  %s", e)
	}
	s.countHidden(len(r.Evidence)-most, "remark")
}

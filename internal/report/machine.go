package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/machine"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// mostSampled limits the ranks whose samples are compared: the late ranks, the ranks on their
// hosts, and some others. Late ranks are always included.
const mostSampled = 256

// machine sets Verdict.Machine: it compares the samples of the machine with the steps of the
// attempt of the verdict.
func (r *Report) machine(j *Job, tables []*straggler.Table) {
	v := r.Verdict.Rank
	if v == nil || r.Profile != nil {
		return
	}
	for i, t := range tables {
		if t == nil || j.Attempts[i].Number != r.Verdict.Attempt {
			continue
		}
		var late []int
		if v.Kind == finding.SlowRanks {
			late = v.Ranks
		}
		r.Verdict.Machine = machine.Judge(j.sampled(t, r.Verdict.Attempt, late), late)
	}
}

// sampled returns the ranks of a table that have samples in an attempt.
func (j *Job) sampled(t *straggler.Table, attempt int, late []int) (out []machine.Rank) {
	of := make(map[int]*job.Process)
	system := make(map[string]*job.Samples)
	add := func(p *job.Process) {
		if s := p.Samples; s != nil && (len(s.GPUs) > 0 || slices.ContainsFunc(s.Rows, func(row job.Sample) bool { return row.Values[job.OnlineCores] > 0 })) {
			system[p.Host] = system[p.Host].With(s)
		}
	}
	for _, p := range j.Job.Helpers {
		add(p)
	}
	hosts := make(map[string]bool)
	for _, p := range j.Job.Processes {
		if p.Attempt != attempt {
			continue
		}
		add(p)
		if p.Samples != nil {
			of[p.Rank] = p
			hosts[p.Host] = hosts[p.Host] || slices.Contains(late, p.Rank)
		}
	}
	more := 0
	for i, rank := range t.Ranks {
		p := of[rank]
		if p == nil || len(out) >= mostSampled && !slices.Contains(late, rank) {
			continue
		}
		if !hosts[p.Host] {
			if more++; more > mostSampled/4 {
				continue
			}
		}
		k := machine.Rank{Rank: rank, Host: p.Host, Starts: t.Starts(i), Own: p.Samples.Rows}
		for step := range t.Steps {
			k.Excess = append(k.Excess, float64(t.Per)*t.Excess(i, step))
		}
		if s := system[p.Host]; s != nil {
			k.System, k.GPU = s.Rows, s.GPUs[p.Samples.Device]
		}
		out = append(out, k)
	}
	return out
}

// causeSentence describes the cause that makes a rank late.
func causeSentence(c *machine.Cause) string {
	who := fmt.Sprintf("rank %d", c.Rank)
	value, others := display.Percent(c.Value), display.Percent(c.Others)
	switch c.Cause {
	case machine.CauseProcessor:
		may := ""
		if c.Cores > 0 {
			may = fmt.Sprintf(" It may use %s.", display.Plural(int(c.Cores+0.5), "processor"))
		}
		return fmt.Sprintf("%s was ready and had no processor for %s of the time in which it was late, the others for %s: other threads ran there.%s", finding.Capital(who), value, others, may)
	case machine.CauseLimit:
		limit := ""
		if c.Cores > 0 {
			limit = fmt.Sprintf(" (%.3g processors)", c.Cores)
		}
		return fmt.Sprintf("The processor limit of its control group%s held %s back in %s of its periods: it was ready and did not run for %s of the time, the others for %s.", limit, who, display.Percent(c.Periods), value, others)
	case machine.CauseSteal:
		return fmt.Sprintf("The host of its virtual machine took %s of the processors of %s, of others %s.", value, who, others)
	case machine.CauseIO:
		return fmt.Sprintf("%s waited for reads and writes for %s of the time, the others for %s.", finding.Capital(who), value, others)
	case machine.CauseMemory:
		return fmt.Sprintf("Threads on the host of %s waited for memory for %s of the time, those of others for %s.", who, value, others)
	case machine.CauseFaults:
		return fmt.Sprintf("%s read %.0f pages a second back from disk, the others %.0f.", finding.Capital(who), c.Value, c.Others)
	case machine.CauseClock:
		why := ""
		if c.Slowed {
			why = ", because of heat or power"
		}
		return fmt.Sprintf("The GPU of %s ran %s below its highest clock%s, the GPUs of the others %s.", who, value, why, others)
	}
	return ""
}

// causeAction returns what to do about a cause.
func causeAction(c *machine.Cause) string {
	who := fmt.Sprintf("rank %d", c.Rank)
	switch c.Cause {
	case machine.CauseProcessor:
		return "move other programs away from the processors of " + who + ", or give the rank its own processors"
	case machine.CauseLimit:
		return "raise the processor limit of the control group of " + who
	case machine.CauseSteal:
		return "move the virtual machine of " + who + " to a host that is not shared"
	case machine.CauseIO:
		return "see what else uses the storage of " + who + ", or give it faster storage"
	case machine.CauseMemory, machine.CauseFaults:
		return "give the host of " + who + " more memory, or find what uses it there"
	case machine.CauseClock:
		return "check cooling and power limits of the GPU of " + who
	}
	return ""
}

// overloadSentence describes a host on which ranks wait for processors.
func overloadSentence(o *machine.Overload) string {
	where := cmp.Or(o.Host, "(unknown)")
	wait := "for one for " + display.Percent(o.Most) + " of the time"
	if from := display.Percent(o.Least); from != display.Percent(o.Most) {
		wait = "for one for " + from + " to " + display.Percent(o.Most) + " of the time"
	}
	switch {
	case o.Limit:
		return fmt.Sprintf("The processor limit of the control group on host %s (%.3g processors) holds all ranks back: its ranks wait %s.", where, o.Cores, wait)
	case o.Runnable > o.Cores:
		return fmt.Sprintf("Host %s is overloaded: %.0f threads want to run on %s, and its ranks wait %s.", where, o.Runnable, display.Plural(int(o.Cores+0.5), "processor"), wait)
	}
	return fmt.Sprintf("Each rank on host %s may use at most %s, and waits %s.", where, display.Plural(int(o.Cores+0.5), "processor"), wait)
}

// mostMachine limits the sentences about the machine in a report.
const mostMachine = 4

// machineSentences describe what the samples of the machine show.
func (r *Report) machineSentences() (out []string) {
	m := r.Verdict.Machine
	if m == nil {
		return nil
	}
	for i := range m.Causes {
		out = append(out, causeSentence(&m.Causes[i]))
	}
	for i := range m.Overloaded {
		out = append(out, overloadSentence(&m.Overloaded[i]))
	}
	if n := len(out) - mostMachine; n > 0 {
		out = append(out[:mostMachine], fmt.Sprintf("%d more: verdict.machine of --json.", n))
	}
	return out
}

// causeNotKnown lists the late ranks whose cause the samples do not show. It returns "" if there
// are none, or if nothing was sampled.
func (r *Report) causeNotKnown() string {
	m := r.Verdict.Machine
	if m == nil || len(m.NoCause) == 0 {
		return ""
	}
	is := "is"
	if len(m.NoCause) > 1 {
		is = "are"
	}
	return fmt.Sprintf("why %s %s late: no cause on record in the samples of the machine", finding.RankList(m.NoCause), is)
}

package straggler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/finding"
)

// describe fills the descriptive fields of the verdict: the hosts of its ranks, the missing data, and the
// next action.
func (v *Verdict) describe(j *job) {
	of := j.describes()
	for _, f := range v.findings() {
		f.Hosts, f.Job = j.hosts(f.Ranks), of
	}
	v.Hosts, v.Job = j.hosts(v.Ranks), of
	v.below = j.below
	v.Render()
}

// findings returns pointers to all findings of the verdict, including the suspected one.
func (v *Verdict) findings() (out []*finding.Finding) {
	if v.Kind.IsProblem() {
		out = append(out, &v.Finding)
	}
	for i := range v.Others {
		out = append(out, &v.Others[i])
	}
	if v.Suspected != nil {
		out = append(out, v.Suspected)
	}
	return out
}

// Render updates the sentences of the verdict. Call it after changing one of its findings.
func (v *Verdict) Render() {
	v.Needed, v.Next, v.Second = needed[v.Reason], v.Finding.Next(), ""
	if v.Reason == reasonMissingRank {
		v.Needed = "the records of " + finding.RankList(v.Suspects)
	}
	switch {
	case v.Kind == finding.Fine:
		v.Sentence = fmt.Sprintf("No rank is late by more than chance, and nothing that all ranks share became slower, in %d steps of %d ranks.", v.Coverage.Steps, v.Coverage.Seen)
		for i := range v.below {
			v.Sentence += smaller(&v.below[i])
		}
	case v.Kind == finding.Unknown && v.Suspected != nil:
		v.Sentence = v.Suspected.Doubt(v.Reason != reasonLoader, v.Needed)
	case v.Kind == finding.Unknown && v.Reason == reasonMissingRank:
		its := "its"
		if len(v.Suspects) > 1 {
			its = "their"
		}
		v.Sentence = fmt.Sprintf("Whether the other ranks wait for %s in collectives is unknown: %s records are missing or incomplete. Needed: %s.", finding.RankList(v.Suspects), its, v.Needed)
	case v.Kind == finding.Unknown:
		v.Sentence = "The records do not show whether a rank is slow (" + strings.ReplaceAll(v.Reason, "_", " ") + ")."
		if len(v.Suspects) > 0 {
			v.Sentence += " It may be " + finding.RankList(v.Suspects) + "."
		}
		v.Sentence += " Needed: " + v.Needed + "."
	default:
		v.Sentence = v.Finding.Sentence()
	}
	switch {
	case v.Kind == finding.Unknown:
		v.Next = v.toFindOut()
	case len(v.Stacks) > 0 && slices.Contains(v.Ranks, v.Stacks[0].Rank): // if all ranks wait, no single line is the cause
		v.Next = fmt.Sprintf("read %s (%s): rank %d is blocked there", v.Stacks[0].Place, v.Stacks[0].Function, v.Stacks[0].Rank)
	}
	if len(v.Others) > 0 {
		v.Second = v.Others[0].Sentence()
		if v.Kind == finding.SlowRanks && v.Cause == Input.String() && v.Others[0].Kind == finding.InputSlow {
			v.Second += " That includes the repair of " + finding.RankList(v.Ranks) + "."
		}
	}
}

var needed = map[string]string{
	reasonHidden:      "a span around each blocking collective, send and receive (category comm), in every step",
	reasonPeers:       "the rank that each message goes to or comes from (argument peer), or the pipeline stage of each rank (argument pipeline_stage of an iteration)",
	reasonNoBarrier:   "a span around the collectives that join all ranks, in every step",
	reasonTooFewSteps: "at least 20 steps after the slow start",
	reasonNoSteps:     "the times of single steps: a span for each iteration, on each rank",
	ReasonSingleRank:  "the records of another rank that does the same work",
	reasonReplay:      "spans of everything else for which ranks wait: a replay of the recorded spans does not reproduce the recorded times",
	reasonDevice:      "the times of the devices: times of the hosts do not show how long the job took",
	reasonChance:      "more steps, or more ranks that do the same work",
	reasonLoader:      "steps in which batches are ready at once: more workers of the loader, or more processors for them",
	reasonDamaged:     "the undamaged files of the ranks whose records are incomplete",
}

// describes returns the properties of the job that sentences and advice depend on.
func (j *job) describes() finding.Job {
	of := finding.Job{Devices: j.device || j.launches, Ranks: j.st.expected()}
	if len(j.missing) > 0 {
		of.Ranks = 0
	}
	hosts := make(map[string]bool)
	for _, rs := range j.st.ranks {
		of.Devices = of.Devices || rs.device.n > 0
		if rs.info.Ended {
			of.Ranks = 0
		}
		hosts[rs.info.Host] = true
	}
	of.OneHost = len(hosts) == 1 && !hosts[""]
	return of
}

// smaller returns a sentence on the gain of a repair below the reporting threshold of its kind. Healthy jobs
// show similar gains.
func smaller(f *finding.Finding) string {
	what := "Even work"
	if f.Kind == finding.InputSlow {
		what = "Batches that are ready at once"
	}
	return fmt.Sprintf(" %s would gain %.1f %%, as in healthy jobs.", what, 100*(f.Gain-1))
}

// NotKnown returns what an unknown or suspected verdict leaves open and which data would settle it.
func (v *Verdict) NotKnown() string {
	switch f := v.Suspected; {
	case f != nil && v.Reason == reasonLoader:
		return "whether the job is faster without this: " + f.Seen() + ". The loader delivers no sooner. To find out, " + v.toFindOut()
	case f != nil:
		odds := f.Odds()
		return "whether it is chance that " + f.Seen() + ". " + finding.Capital(odds) + ". To find out, record " + needed[reasonChance]
	}
	return "whether a rank is slow. To find out, " + v.toFindOut()
}

// toFindOut returns what to do so that an unknown verdict can be settled, as an imperative clause.
func (v *Verdict) toFindOut() string {
	switch v.Reason {
	case reasonMissingRank, ReasonSingleRank, reasonDamaged:
		return "add " + v.Needed
	}
	return "record " + v.Needed
}

// InRun sets the cost of the findings for a run that took the given number of nanoseconds. kept is the number
// of judged steps that the run kept; more is what the repair saves, in milliseconds, in other attempts with
// the same finding as the headline. steps is the time of a rank in steps, in nanoseconds; it bounds the cost.
func (v *Verdict) InRun(took, steps int64, kept int, more float64) {
	if took <= 0 {
		return
	}
	for _, f := range v.findings() {
		others := 0.0
		if f == &v.Finding {
			if others = more; f.Kind == finding.Hang {
				continue
			}
		}
		f.InRun(float64(took)/1e9, (f.Saved*float64(kept)+others)/1e3, float64(steps)/1e9)
	}
	v.Render()
}

func (g *graph) hosts(ranks []int) (out []string) {
	for _, r := range ranks {
		if rs := g.st.ranks[r]; rs != nil && rs.info.Host != "" && !slices.Contains(out, rs.info.Host) {
			out = append(out, rs.info.Host)
		}
	}
	return out
}

// Blame sets the ranks that the hang of a verdict waits for, from a source other than the steps: a process
// that ended, or a flight recorder. why becomes the evidence. If mismatch is true, the ranks entered another
// collective than most ranks.
func (v *Verdict) Blame(ranks []int, hosts []string, mismatch bool, why string) {
	v.Ranks, v.Hosts, v.Cause, v.Causes = ranks, hosts, "", nil
	if mismatch {
		v.Cause = finding.CauseMismatch
	}
	e := finding.Evidence{}
	if v.Evidence != nil {
		e = *v.Evidence
	}
	e.Seen = why
	v.Evidence = &e
	v.Render()
}

package straggler

import (
	"fmt"
	"slices"
	"strings"
)

// describe writes what a person reads first: one sentence, what is missing, and
// what to do next.
func (a *analysis) describe(v *Verdict) {
	v.Hosts = a.hosts(v.Ranks)
	for i := range v.Others {
		v.Others[i].Hosts = a.hosts(v.Others[i].Ranks)
	}
	v.Needed = needed[v.Reason]
	v.Next = next(v)
	v.Sentence = sentence(v, a.opt.MinCost)
}

var needed = map[string]string{
	ReasonBarrierHidden: "a span around the blocking collective of each step (category comm), or the device time of forward and backward",
	ReasonNoBarrier:     "a span around a collective in which all ranks take part, in every step",
	ReasonMissingRank:   "the records of the ranks without data",
	ReasonWorkUnknown:   "the tokens or samples of each rank in every step",
	ReasonTooFewSteps:   "at least 20 steps after the slow start",
	ReasonSingleRank:    "the records of another rank that does the same work",
}

func next(v *Verdict) string {
	switch v.Kind {
	case Healthy:
		return ""
	case InsufficientEvidence:
		return "record " + needed[v.Reason]
	case RankLost:
		return "look at the last log lines and the host of the lost rank"
	case CheckpointStall:
		return "save asynchronously, or share the save among the ranks"
	case InputBound:
		return "give the data loader more workers, or faster storage"
	case SlowCommunication:
		return "check links and counters of the network between the ranks named"
	case UnevenWork:
		return "give the ranks equal numbers of tokens: packing, or bucketing by length"
	case RotatingStalls:
		return "look for garbage collection or logging: collect at the same step on all ranks"
	}
	switch v.Cause {
	case Input.String():
		return "compare the data loader and the storage of this host with another"
	case Transfer.String():
		return "check pinned memory and the link between host and device"
	case Host.String():
		return "look for other processes, logging and interpreter pauses on this host"
	}
	return "check clocks, temperature and power limits of the device; profile one step on this rank and on another"
}

func rankList(ranks []int) string {
	var b strings.Builder
	b.WriteString("rank")
	if len(ranks) > 1 {
		b.WriteString("s")
	}
	for i, r := range ranks {
		if i == 8 {
			fmt.Fprintf(&b, " and %d more", len(ranks)-i)
			break
		}
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %d", r)
	}
	return b.String()
}

func sentence(v *Verdict, least float64) string {
	f := &v.Finding
	who := rankList(f.Ranks)
	if len(v.Hosts) > 0 && len(v.Hosts) <= 2 {
		who += " (" + strings.Join(v.Hosts, ", ") + ")"
	}
	is := "is"
	if len(f.Ranks) > 1 {
		is = "are"
	}
	faster := ""
	if f.Slowdown > 0 {
		faster = fmt.Sprintf(" Without it these steps would be %.2fx faster.", f.Slowdown)
	}
	since := fmt.Sprintf("from step %d", f.FromStep)
	if f.ToStep >= 0 {
		since += fmt.Sprintf(" to %d", f.ToStep)
	}
	switch f.Kind {
	case Healthy:
		return fmt.Sprintf("No rank and no phase costs %.1f %% of the time in %d steps of %d ranks; a rank slow throughout would be seen from %.1f %% on.",
			100*least, v.Coverage.Steps, v.Coverage.Seen, 100*v.Coverage.Detectable)
	case InsufficientEvidence:
		out := "The records do not say whether a rank is slow (" + strings.ReplaceAll(v.Reason, "_", " ") + ")."
		if len(v.Suspects) > 0 {
			out += " It may be " + rankList(v.Suspects) + "."
		}
		return out + " Needed: " + needed[v.Reason] + "."
	case RankLost:
		return fmt.Sprintf("%s stopped in step %d; the other ranks wait.", capital(who), f.FromStep)
	case Straggler, Intermittent:
		e := f.Evidence
		what := "late at the barrier"
		out := fmt.Sprintf("%s %s %s in %d of %d steps by %.1f ms (± %.1f), %s: %s.", capital(who), is, what,
			e.Affected, e.Interval, e.Excess, e.ExcessMAD, since, f.Cause)
		return out + faster
	case CheckpointStall:
		if len(f.Ranks) > 0 {
			return fmt.Sprintf("The other ranks wait for %s to save a checkpoint, in %d steps.", who, f.Evidence.Affected) + faster
		}
		return fmt.Sprintf("Ranks wait for a rank that saves a checkpoint, in %d steps.", f.Evidence.Affected) + faster
	case RotatingStalls:
		return fmt.Sprintf("Single ranks stall in turn in %d of %d steps: %s; no rank is to blame.", f.Evidence.Affected, f.Evidence.Interval, f.Cause) + faster
	case UnevenWork:
		if len(f.Ranks) > 0 {
			return fmt.Sprintf("%s %s given more work than the others, %s.", capital(who), is, since) + faster
		}
		return "The work of a step differs between ranks, another one has most of it each time." + faster
	case InputBound:
		return fmt.Sprintf("All ranks wait for data, %.1f ms of each step, %s.", f.Evidence.Level, since) + faster
	case SlowCommunication:
		if len(f.Ranks) > 0 {
			return fmt.Sprintf("The collectives among %s take %.1f ms longer than those of other groups, %s.", who, f.Evidence.Excess, since) + faster
		}
		return fmt.Sprintf("The transfer of the collective takes %.1f ms of each step, %s.", f.Evidence.Level, since) + faster
	case SlowdownAll:
		return fmt.Sprintf("All ranks are slower in %s, %s: %.1f ms instead of %.1f.", f.Cause, since, f.Evidence.Level, f.Evidence.Before) + faster
	}
	return string(f.Kind)
}

func capital(s string) string {
	if s == "" || !slices.Contains([]byte("abcdefghijklmnopqrstuvwxyz"), s[0]) {
		return s
	}
	return string(s[0]-32) + s[1:]
}

package straggler

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/platform/display"
)

// describe writes what a person reads first: one sentence, what is missing, and
// what to do next.
func (v *Verdict) describe(j *job) {
	v.Hosts = j.hosts(v.Ranks)
	for i := range v.Others {
		v.Others[i].Hosts = j.hosts(v.Others[i].Ranks)
	}
	if v.Suspected != nil {
		v.Suspected.Hosts = j.hosts(v.Suspected.Ranks)
	}
	v.Needed = needed[v.Reason]
	v.Next = v.next(j.permits())
	switch v.Kind {
	case Fine:
		v.Sentence = fmt.Sprintf("No rank is late by more than chance, and nothing that all share has become slower, in %d steps of %d ranks.", v.Coverage.Steps, v.Coverage.Seen)
		for i := range j.below {
			v.Sentence += j.below[i].smaller()
		}
	case Unknown:
		if v.Suspected != nil {
			v.Sentence = v.doubtSentence()
			break
		}
		v.Sentence = "The records do not say whether a rank is slow (" + strings.ReplaceAll(v.Reason, "_", " ") + ")."
		if len(v.Suspects) > 0 {
			v.Sentence += " It may be " + rankList(v.Suspects) + "."
		}
		v.Sentence += " Needed: " + v.Needed + "."
	default:
		v.Sentence = v.Finding.sentence()
	}
	if len(v.Others) > 0 {
		v.Second = v.Others[0].sentence()
	}
}

var needed = map[string]string{
	reasonHidden:      "a span around each blocking collective, send and receive (category comm), in every step",
	reasonNoBarrier:   "a span around the collectives that join all ranks, in every step",
	reasonMissingRank: "the records of the ranks without data",
	reasonTooFewSteps: "at least 20 steps after the slow start",
	ReasonSingleRank:  "the records of another rank that does the same work",
	reasonReplay:      "spans for what else ranks wait for: a replay of those on record takes another time",
	reasonDevice:      "the times of the devices: what the hosts took is not what the job took",
	reasonChance:      "more steps, or more ranks that do the same work",
	reasonLoader:      "steps in which batches are there at once: more workers of the loader, or more processors for them",
	reasonDamaged:     "the undamaged files of the ranks whose records are incomplete",
}

// nextOf is what to do, by the kind and its cause or pattern, else by the kind. The words
// behind a kind are for jobs on one host, "kind here", and with devices on record, "kind device".
var nextOf = map[string]string{
	"hang":                   "look at the last log lines and the host of the rank that the others wait for",
	"hang here":              "look at the last log lines of the rank that the others wait for",
	"hang mismatch":          "look for a branch in which ranks call collectives in another order, or leave one out",
	"hang nobody":            "set TORCH_FR_BUFFER_SIZE=2000 and run again, or give the dump of the flight recorder to trainspan report: it has what each rank called",
	"hang uneven_steps":      "give all ranks the same number of batches (DistributedSampler, drop_last), or wrap the loop in torch.distributed.algorithms.join.Join",
	"input":                  "give the data loader more workers, or faster storage",
	"communication":          "check links and counters of the network between the ranks named",
	"communication here":     "check the links between the devices, and what else uses this host",
	"imbalance":              "balance the work of the ranks: lengths of sequences, experts, or sizes of batches",
	"imbalance work":         "give the ranks equal numbers of tokens: packing, or bucketing by length",
	"imbalance single_steps": "look for garbage collection or logging: collect at the same step on all ranks",
	"drift single_steps":     "see what all ranks do in these steps: recompilation, garbage collection, saves in the background, other jobs",
	"drift":                  "compare the load and the memory of the hosts with those of the first steps",
	"drift device":           "compare clocks and temperature of the devices, the load of the hosts and memory with those of the first steps",
	"slow_ranks":             "profile one step on this rank and on another; see whether other processes use its processor",
	"slow_ranks device":      "check clocks, temperature and power limits of the device; profile one step on this rank and on another",
	"slow_ranks input":       "compare the data loader and the storage of this host with another",
	"slow_ranks input here":  "profile the data loader of this rank, or compare its shard with another: all ranks share one host",
	"slow_ranks checkpoint":  "save asynchronously, or share the save among the ranks",
	"slow_ranks transfer":    "check pinned memory and the link between host and device",
	"slow_ranks host":        "look for other processes, logging and interpreter pauses on this host",
}

// permits is what a job has that advice may be about.
type permits struct {
	oneHost bool // all ranks are on one
	devices bool // on record
}

func (j *job) permits() permits {
	p := permits{devices: j.device || j.launches}
	hosts := make(map[string]bool)
	for _, rs := range j.st.ranks {
		p.devices = p.devices || rs.device.n > 0
		hosts[rs.info.Host] = true
	}
	p.oneHost = len(hosts) == 1 && !hosts[""]
	return p
}

func (v *Verdict) next(may permits) string {
	if v.Kind == Unknown {
		return "record " + needed[v.Reason]
	}
	cause := v.Cause
	if v.Kind == Hang && len(v.Ranks) == 0 && cause != CauseMismatch {
		cause = "nobody"
	}
	kind := string(v.Kind)
	for _, key := range [...]string{kind + " " + cause, kind + " " + v.Pattern, kind} {
		if text := nextOf[key+" here"]; may.oneHost && text != "" {
			return text
		}
		if text := nextOf[key+" device"]; may.devices && text != "" {
			return text
		}
		if text := nextOf[key]; text != "" {
			return text
		}
	}
	return ""
}

func rankList(ranks []int) string {
	word, more := "rank ", ""
	if len(ranks) > 1 {
		word = "ranks "
	}
	if n := len(ranks) - mostListed; n > 0 {
		ranks, more = ranks[:mostListed], fmt.Sprintf(" and %d more", n)
	}
	return word + strings.Trim(strings.ReplaceAll(fmt.Sprint(ranks), " ", ", "), "[]") + more
}

// mostListed is how many ranks a sentence names.
const mostListed = 8

// smaller says what a repair gains that is less than its kind is reported from: healthy jobs gain
// as much.
func (f *Finding) smaller() string {
	what := "Even work"
	if f.Kind == InputSlow {
		what = "Batches that are there at once"
	}
	return fmt.Sprintf(" %s would gain %.1f %%, as in healthy jobs.", what, 100*(f.Gain-1))
}

// doubtSentence says what may cost time and what speaks for chance.
func (v *Verdict) doubtSentence() string {
	f := v.Suspected
	if v.Reason == reasonLoader {
		return capital(f.seen()) + ". Whether the job would be faster without that is not known: batches come no sooner. Needed: " + v.Needed + "."
	}
	return capital(f.seen()) + ". Whether that is chance is not known: " + f.odds() + "." + f.sooner("if it is not") + " Needed: " + v.Needed + "."
}

// odds is how much speaks for chance, as a clause.
func (f *Finding) odds() string {
	switch {
	case f.Evidence == nil || f.Evidence.Chance == 0:
		return "healthy jobs change as much"
	case f.Evidence.Chance >= 0.995:
		return "with ranks that are drawn for each step one always is as late"
	}
	return fmt.Sprintf("with ranks that are drawn for each step one is as late in %.2g %% of the draws", 100*f.Evidence.Chance)
}

// single says which single steps are affected.
func (e *Evidence) single() string {
	if e.Every > 1 {
		return fmt.Sprintf("every %d steps (%d of %d)", e.Every, e.Affected, e.Interval)
	}
	return fmt.Sprintf("in %d of %d steps", e.Affected, e.Interval)
}

// seen is what a suspicion rests on.
func (f *Finding) seen() string {
	who, e := f.who(), f.Evidence
	is := "is"
	if len(f.Ranks) > 1 {
		is = "are"
	}
	switch {
	case f.Kind == SlowTransfer && len(f.Ranks) > 0:
		return fmt.Sprintf("collectives among %s take %.1f ms of a step longer than those of other groups", who, e.Excess)
	case len(f.Ranks) == 0:
		return fmt.Sprintf("%s takes %.1f ms of a step instead of %.1f, %s", f.Cause, e.Level, e.Before, f.since())
	}
	return fmt.Sprintf("%s %s late in %d of %d steps by %.1f ms, %s: %s", who, is, e.Affected, e.Interval, e.Excess, f.since(), f.byRank())
}

// NotKnown is what a verdict that is unknown or has a suspicion leaves open, and what would settle it.
func (v *Verdict) NotKnown() string {
	if f := v.Suspected; f != nil && v.Reason == reasonLoader {
		return "whether the job is faster without this: " + f.seen() + ". Batches come no sooner; it takes " + v.Needed
	} else if f != nil {
		return "whether it is chance that " + f.seen() + ". " + capital(f.odds()) + "; it takes " + needed[reasonChance]
	}
	return "whether a rank is slow: it takes " + v.Needed
}

// who names the ranks of a finding, and their hosts where they are few.
func (f *Finding) who() string {
	who := rankList(f.Ranks)
	if len(f.Hosts) > 0 && len(f.Hosts) <= 2 {
		who += " (" + strings.Join(f.Hosts, ", ") + ")"
	}
	return who
}

// since is the interval of a finding.
func (f *Finding) since() string {
	since := fmt.Sprintf("from step %d", f.FromStep)
	if f.ToStep >= 0 {
		since += fmt.Sprintf(" to %d", f.ToStep)
	}
	return since
}

func (f *Finding) sentence() string {
	who := f.who()
	is := "is"
	if len(f.Ranks) > 1 {
		is = "are"
	}
	since, e := f.since(), f.Evidence
	switch f.Kind {
	case Hang:
		return f.hang(who)
	case SlowRanks:
		if f.Cause == Checkpoint.String() {
			return fmt.Sprintf("The other ranks wait for %s to save a checkpoint, in %d steps.", who, e.Affected) + f.sooner("if nobody waits for it")
		}
		return fmt.Sprintf("%s %s late in %d of %d steps by %.1f ms (± %.1f), %s: %s.", capital(who), is, e.Affected, e.Interval, e.Excess, e.ExcessMAD, since, f.byRank()) + f.sooner("at the others' speed")
	case Imbalance:
		switch {
		case len(f.Ranks) > 0:
			return fmt.Sprintf("%s %s given more work than the others, %s.", capital(who), is, since) + f.sooner("with even work")
		case f.Cause == causeWork:
			return "The work of a step differs between ranks, another one has most of it each time." + f.sooner("with even work")
		case f.Pattern == patternSingle:
			return fmt.Sprintf("Single ranks stall in turn in %d of %d steps: %s; no rank is late beyond chance.", e.Affected, e.Interval, f.Cause) + f.sooner("with even work")
		}
		return fmt.Sprintf("Another rank is late each time, in %d of %d steps: %s; no rank is late beyond chance.", e.Affected, e.Interval, f.Cause) + f.sooner("with even work")
	case InputSlow:
		switch end := f.sooner("with batches there at once"); f.Pattern {
		case patternTurn:
			return fmt.Sprintf("Other ranks wait for data in each step, %.1f ms of a step in the mean of all ranks.", e.Level) + end
		case patternSingle:
			return fmt.Sprintf("All ranks wait for data in %d of %d steps, %.1f ms of a step in the mean.", e.Affected, e.Interval, e.Level) + end
		}
		return fmt.Sprintf("All ranks wait for data, %.1f ms of each step.", e.Level) + f.sooner("with batches there at once")
	case SlowTransfer:
		if len(f.Ranks) > 0 {
			return fmt.Sprintf("The collectives among %s take %.1f ms of a step longer than those of other groups.", who, e.Excess) + f.sooner("if they take as long")
		}
		if f.Pattern == patternSingle {
			return fmt.Sprintf("The transfer of the collectives takes %.1f ms instead of %.1f %s.", e.Level, e.Before, e.single()) + f.sooner("if it takes as long as in the others")
		}
		return fmt.Sprintf("The transfer of the collectives takes %.1f ms of each step instead of %.1f, %s.", e.Level, e.Before, since) + f.sooner("if they take as long as before")
	case Drift:
		if f.Pattern == patternSingle {
			return fmt.Sprintf("All ranks are slower in %s %s: %.1f ms instead of %.1f.", f.Cause, e.single(), e.Level, e.Before) + f.sooner("if these are as fast as the others")
		}
		if f.Pattern == patternGrows {
			return fmt.Sprintf("All ranks become slower and slower in %s, %s: %.1f ms in the end instead of %.1f.", f.Cause, since, e.Level, e.Before) + f.sooner("at the speed before")
		}
		return fmt.Sprintf("All ranks are slower in %s, %s: %.1f ms instead of %.1f.", f.Cause, since, e.Level, e.Before) + f.sooner("at the speed before")
	}
	return string(f.Kind)
}

// sooner says how long the run takes with the repair, or a step where the run is not
// known.
func (f *Finding) sooner(how string) string {
	gain, about := f.Gain, "about"
	if gain == 0 {
		gain, about = f.GainLow, "at most"
	}
	cost := costOf(gain)
	if cost == 0 || f.Saved == 0 {
		return ""
	}
	what, was, is := "the run", f.RunTime*1e9, f.RunRepaired*1e9
	if f.RunTime == 0 {
		was = f.Saved / cost * 1e6
		what, is = "a step", was-f.Saved*1e6
	}
	less := display.Less(int64(was), int64(is))
	if gain != f.Gain {
		less = "at least " + less
	}
	return fmt.Sprintf(" %s %s takes %s %s: %s less.", capital(how), what, about, display.Duration(int64(is)), less)
}

// Sooner says how long the run takes with the repair, as in "at the others' speed", and how much less that is.
func (f *Finding) Sooner(how string) string { return f.sooner(how) }

// InRun says what the findings cost in a run that took so many nanoseconds: the judged
// steps that it kept, of which more are in other attempts with the same finding, each with
// what the repair saves of it. steps is the time of a rank in steps, which bounds it.
func (v *Verdict) InRun(took, steps int64, kept int, more float64) {
	if took <= 0 {
		return
	}
	in := func(f *Finding, more float64) {
		saved := min((f.Saved*float64(kept)+more)/1e3, float64(steps)/1e9)
		f.RunTime = float64(took) / 1e9
		f.RunRepaired = max(f.RunTime-saved, 0)
	}
	if v.Suspected != nil {
		in(v.Suspected, 0)
	}
	switch v.Kind {
	case Unknown:
		if v.Suspected != nil {
			v.Sentence = v.doubtSentence()
		}
	case Hang, Fine:
	default:
		in(&v.Finding, more)
		v.Sentence = v.Finding.sentence()
	}
	for i := range v.Others {
		in(&v.Others[i], 0)
	}
	if len(v.Others) > 0 {
		v.Second = v.Others[0].sentence()
	}
}

// hang says who stopped where, and who waits.
func (f *Finding) hang(who string) string {
	waited := ""
	if e := f.Evidence; e.Waited > 0 {
		waited = fmt.Sprintf(" for %.1f s", e.Waited/1e3)
	}
	switch {
	case f.Cause == CauseMismatch:
		where := ""
		for i, r := range slices.Sorted(maps.Keys(f.Causes)) {
			if i == 4 {
				where += ", …"
				break
			}
			where += fmt.Sprintf(", rank %d in %s", r, f.Causes[r])
		}
		blame := ""
		if len(f.Ranks) > 0 {
			blame = fmt.Sprintf(" Most ranks came to the same one, %s did not.", who)
		}
		return fmt.Sprintf("The ranks wait for each other in different collectives since step %d%s: %s.%s", f.FromStep, waited, strings.TrimPrefix(where, ", "), blame)
	case len(f.Ranks) == 0:
		return fmt.Sprintf("All ranks that go on wait in a collective since step %d%s. Whether one of them called another is unknown: sequence numbers, sizes and types are not on record.", f.FromStep, waited)
	case f.Cause == CauseUneven:
		last := ""
		if f.Evidence.LastStep != nil {
			last = fmt.Sprintf(" after step %d", *f.Evidence.LastStep)
		}
		return fmt.Sprintf("%s ended%s in good order, and the other ranks wait in step %d%s: the ranks have different numbers of steps.", capital(who), last, f.FromStep, waited)
	case f.Evidence.LastStep != nil:
		return fmt.Sprintf("%s began no step after step %d; the other ranks wait in step %d%s.", capital(who), *f.Evidence.LastStep, f.FromStep, waited)
	}
	in := ""
	if f.Cause != "" && f.Cause != Host.String() && f.Cause != causeMixed {
		in = " in " + f.Cause
	}
	return fmt.Sprintf("%s stopped%s in step %d; the other ranks wait%s.", capital(who), in, f.FromStep, waited)
}

// byRank is the cause, of each rank where they differ.
func (f *Finding) byRank() string {
	if f.Cause != causeMixed || len(f.Ranks) > 4 {
		return f.Cause
	}
	var out []string
	for _, r := range f.Ranks {
		c := f.Causes[r]
		if c == "" {
			return f.Cause
		}
		if len(f.Ranks) > 1 {
			c = fmt.Sprintf("rank %d %s", r, c)
		}
		out = append(out, c)
	}
	return strings.Join(out, ", ")
}

func capital(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-32) + s[1:]
}

func (g *graph) hosts(ranks []int) (out []string) {
	for _, r := range ranks {
		if rs := g.st.ranks[r]; rs != nil && rs.info.Host != "" && !slices.Contains(out, rs.info.Host) {
			out = append(out, rs.info.Host)
		}
	}
	return out
}

// Blame names the ranks that the hang of a verdict waits for, as others say: those that did not come,
// or came with another collective than most.
func (v *Verdict) Blame(ranks []int, hosts []string, mismatch bool, text string) {
	v.Ranks, v.Hosts = ranks, hosts
	if v.Cause = ""; mismatch {
		v.Cause = CauseMismatch
	}
	v.Sentence = fmt.Sprintf("The ranks wait for %s since step %d: %s.", strings.TrimPrefix(rankList(ranks), " "), v.FromStep, text)
	v.Next = v.next(permits{})
}

// BlameEnded names the rank that the others of a hang wait for: it ended, as the text says.
func (v *Verdict) BlameEnded(rank int, host, how string) {
	v.Ranks, v.Hosts, v.Cause = []int{rank}, nil, ""
	if host != "" {
		v.Hosts = []string{host}
	}
	v.Sentence = fmt.Sprintf("The other ranks wait for rank %d since step %d: %s.", rank, v.FromStep, strings.TrimRight(how, "."))
	v.Next = v.next(permits{})
}

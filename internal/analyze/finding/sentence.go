package finding

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/platform/display"
)

// Phases that are displayed under another word.
const (
	causeInput      = "input"
	causeCheckpoint = "checkpoint"
	causeHost       = "host"
	causeTransfer   = "transfer"
)

// NotSplit is the displayed word for the time of steps that no span divides.
const NotSplit = "not split"

// Word returns the displayed word for a phase or a cause, given its name in JSON.
func Word(cause string) string {
	switch cause {
	case causeInput:
		return "data"
	case causeHost:
		return "other code"
	case causeCheckpoint:
		return "save"
	}
	return cause
}

// work returns the words that sentences use for a cause.
func work(cause string) string {
	switch cause {
	case causeInput:
		return "data loading"
	case causeCheckpoint:
		return "saving"
	case CauseCompute:
		return "forward and backward"
	case causeHost:
		return "code outside of phases"
	case causeTransfer:
		return "copies between host and device"
	}
	return cause
}

// unequalPart is the part of the mean below which the least time of a rank is stated beside it.
const unequalPart = 0.75

// Sentence returns what costs time, the evidence, and what the repair saves. It returns "" if the finding is
// not a problem or has no evidence.
func (f *Finding) Sentence() string {
	if !f.rests() {
		return ""
	}
	if f.Lost > 0 {
		return f.loss()
	}
	e := f.Evidence
	if e == nil {
		return ""
	}
	who := f.who()
	switch f.Kind {
	case Hang:
		return f.hang(who)
	case SlowRanks:
		return f.slowRanks(who)
	case Wait:
		return f.lastInSteps()
	case Imbalance:
		switch {
		case len(f.Ranks) > 0 && e.Level < e.Others:
			has := "has"
			if len(f.Ranks) > 1 {
				has = "have"
			}
			return fmt.Sprintf("%s %s less work than the others, %s instead of %s in a step.", Capital(who), has, display.Milliseconds(e.Level), display.Milliseconds(e.Others)) + f.sooner("with even work")
		case len(f.Ranks) > 0:
			return fmt.Sprintf("%s %s given more work than the others%s.", Capital(who), f.is(), f.when()) + f.sooner("with even work")
		case f.Cause == CauseWork:
			return "The work of a step differs between ranks, another one has most of it each time." + f.sooner("with even work")
		}
		by := ""
		if e.Excess > 0 {
			by = " by " + e.excess()
		}
		what := "Another rank is late each time,"
		if f.Pattern == SingleSteps {
			what = "Single ranks stall in turn"
		}
		return fmt.Sprintf("%s in %d of %d steps%s: %s. No rank is late beyond chance.", what, e.Affected, e.Interval, by, Word(f.Cause)) + f.sooner("with even work")
	case InputSlow:
		end := f.sooner("with batches ready at once")
		switch f.Pattern {
		case InTurn:
			return fmt.Sprintf("Other ranks wait for data in each step, %.1f ms of a step in the mean of all ranks.", e.Level) + end
		case SingleSteps:
			return fmt.Sprintf("All ranks wait for data in %d of %d steps, %s in each of them.", e.Affected, e.Interval, display.Milliseconds(e.Excess)) + end
		}
		if e.Others < unequalPart*e.Level {
			return fmt.Sprintf("All ranks wait for data, %.1f ms of each step in the mean, at least %.1f.", e.Level, e.Others) + end
		}
		return fmt.Sprintf("All ranks wait for data, %.1f ms of each step.", e.Level) + end
	case SlowTransfer:
		switch {
		case len(f.Ranks) > 0:
			return fmt.Sprintf("The collectives among %s take %.1f ms of a step longer than those of other groups.", who, e.Excess) + f.sooner("if they take as long")
		case f.Pattern == SingleSteps:
			return fmt.Sprintf("The transfer of the collectives takes %.1f ms instead of %.1f %s.", e.Level, e.Before, e.single()) + f.sooner("if it takes as long as in the others")
		case f.Pattern == Growing:
			return fmt.Sprintf("The transfer of the collectives takes more and more time, %s: %.1f ms at the end instead of %.1f.", f.since(), e.Level, e.Before) + f.sooner("if they take as long as before")
		}
		return fmt.Sprintf("The transfer of the collectives takes %.1f ms of each step instead of %.1f, %s.", e.Level, e.Before, f.since()) + f.sooner("if they take as long as before")
	case Drift:
		return "All ranks " + f.slower("are", "become")
	}
	return ""
}

// slower returns the sentence on work that takes longer than before, of all ranks or of ranks without a peer
// to compare with.
func (f *Finding) slower(are, become string) string {
	e, cause := f.Evidence, Word(f.Cause)
	switch f.Pattern {
	case SingleSteps:
		return fmt.Sprintf("%s slower in %s %s: %.1f ms instead of %.1f.", are, cause, e.single(), e.Level, e.Before) + f.sooner("if these are as fast as the others")
	case Growing:
		return fmt.Sprintf("%s slower and slower in %s, %s: %.1f ms at the end instead of %.1f.", become, cause, f.since(), e.Level, e.Before) + f.sooner("at the speed before")
	}
	return fmt.Sprintf("%s slower in %s, %s: %.1f ms instead of %.1f.", are, cause, f.since(), e.Level, e.Before) + f.sooner("at the speed before")
}

// slowRanks returns the sentence on the ranks that delay the steps. If one rank is late by one kind of work,
// it includes the time of that work on this rank and on the others.
func (f *Finding) slowRanks(who string) string {
	e, end := f.Evidence, f.sooner("at the others' speed")
	p := f.Proof
	switch {
	case p != nil && p.OfRun:
		return fmt.Sprintf("%s %s %s in “%s”, the others %s: they wait for it in %d of %s.", Capital(who), f.is(), p.Written(p.Named().Times[0]), p.Columns[0], p.Written(p.Rest().Times[0]),
			e.Affected, display.Plural(e.Interval, "step")) + end
	case f.Cause == causeCheckpoint:
		return fmt.Sprintf("The other ranks wait for %s to save a checkpoint, in %s%s.", who, display.Plural(e.Affected, "step"), e.numbers()) + f.sooner("if nobody waits for it")
	case e.Before > 0:
		if len(f.Ranks) == 1 {
			return Capital(who) + " " + f.slower("is", "becomes")
		}
		return Capital(who) + " " + f.slower("are", "become")
	case len(f.Ranks) == 1 && f.Cause != CauseMixed && e.Level > e.Others:
		delays := "delays"
		if f.Cause == CauseCompute {
			delays = "delay"
		}
		host := ""
		if on := f.on(); on != "" {
			host = on
		}
		return fmt.Sprintf("Rank %d's %s%s %s %s: %s, other ranks %s.", f.Ranks[0], work(f.Cause), host, delays, f.steps(), display.Milliseconds(e.Level), display.Milliseconds(e.Others)) + end
	}
	return fmt.Sprintf("%s %s late in %s by %s: %s.", Capital(who), f.is(), f.steps(), e.excess(), f.byRank()) + end
}

// steps returns the affected steps in words: "every step", "9 of 79 steps", "every step from 20 to 44".
func (f *Finding) steps() string {
	e, when := f.Evidence, ""
	if !e.all() {
		when = " " + strings.Replace(f.since(), "from step", "from", 1)
		if f.ToStep < 0 {
			when += " on"
		}
	}
	switch {
	case e.Affected >= e.Interval:
		return "every step" + when
	case e.Every > 1:
		return fmt.Sprintf("every %s step (%d of %d)", ordinal(e.Every), e.Affected, e.Interval) + when
	}
	return fmt.Sprintf("%d of %d steps", e.Affected, e.Interval) + e.numbers() + when
}

// numbers returns the numbers of the affected steps in brackets if all are listed, else "".
func (e *Evidence) numbers() string {
	switch n := len(e.Steps); {
	case n == 0 || n < e.Affected:
		return ""
	case n == 1:
		return " (step " + list(e.Steps) + ")"
	}
	return " (" + list(e.Steps) + ")"
}

// list returns numbers in words: "10, 30 and 45".
func list(numbers []int64) string {
	text := make([]string, len(numbers))
	for i, n := range numbers {
		text[i] = fmt.Sprint(n)
	}
	if n := len(text) - 1; n > 0 {
		return strings.Join(text[:n], ", ") + " and " + text[n]
	}
	return strings.Join(text, "")
}

func ordinal(n int) string {
	end := "th"
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		end = "st"
	case n%10 == 2:
		end = "nd"
	case n%10 == 3:
		end = "rd"
	}
	return fmt.Sprint(n) + end
}

// excess returns the mean excess, with its bounds if they differ after formatting.
func (e *Evidence) excess() string {
	text := display.Milliseconds(e.Excess)
	low, high := display.Milliseconds(e.ExcessLow), display.Milliseconds(e.ExcessHigh)
	if e.ExcessHigh == 0 || low == high {
		return text
	}
	if l, unit, _ := strings.Cut(low, " "); strings.HasSuffix(high, " "+unit) {
		low = l
	}
	return fmt.Sprintf("%s (%s to %s)", text, low, high)
}

// single returns which single steps are affected.
func (e *Evidence) single() string {
	if e.Every > 1 {
		return fmt.Sprintf("every %d steps (%d of %d)", e.Every, e.Affected, e.Interval)
	}
	return fmt.Sprintf("in %d of %d steps", e.Affected, e.Interval)
}

// lastInSteps returns the sentence on the rank that the others of a profile wait for.
func (f *Finding) lastInSteps() string {
	p, e := f.Proof, f.Evidence
	if p == nil || len(f.Ranks) != 1 || len(f.Step) == 0 {
		return ""
	}
	var step int64
	for _, part := range f.Step {
		step += part.Time
	}
	return fmt.Sprintf("Rank %d works %s of each %s step, the others %s; they wait for it in %d of %s.", f.Ranks[0], p.Written(p.Named().Times[0]), p.Written(step),
		p.Written(p.Rest().Times[0]), e.Affected, display.Plural(e.Interval, "step"))
}

// Seen returns the observation as a clause, without its cost. It is for findings that may be chance.
func (f *Finding) Seen() string {
	who, e := f.who(), f.Evidence
	switch {
	case e == nil:
		return ""
	case f.Kind == SlowTransfer && len(f.Ranks) > 0:
		return fmt.Sprintf("collectives among %s take %.1f ms of a step longer than those of other groups", who, e.Excess)
	case len(f.Ranks) == 0:
		return fmt.Sprintf("%s takes %.1f ms of a step instead of %.1f, %s", Word(f.Cause), e.Level, e.Before, f.since())
	}
	return fmt.Sprintf("%s %s late in %s by %s: %s", who, f.is(), f.steps(), e.excess(), f.byRank())
}

// Odds returns, as a clause, how likely chance explains the finding.
func (f *Finding) Odds() string {
	switch {
	case f.Evidence == nil || f.Evidence.Chance == 0:
		return "healthy jobs change as much"
	case f.Evidence.Chance >= 0.995:
		return "with ranks drawn at random for each step, one is always as late"
	}
	return fmt.Sprintf("with ranks drawn at random for each step, one is as late in %.2g %% of the draws", 100*f.Evidence.Chance)
}

// Doubt returns what may cost time and which data would settle it. The doubt is either chance, or that the
// loader of the job may not be able to go faster.
func (f *Finding) Doubt(chance bool, needed string) string {
	seen := Capital(f.Seen())
	if seen == "" {
		return ""
	}
	if !chance {
		return seen + ". Whether the job is faster without this is unknown: the loader delivers no sooner. Needed: " + needed + "."
	}
	return seen + ". Whether this is chance is unknown: " + f.Odds() + "." + f.sooner("if it is not") + " Needed: " + needed + "."
}

// Name returns the finding in a few words, for lists and tables: "slow ranks 3 (backward)".
func (f *Finding) Name() string {
	text := strings.ReplaceAll(string(f.Kind), "_", " ")
	if n := len(f.Ranks); n > 0 {
		text += " " + strings.ReplaceAll(strings.Trim(fmt.Sprint(f.Ranks[:min(n, mostNamed)]), "[]"), " ", ", ")
		if n > mostNamed {
			text += fmt.Sprintf(" and %d more", n-mostNamed)
		}
	}
	if f.Cause != "" && f.Cause != string(f.Kind) {
		text += " (" + Word(f.Cause) + ")"
	}
	return text
}

// who returns the ranks, and their hosts if these are few and the job has other hosts.
func (f *Finding) who() string { return RankList(f.Ranks) + f.on() }

func (f *Finding) on() string {
	if f.Job.OneHost || len(f.Hosts) == 0 || len(f.Hosts) > 2 {
		return ""
	}
	return " (" + strings.Join(f.Hosts, ", ") + ")"
}

func (f *Finding) is() string {
	if len(f.Ranks) > 1 {
		return "are"
	}
	return "is"
}

// RankList returns the ranks in words, at most eight of them.
func RankList(ranks []int) string {
	const most = 8
	word, more := "rank ", ""
	if len(ranks) > 1 {
		word = "ranks "
	}
	if n := len(ranks) - most; n > 0 {
		ranks, more = ranks[:most], fmt.Sprintf(" and %d more", n)
	}
	return word + strings.Trim(strings.ReplaceAll(fmt.Sprint(ranks), " ", ", "), "[]") + more
}

// since returns the interval of a finding in words.
func (f *Finding) since() string {
	since := fmt.Sprintf("from step %d", f.FromStep)
	if f.ToStep >= 0 {
		since += fmt.Sprintf(" to %d", f.ToStep-1)
	}
	return since
}

// when returns the interval in words, or "" if it covers all judged steps.
func (f *Finding) when() string {
	if f.Evidence.all() {
		return ""
	}
	return ", " + f.since()
}

// sooner returns how long the run takes with the repair (or a step, if the run is unknown) and how much that
// saves, with the confidence bounds.
func (f *Finding) sooner(how string) string {
	gain, about := f.Gain, "about"
	if gain == 0 {
		gain, about = f.GainLow, "at most"
	}
	cost := CostOf(gain)
	if cost == 0 || f.Saved == 0 {
		return ""
	}
	what, was, is := "the run", f.RunTime*1e9, f.RunRepaired*1e9
	low, high := f.RunLow*1e9, f.RunHigh*1e9
	if f.RunTime == 0 {
		was = f.Saved / cost * 1e6
		what, is = "a step", was-f.Saved*1e6
		if least, most, ok := f.uncertain(); ok {
			low, high = was-most*f.Saved*1e6, was-least*f.Saved*1e6
		}
	}
	less := display.Less(int64(was), int64(is))
	switch {
	case f.Gain == 0:
		less = "at least " + less + " less"
	case high > 0:
		least, most := display.Less(int64(was), int64(high)), display.Less(int64(was), int64(low))
		if less += " less"; least != most {
			if l, unit, _ := strings.Cut(least, " "); strings.HasSuffix(most, " "+unit) {
				least = l
			}
			less += " (" + least + " to " + most + ")"
		}
	default:
		less += " less"
	}
	return fmt.Sprintf(" %s %s takes %s %s: %s.", Capital(how), what, about, display.Duration(int64(is)), less)
}

// hang returns which ranks stopped where, and which ranks wait.
func (f *Finding) hang(who string) string {
	waited := ""
	e := f.Evidence
	if e.Waited > 0 {
		waited = " for " + display.Micros(1e3*e.Waited)
	}
	switch {
	case e.Seen != "":
		return fmt.Sprintf("The other ranks wait for %s since step %d: %s.", who, f.FromStep, strings.TrimRight(e.Seen, "."))
	case f.Cause == CauseMismatch && len(f.Causes) > 0:
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
			blame = fmt.Sprintf(" Most ranks entered the same one, %s did not.", who)
		}
		return fmt.Sprintf("The ranks wait for each other in different collectives since step %d%s: %s.%s", f.FromStep, waited, strings.TrimPrefix(where, ", "), blame)
	case len(f.Ranks) == 0:
		ranks := "All ranks that still run wait"
		if f.Job.Ranks > 0 {
			ranks = fmt.Sprintf("All %d ranks wait", f.Job.Ranks)
		}
		return fmt.Sprintf("%s in a collective since step %d%s. Whether one of them called another is unknown: sequence numbers, sizes and types are not on record.", ranks, f.FromStep, waited)
	case f.Cause == CauseUneven:
		last := ""
		if e.LastStep != nil {
			last = fmt.Sprintf(" after step %d", *e.LastStep)
		}
		return fmt.Sprintf("%s ended%s without an error, and the other ranks wait in step %d%s: the ranks have different numbers of steps.", Capital(who), last, f.FromStep, waited)
	case e.LastStep != nil:
		return fmt.Sprintf("%s began no step after step %d; the other ranks wait in step %d%s.", Capital(who), *e.LastStep, f.FromStep, waited)
	}
	in := ""
	if f.Cause != "" && f.Cause != causeHost && f.Cause != CauseMixed {
		in = " in " + f.Cause
	}
	return fmt.Sprintf("%s stopped%s in step %d; the other ranks wait%s.", Capital(who), in, f.FromStep, waited)
}

// byRank returns the cause, listed by rank if the ranks differ.
func (f *Finding) byRank() string {
	if f.Cause != CauseMixed || len(f.Ranks) > mostNamed {
		return Word(f.Cause)
	}
	var out []string
	for _, r := range f.Ranks {
		c := f.Causes[r]
		if c == "" {
			return f.Cause
		}
		if c = Word(c); len(f.Ranks) > 1 {
			c = fmt.Sprintf("rank %d %s", r, c)
		}
		out = append(out, c)
	}
	return strings.Join(out, ", ")
}

// loss returns how long a loss took and its components.
func (f *Finding) loss() string {
	lost, run := display.Duration(f.Lost), display.Duration(int64(f.RunTime*1e9))
	whose := "each rank's "
	switch {
	case f.OfOne:
		return fmt.Sprintf("%s of rank %d's %s: %s.", lost, f.Ranks[0], run, f.Parts[0].Name)
	case f.Job.Ranks <= 1:
		whose = ""
	case f.Kind == Wait && len(f.Ranks) == 1:
		whose = "each other rank's "
	}
	if f.Kind == Recompile {
		return f.recompiled() + fmt.Sprintf(": %s of %s%s.", lost, whose, run) + f.compilerReason()
	}
	if len(f.Parts) == 1 && f.Kind != StartUp {
		if f.Kind == Wait {
			return fmt.Sprintf("%s: %s of %s%s.", Capital(f.Parts[0].Name), lost, whose, run)
		}
		heavy := ""
		if e := f.Evidence; e != nil && len(e.Steps) > 0 {
			heavy = ", most of it in " + e.inSteps()
		} else if e != nil && e.Level > 0 && f.Cause == "" {
			heavy = fmt.Sprintf(", %s of each step in the mean", display.Milliseconds(e.Level))
		} else if e != nil && e.Level > 0 {
			heavy = fmt.Sprintf("; %s works %s of each step, the others %s", f.Cause, display.Milliseconds(e.Level), display.Milliseconds(e.Others))
		}
		return fmt.Sprintf("%s takes %s of %s%s%s.", Capital(f.Parts[0].Name), lost, whose, run, heavy)
	}
	var parts []string
	for _, p := range f.Parts {
		parts = append(parts, p.Name+" "+display.Duration(p.Time))
	}
	late := ""
	if f.Evidence != nil && f.Evidence.Waited > 0 && len(f.Ranks) == 1 {
		late = fmt.Sprintf("; %s of it is waiting for rank %d", display.Duration(int64(f.Evidence.Waited*1e6)), f.Ranks[0])
	}
	return fmt.Sprintf("%s of %s%s: %s%s.", lost, whose, run, strings.Join(parts, ", "), late)
}

// recompiled lists the steps in which the compiler ran again, and how long it took in each.
func (f *Finding) recompiled() string {
	e := f.Evidence
	if e == nil || e.Affected == 0 {
		return "The model was compiled again in later steps"
	}
	return "The model was compiled again in " + e.inSteps()
}

// inSteps lists the affected steps, and how long each of them takes longer.
func (e *Evidence) inSteps() string {
	steps := "steps " + list(e.Steps)
	switch n := len(e.Steps); {
	case e.Affected > n:
		steps = fmt.Sprintf("%d steps (%s, …)", e.Affected, strings.Replace(list(e.Steps), " and", ",", 1))
	case n == 1:
		steps = "step " + list(e.Steps)
	}
	each := ""
	if e.Affected > 1 {
		each = " each time"
	}
	return fmt.Sprintf("%s, %s%s", steps, display.Duration(int64(e.Excess*1e6)), each)
}

// compilerReason returns the reason that the compiler gave, as a sentence, or "".
func (f *Finding) compilerReason() string {
	if f.Evidence == nil || f.Evidence.Seen == "" {
		return ""
	}
	return " Reason: " + strings.TrimRight(f.Evidence.Seen, ".") + "."
}

// Capital returns text with its first letter in upper case. Names of spans may begin with any character.
func Capital(text string) string {
	_, n := utf8.DecodeRuneInString(text)
	return strings.ToUpper(text[:n]) + text[n:]
}

// Next returns advice on the finding as an imperative clause, or "" if there is none.
func (f *Finding) Next() string {
	cause := f.Cause
	if f.Kind == Hang && len(f.Ranks) == 0 && cause != CauseMismatch {
		cause = "nobody"
	}
	kind := string(f.Kind)
	keys := []string{kind + " " + cause, kind + " " + f.Pattern, kind}
	if f.Evidence != nil && f.Kind != Hang && f.ToStep > f.FromStep {
		keys = slices.Insert(keys, 0, kind+" over")
	}
	if f.Kind == SlowTransfer && len(f.Ranks) == 0 {
		keys = slices.Insert(keys, len(keys)-1, kind+" all")
	}
	for _, key := range keys {
		text := ""
		if f.Job.Devices {
			text = nextOf[key+" device"]
		}
		if f.Job.OneHost {
			text = cmp.Or(nextOf[key+" here"], text)
		}
		if text = cmp.Or(text, nextOf[key]); text != "" {
			return strings.NewReplacer("{host}", f.hostWords(), "{steps}", fmt.Sprintf("%d to %d", f.FromStep, f.ToStep-1)).Replace(text)
		}
	}
	return ""
}

// hostWords returns the words for the host of a finding in advice.
func (f *Finding) hostWords() string {
	if len(f.Hosts) == 1 {
		return f.Hosts[0]
	}
	return "its host"
}

// nextOf holds the advice by kind and cause or pattern, else by kind. "over" is for problems that ended
// before the run did, and "all" for transfers that no single group is to blame for. A suffix "here" is for
// jobs on one host, and "device" for jobs with recorded devices.
var nextOf = map[string]string{
	"hang":                   "look at the last log lines and the host of the rank that the others wait for",
	"hang here":              "look at the last log lines of the rank that the others wait for",
	"hang mismatch":          "look for a branch in which ranks call collectives in another order, or leave one out",
	"hang nobody":            "set TORCH_FR_BUFFER_SIZE=2000 and run again, or give the dump of the flight recorder to trainspan report: it has what each rank called",
	"hang uneven_steps":      "give all ranks the same number of batches (DistributedSampler, drop_last), or wrap the loop in torch.distributed.algorithms.join.Join",
	"input":                  "give the data loader more workers, or faster storage",
	"input single_steps":     "see what the loader does before these steps: new epochs, new files, workers that start again (persistent_workers)",
	"input in_turn":          "see whether some shards are larger or on slower storage, and prefetch further ahead",
	"communication":          "check links and counters of the network between the ranks named",
	"communication here":     "check the links between the devices, and what else uses this host",
	"communication all":      "check links and counters of the network between the hosts, and which other jobs use it",
	"communication over":     "look at links, counters and other jobs on the network during steps {steps}: outside of them it was as usual",
	"imbalance":              "balance the work of the ranks: lengths of sequences, experts, or sizes of batches",
	"imbalance work":         "give the ranks equal numbers of tokens: packing, or bucketing by length",
	"imbalance single_steps": "look for garbage collection or logging: collect at the same step on all ranks",
	"imbalance input":        "see whether some shards are larger or on slower storage, and prefetch further ahead",
	"drift single_steps":     "see what all ranks do in these steps: recompilation, garbage collection, saves in the background, other jobs",
	"drift":                  "compare the load and the memory of the hosts with those of the first steps",
	"drift device":           "compare clocks and temperature of the devices, the load of the hosts and memory with those of the first steps",
	"drift over":             "look at the logs and the load of the hosts during steps {steps}: outside of them all ranks were as usual",
	"slow_ranks":             "profile one step on this rank and on another; see whether other processes use its processor",
	"slow_ranks device":      "check clocks, temperature and power limits of the device; profile one step on this rank and on another",
	"slow_ranks input":       "compare the data loader and the storage of this host with another",
	"slow_ranks input here":  "profile the data loader of this rank, or compare its shard with another: all ranks share one host",
	"slow_ranks checkpoint":  "save asynchronously, or share the save among the ranks",
	"slow_ranks transfer":    "check pinned memory and the link between host and device",
	"slow_ranks host":        "look for other processes, logging and interpreter pauses on this host",
	"slow_ranks over":        "look at the logs and the load of {host} during steps {steps}: outside of them the rank was as usual",
}

package account

import (
	"cmp"
	"slices"
	"sort"

	"github.com/trainspan/trainspan/internal/job"
)

// FlagKind identifies a reason to trust a report less.
type FlagKind string

// The flags.
const (
	NoEnd           FlagKind = "no_end"            // an attempt without a proper end
	NoHeartbeat     FlagKind = "no_heartbeat"      // an attempt without a proper end and without heartbeats: when it ended is known only from its last record
	ClockSkew       FlagKind = "clock_skew"        // an attempt begins before the last record or heartbeat of an earlier one; Value is the overlap in ns
	LongIteration   FlagKind = "long_iteration"    // an iteration took more than ten times the usual time; Value is its number, -1 if unknown
	MissingRank     FlagKind = "missing_rank"      // the first rank of the job that reported nothing; Count more are in Report.Missing
	SpansDropped    FlagKind = "spans_dropped"     // spans are missing; Value is their number
	TwoWriters      FlagKind = "two_writers"       // several processes claim this rank and attempt; Value is their number minus one
	MissingEnds     FlagKind = "missing_ends"      // spans without an end, closed by their successor; Value is their number
	WarmupUnknown   FlagKind = "warmup_unknown"    // no usual time to compare the first iteration with
	Provisional     FlagKind = "provisional"       // the usual time comes from fewer than three iterations; Value is their number
	LostWorkUnknown FlagKind = "lost_work_unknown" // an attempt followed, and its first iteration is not recorded
	ResumeInferred  FlagKind = "resume_inferred"   // the first iteration of a loop was inferred; Value is its number
	NoIterations    FlagKind = "no_iterations"     // no iteration was recorded: the training time is in "other"
	LocalSteps      FlagKind = "local_steps"       // the program counts from 0 in each attempt; the global numbers come from the loops
)

// maxLong limits the flags about long iterations of one attempt. The Count of the
// last one is the number of further long iterations.
const maxLong = 8

// longFactor is the multiple of the usual time above which an iteration is flagged.
const longFactor = 10

// Flag is one reason to trust a report less, with the rank and attempt that it
// concerns. Attempt is 0 if it concerns the whole rank. Count is the number of
// similar flags that are not listed.
type Flag struct {
	Kind    FlagKind `json:"kind"`
	Rank    int      `json:"rank"`
	Attempt int      `json:"attempt,omitempty"`
	Value   int64    `json:"value,omitempty"`
	Count   int      `json:"more,omitempty"`
}

// flags appends the flags of one rank to out.
func (r *rankView) flags(v *view, out []Flag) []Flag {
	seen := make([]int64, len(r.attempts)) // the last record or heartbeat of this and all earlier attempts
	for k := range r.attempts {
		if seen[k] = min(r.attempts[k].stop, v.asOf); k > 0 {
			seen[k] = max(seen[k], seen[k-1])
		}
		out = r.flagAttempt(v, k, seen[:k], out)
	}
	writers := make(map[int]int64)
	for _, a := range r.rivals {
		writers[a.Attempt]++
	}
	for n, more := range writers {
		out = append(out, Flag{Kind: TwoWriters, Rank: r.id, Attempt: n, Value: more})
	}
	return out
}

// allFlags adds the flag of missing ranks and sorts all flags.
func (l *Ledger) allFlags(out []Flag, seen map[int]bool) []Flag {
	if missing := l.missing(seen); len(missing) > 0 {
		out = append(out, Flag{Kind: MissingRank, Rank: missing[0], Count: l.expected - len(seen) - 1})
	}
	slices.SortFunc(out, func(a, b Flag) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Value, b.Value))
	})
	return out
}

// MaxMissing limits the list of missing ranks; the flag counts all.
const MaxMissing = 64

// missing returns the expected ranks that reported nothing, at most MaxMissing.
func (l *Ledger) missing(seen map[int]bool) (out []int) {
	for id := 0; id < l.expected && len(out) < MaxMissing && len(seen) < l.expected; id++ {
		if !seen[id] {
			out = append(out, id)
		}
	}
	return out
}

func (r *rankView) flagAttempt(v *view, k int, seen []int64, out []Flag) []Flag {
	a := &r.attempts[k]
	say := func(kind FlagKind, value int64) {
		out = append(out, Flag{Kind: kind, Rank: r.id, Attempt: a.Attempt, Value: value})
	}
	if a.End > v.asOf {
		say(NoEnd, 0)
		if !a.Heartbeats {
			say(NoHeartbeat, 0)
		}
	}
	if j := sort.Search(k, func(j int) bool { return seen[j] > a.Start }); j < k { // the first of them
		say(ClockSkew, seen[j]-a.Start)
	}
	if a.Dropped > 0 {
		say(SpansDropped, a.Dropped)
	}
	if a.missingEnds > 0 {
		say(MissingEnds, int64(a.missingEnds))
	}
	if a.local {
		say(LocalSteps, 0)
	}
	for j := range a.loops {
		lp := &a.loops[j]
		if lp.start >= v.asOf || lp.given || lp.again {
			continue
		}
		if lp.from >= 0 {
			say(ResumeInferred, lp.from)
		} else if before := j > 0 || k > 0; before {
			say(LostWorkUnknown, 0)
		}
	}
	if a.unnumbered > 0 && a.over && v.find(a.Attempt) < len(v.tries)-1 {
		say(LostWorkUnknown, int64(a.unnumbered))
	}
	if len(a.iterations) == 0 || a.iterations[0].start >= v.asOf {
		if a.over && (len(a.loops) > 0 && a.loops[0].start < v.asOf || !a.standard) {
			say(NoIterations, 0)
		}
		return out
	}
	switch {
	case a.usual < 0, a.means:
		say(WarmupUnknown, 0)
	case a.counted < 3:
		say(Provisional, int64(a.counted))
	}
	return a.flagLong(v, r.id, out)
}

func (a *attemptView) flagLong(v *view, rank int, out []Flag) []Flag {
	if a.usual <= 0 {
		return out
	}
	n := 0
	for i := range a.iterations {
		if a.iterations[i].start >= v.asOf || (a.ownTime(i)-a.warmupOf(i))/int64(a.iterations[i].count()) <= longFactor*a.usual {
			continue
		}
		if n++; n <= maxLong {
			out = append(out, Flag{Kind: LongIteration, Rank: rank, Attempt: a.Attempt, Value: a.iterations[i].number})
		}
	}
	if n > maxLong {
		out[len(out)-1].Count = n - maxLong
	}
	return out
}

func (a *attemptView) warmupOf(i int) int64 {
	if i == 0 && a.iterations[0].end != job.NoEnd {
		return a.warmup
	}
	return 0
}

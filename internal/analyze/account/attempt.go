package account

import (
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// Process is what is known of one process: one attempt of one rank.
type Process struct {
	Rank    int
	Attempt int // counted from 1

	// Start is when the attempt began. Spans that begin earlier move it.
	Start int64

	// End is when the application ended properly, job.NoEnd when it did not.
	End int64

	// LastSeen is the last sign of life: a record or a heartbeat.
	LastSeen int64

	// Latest is until when the process may have lived, where its last records are
	// missing: it was killed before they were written. What is not after LastSeen says
	// nothing. Died says that it did live until then, as who waited for it knows.
	Latest int64
	Died   bool

	// Heartbeats says that LastSeen is more than the time of the last record.
	Heartbeats bool

	// Dropped counts spans that are known to be missing.
	Dropped int64
}

// attempt is the time of one process, divided. It holds all that the rules
// need, for any question about any moment, and none of the spans.
type attempt struct {
	Process
	stop int64  // End, or LastSeen
	role string // what tells ranks apart that do different work

	names  []Category // by what, below firstIteration
	loops  []loop     // by start
	saves  []save     // by time
	meets  []meetKind // by number, from 1
	packed packed     // the rest

	missingEnds int // spans that a sibling closed
	unnumbered  int // iterations without a number
	local       bool
	means       bool // iterations are as long as their mean: which were slow is not known
	standard    bool // there are spans of the standard vocabulary besides the application
	digest      uint64
}

// seg is a stretch of time up to the start of the next one.
type seg struct {
	start int64
	what  what
}

type overlapped struct {
	from, to int64
	what     what
}

// iteration is one training_single_iteration.
type iteration struct {
	number     int64 // job.Unknown when there is none
	start, end int64 // end is job.NoEnd when it never finished
	own        int64 // its own time in all, of which so much is
	compute    int64 //   in spans that say what it computes
	meets      int64 //   in collectives
	loop       int32 // index of its loop, -1 when it is in none

	// more is how many that follow a window holds besides the first one.
	more int32
}

// sketch is how long the iterations of a window took.
type sketch struct {
	mid, least int64 // own time: the median and the shortest
}

// count is how many iterations it stands for.
func (it *iteration) count() int { return int(it.more) + 1 }

func (it *iteration) finished(asOf int64) bool { return it.end != job.NoEnd && it.end <= asOf }

// loop is one training_loop.
type loop struct {
	start int64
	from  int64 // the first iteration that it will run, job.Unknown
	given bool  // from was written down, not concluded
}

// save is a checkpoint that is known to hold every iteration up to a number.
type save struct {
	time, through int64
}

// move sets the clock of the attempt forward. It changes nothing that others share.
func (a *attempt) move(by int64) {
	if by == 0 {
		return
	}
	a.Start, a.LastSeen, a.stop, a.packed.shift = a.Start+by, a.LastSeen+by, a.stop+by, by
	if a.End != job.NoEnd {
		a.End += by
	}
	if a.Latest != 0 {
		a.Latest += by
	}
	a.loops, a.saves = slices.Clone(a.loops), slices.Clone(a.saves)
	for i := range a.loops {
		a.loops[i].start += by
	}
	for i := range a.saves {
		a.saves[i].time += by
	}
}

// sum is a digest of the timeline, to tell a copy from another timeline.
func (a *attempt) sum(t *timeline) uint64 {
	h := newHash()
	h.add(a.Start, a.stop, a.End, a.LastSeen, int64(t.segs.n), int64(len(t.iterations)), int64(t.hash))
	for i := range t.iterations {
		it := &t.iterations[i]
		h.add(it.number, it.start, it.end)
	}
	for i := range a.loops {
		h.add(a.loops[i].start, a.loops[i].from)
	}
	for _, s := range a.saves {
		h.add(s.time, s.through)
	}
	return uint64(h)
}

// hash is FNV-1a over 64-bit words.
type hash uint64

func newHash() hash { return 14695981039346656037 }

func (h *hash) add(values ...int64) {
	for _, v := range values {
		*h = (*h ^ hash(uint64(v))) * 1099511628211
		*h ^= *h >> 29
	}
}

func (h *hash) text(s string) {
	for i := range len(s) {
		*h = (*h ^ hash(s[i])) * 1099511628211
	}
}

// minUsual is how many iterations say what is usual: a single one may be cut off,
// or the slow one.
const minUsual = 2

// usualOf is the median of the own times of iterations, job.Unknown of too few.
func usualOf(own []int64) (int64, int) {
	if len(own) < minUsual {
		return job.Unknown, len(own)
	}
	return stats.MedianInt(own, job.Unknown), len(own)
}

// beyondUsual is the part of the first iteration of an attempt that is warm-up: what it
// took beyond the usual. Where that is not known there is none.
func beyondUsual(first, usual int64) int64 {
	if first < 0 || usual < 0 {
		return 0
	}
	return max(0, first-usual)
}

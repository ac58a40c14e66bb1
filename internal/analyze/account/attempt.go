package account

import (
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// Process describes one process: one attempt of one rank. Times are
// nanoseconds since the Unix epoch.
type Process struct {
	Rank    int
	Attempt int // counted from 1

	// Start is when the attempt began. A span that begins earlier moves Start
	// to its own start.
	Start int64

	// End is when the application ended properly, or job.NoEnd if it did not.
	End int64

	// LastSeen is the time of the last record or heartbeat.
	LastSeen int64

	// Latest is the time until which the process may have lived if it was killed
	// before its last records were written. A value that is not after LastSeen has
	// no meaning. Died is set if trainspan run waited for the process, so that it is
	// known to have lived until Latest.
	Latest int64
	Died   bool

	// Heartbeats is set if LastSeen includes heartbeats, not only records.
	Heartbeats bool

	// Dropped is the number of spans that are known to be missing.
	Dropped int64
}

// attempt is the timeline of one process. It holds everything that the rules
// need for any query, but not the spans.
type attempt struct {
	Process
	stop int64  // End, or LastSeen
	role string // distinguishes ranks that do different work

	names  []Category // by what, below firstIteration
	loops  []loop     // by start
	saves  []save     // by time
	meets  []meetKind // by number, from 1
	packed packed     // the rest

	missingEnds int // spans without an end that a sibling closed
	unnumbered  int // iterations without a number
	local       bool
	means       bool // every iteration has the mean length: the slow ones are not known
	standard    bool // has spans of the standard vocabulary besides the application span
	digest      uint64
}

// seg is an interval that ends at the start of the next one.
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
	number     int64 // job.Unknown if not recorded
	start, end int64 // end is job.NoEnd if it never finished
	own        int64 // its own time in total, including:
	compute    int64 //   the time in compute spans
	meets      int64 //   the time in collectives
	loop       int32 // index of its loop; every iteration has one

	// more is the number of iterations in a window after the first one.
	more int32
}

// sketch summarizes how long the iterations of a window took.
type sketch struct {
	mid, least int64 // own time: the median and the shortest
}

// count returns the number of iterations that it represents.
func (it *iteration) count() int { return int(it.more) + 1 }

func (it *iteration) finished(asOf int64) bool { return it.end != job.NoEnd && it.end <= asOf }

// loop is one training_loop.
type loop struct {
	start int64
	from  int64 // the first iteration that it runs, or job.Unknown

	given    bool // from was recorded
	inferred bool // from is the lowest of its own numbers
	again    bool // its numbers begin again, and go on after those of the loop before
}

// save is a saved checkpoint that holds every iteration up to number through.
type save struct {
	time, through int64
}

// move sets the clock of the attempt forward. It does not modify data that
// copies of the attempt share.
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

// sum returns a digest of the timeline, which distinguishes a copy from a
// different timeline.
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

// minUsual is the smallest number of iterations that give a usual time: a single
// one may be incomplete or slow.
const minUsual = 2

// usualOf returns the median of the own times of iterations and their number.
// The median is job.Unknown for fewer than minUsual.
func usualOf(own []int64) (int64, int) {
	if len(own) < minUsual {
		return job.Unknown, len(own)
	}
	return stats.MedianInt(own, job.Unknown), len(own)
}

// beyondUsual returns the warm-up in the first iteration of an attempt: its time
// beyond the usual time, or 0 if one of the two is not known.
func beyondUsual(first, usual int64) int64 {
	if first < 0 || usual < 0 {
		return 0
	}
	return max(0, first-usual)
}

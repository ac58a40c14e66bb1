package job

import (
	"slices"

	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Training is what of a process trains: the threads of its loops and steps, and the passes
// through the model that only other threads have. The training waits for these: autograd runs
// backward on threads of its own, and what a reader of profiles concludes from operators has
// lanes of its own. The zero value knows nothing.
type Training struct {
	threads []int64
	passes  [passes][]int64 // the threads that have them
}

// pass is a pass through the model, which a step has on whatever thread runs it.
type pass uint8

const (
	passForward pass = iota
	passBackward
	passes
)

func passOf(c vocab.Class) (pass, bool) {
	switch c {
	case vocab.ClassForward:
		return passForward, true
	case vocab.ClassBackward:
		return passBackward, true
	}
	return 0, false
}

// mostThreads bounds a list of threads, which is short: threads of the training are those of a
// loop or of a step, which an import of a profile puts on rows of their own.
const mostThreads = 16

func addThread(list []int64, lane int64) []int64 {
	if tid := ThreadOf(lane); lane != 0 && len(list) < mostThreads && !slices.Contains(list, tid) {
		list = append(list, tid)
	}
	return list
}

// add takes a pass of the process.
func (t *Training) add(sp *Span) {
	if p, ok := passOf(sp.Class); ok && !sp.Background {
		t.passes[p] = addThread(t.passes[p], sp.Thread)
	}
}

// Training returns the threads of the process that train. It is empty if no span of a step shows
// them.
func (s *Steps) Training() Training {
	list := s.All()
	if s.Rule.Between() {
		return Training{}
	}
	t := Training{threads: slices.Clone(s.training.threads), passes: s.training.passes}
	for i := range list {
		t.threads = addThread(t.threads, list[i].Thread)
	}
	return t
}

// Knows reports whether it is known of a thread, or a lane, if it trains.
func (t *Training) Knows(thread int64) bool { return thread != 0 && len(t.threads) > 0 }

// Elsewhere reports whether spans of a class are passes that the threads of the training do not
// have.
func (t *Training) Elsewhere(c vocab.Class) bool {
	p, ok := passOf(c)
	return ok && len(t.threads) > 0 && !slices.ContainsFunc(t.passes[p], t.trains)
}

// Beside reports whether spans of a class on a thread, or a lane, run beside the training.
func (t *Training) Beside(thread int64, c vocab.Class) bool {
	return t.Knows(thread) && !t.trains(thread) && !t.Elsewhere(c)
}

func (t *Training) trains(lane int64) bool { return slices.Contains(t.threads, ThreadOf(lane)) }

// Beside reports whether a span that is not part of the step ran at the same time: on another lane of the
// step's thread, because on one thread spans overlap only if tasks take turns or if the thread is unknown.
func (st *Step) Beside(lane, start, end int64) bool {
	return lane != 0 && st.Thread != 0 && lane != st.Thread && ThreadOf(lane) == ThreadOf(st.Thread) && start < st.End && st.Start < end
}

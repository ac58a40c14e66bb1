package account

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/stats"
)

// stateVersion is that of the file that one attempt leaves to the next.
const stateVersion = 1

// maxStateAttempts bounds the attempts that the file tells apart. Older ones
// are added up.
const maxStateAttempts = 256

// liveState is what is in that file.
type liveState struct {
	Version int `json:"version"`
	Rank    int `json:"rank"`
	carried
}

// carried is what goes on from attempt to attempt.
type carried struct {
	Earlier []pastAttempt `json:"attempts"`
	Peak    int64         `json:"committed_ns"`                // the most that checkpoints ever held
	Through int64         `json:"saved_through"`               // iterations up to this one are in a checkpoint
	Rough   bool          `json:"rough,omitempty"`             // a resume went back to where sums are not exact
	Unknown bool          `json:"lost_work_unknown,omitempty"` // it did not say to where
}

// usual is the usual time for attempts that have none of their own; own is that of the
// present one.
func (c *carried) usual(own int64) int64 {
	var known []int64
	for i := range c.Earlier {
		if u := c.Earlier[i].Usual; u >= 0 {
			known = append(known, u)
		}
	}
	if own >= 0 {
		known = append(known, own)
	}
	return stats.MedianInt(known, job.Unknown)
}

// splitGap divides the time between the last attempt and one that starts now.
func (c *carried) splitGap(start int64) (unobserved, down int64) {
	if n := len(c.Earlier); n > 0 {
		return c.Earlier[n-1].splitGapUntil(start)
	}
	return 0, 0
}

// pastAttempt is what is left of an attempt.
type pastAttempt struct {
	Attempt int   `json:"attempt"`
	Start   int64 `json:"start_ns"`
	Stop    int64 `json:"stop_ns"` // its end, or the last sign of life
	Ended   bool  `json:"ended"`
	// Unseen is for how long it may have lived after Stop where it was killed.
	Unseen int64 `json:"unseen_ns,omitempty"`

	Spent   Totals  `json:"spent_ns"` // without iterations
	History history `json:"history"`
	Lost    int64   `json:"lost_ns"`

	FirstOwn    int64 `json:"first_ns"` // own time of the first iteration, -1 without one
	FirstNumber int64 `json:"first_number"`
	FirstIn     bool  `json:"first_counts"`
	Usual       int64 `json:"usual_ns"` // -1 when unknown
	Counted     int   `json:"usual_of"`

	Open []openStep `json:"open,omitempty"` // iterations that had not finished
}

type openStep struct {
	Own   int64 `json:"own_ns"`
	First bool  `json:"first,omitempty"`
}

// splitGapUntil divides the time from the attempt to the start of the next. A clock that was
// set back makes no time.
func (a *pastAttempt) splitGapUntil(start int64) (unobserved, down int64) {
	gap := max(0, start-a.Stop)
	if !a.Ended {
		unobserved = min(a.Unseen, gap)
	}
	return unobserved, gap - unobserved
}

// undo takes the iterations from one on back; each is called with those that are known
// one by one.
func (a *pastAttempt) undo(from int64, each func(past)) (exact bool) {
	lost, exact := a.History.undo(from, each)
	a.Lost += lost
	if lost > 0 && a.FirstNumber >= from {
		a.FirstIn = false
	}
	return exact
}

// upTo is the productive time of the iterations up to one.
func (a *pastAttempt) upTo(through, usual int64) int64 {
	n, _ := a.History.upTo(through)
	if a.FirstIn && a.FirstNumber <= through {
		n -= beyondUsual(a.FirstOwn, usual)
	}
	return n
}

// totals divides what is left of the attempt. An attempt that is over has
// lost what it had not finished.
func (a *pastAttempt) totals(usual int64, over bool) Totals {
	t := Totals{}
	t.addAll(a.Spent)
	productive, lost := a.History.Sum+a.History.Loose, a.Lost
	warm := beyondUsual(a.FirstOwn, usual)
	if a.FirstIn {
		productive -= warm
	} else {
		lost -= warm
	}
	for _, o := range a.Open {
		work := o.Own
		if usual >= 0 && work > usual {
			if o.First {
				warm += work - usual
			} else {
				t.add(Stall, work-usual)
			}
			work = usual
		}
		if over {
			lost += work
		} else {
			productive += work
		}
	}
	t.add(Productive, productive)
	t.add(LostWork, lost)
	t.add(Warmup, warm)
	return t
}

func (o *LiveOptions) path() string {
	return filepath.Join(o.Dir, fmt.Sprintf("goodput-rank%d.json", o.Rank))
}

// load reads what earlier attempts left.
func (s *stateFile) load(o *LiveOptions, into *carried) error {
	if o.Dir == "" {
		return nil
	}
	f, err := os.Open(o.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("goodput: read the state of earlier attempts: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	s.ours = fswrite.Same(f)
	text, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("goodput: read the state of earlier attempts: %w", err)
	}
	var st liveState
	if err := json.Unmarshal(text, &st); err != nil {
		return fmt.Errorf("goodput: %s is damaged, remove it to begin anew: %w", o.path(), err)
	}
	if st.Version != stateVersion || st.Rank != o.Rank {
		return fmt.Errorf("goodput: %s is version %d of rank %d, this is version %d of rank %d: use another directory or remove it",
			o.path(), st.Version, st.Rank, stateVersion, o.Rank)
	}
	for i := range st.Earlier {
		st.Earlier[i].History.shorten()
	}
	*into = st.carried
	return nil
}

// self is this attempt as the next one would find it.
func (l *Live) self() pastAttempt {
	a := l.now
	a.Attempt, a.Start, a.Stop, a.Ended, a.Spent = l.opts.Attempt, l.opts.Start, l.s.now, l.ended != job.NoEnd, Totals{}
	a.Unseen = int64(l.opts.Every)
	for w, ns := range l.spent {
		a.Spent.add(l.table[w], ns)
	}
	a.Usual, a.Counted = l.usual.median()
	for i := range l.open.steps {
		if l.open.steps[i].open {
			a.Open = append(a.Open, openStep{l.open.steps[i].own, l.open.steps[i].first})
		}
	}
	return a
}

// state is what the file should say now. It shares nothing with the ledger.
func (l *Live) state() *liveState {
	if l.opts.Dir == "" {
		return nil
	}
	st := &liveState{Version: stateVersion, Rank: l.opts.Rank, carried: l.job}
	st.Earlier = append(slices.Clone(l.job.Earlier), l.self())
	if n := len(st.Earlier) - maxStateAttempts; n > 0 {
		st.Earlier = st.Earlier[n:] // so many restarts have no use for the first
	}
	for i := range st.Earlier {
		h := &st.Earlier[i].History
		h.Points, h.Tail = slices.Clone(h.Points), slices.Clone(h.Tail)
	}
	return st
}

// stateFile is the file of the state.
type stateFile struct {
	mu   sync.Mutex
	ours fswrite.Proof // of the file as it was read or written last; nil: there was none
	last bool          // the end of the attempt was written
}

// save replaces the file at once, so that a kill leaves the old or the new one.
// A file that somebody else has put there is left alone.
func (s *stateFile) save(o *LiveOptions, st *liveState, end bool) error {
	if st == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last {
		return nil // a state from before the end
	}
	text, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("goodput: %w", err)
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return fmt.Errorf("goodput: %w", err)
	}
	// That it was removed is no reason to stop; that it is somebody else's is.
	ours, err := fswrite.Write(o.path(), text, 0o644, s.ours)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("goodput: another process writes %s: give each run a directory and each process a rank of its own: %w", o.path(), err)
	}
	if err != nil {
		return fmt.Errorf("goodput: %w", err)
	}
	s.ours, s.last = ours, end
	return nil
}

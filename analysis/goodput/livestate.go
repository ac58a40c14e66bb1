package goodput

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

	"github.com/trainspan/trainspan/internal/outfile"
	"github.com/trainspan/trainspan/internal/run"
)

// stateVersion is that of the file that one attempt leaves to the next.
const stateVersion = 1

// maxStateAttempts bounds the attempts that the file tells apart. Older ones
// are added up.
const maxStateAttempts = 256

// liveState is what is in that file.
type liveState struct {
	Version  int           `json:"version"`
	Rank     int           `json:"rank"`
	Attempts []pastAttempt `json:"attempts"`
	Peak     int64         `json:"committed_ns"`
	Saved    int64         `json:"saved_through"`
	Rough    bool          `json:"rough,omitempty"`
	Unknown  bool          `json:"lost_work_unknown,omitempty"`
}

// pastAttempt is what is left of an attempt.
type pastAttempt struct {
	Attempt int   `json:"attempt"`
	Start   int64 `json:"start_ns"`
	Stop    int64 `json:"stop_ns"` // its end, or the last sign of life
	Ended   bool  `json:"ended"`

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

// undo takes the iterations from one on back.
func (a *pastAttempt) undo(from int64) (exact bool) {
	lost, exact := a.History.undo(from, nil)
	a.Lost += lost
	if lost > 0 && a.FirstNumber >= from {
		a.FirstIn = false
	}
	return exact
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
func (l *Live) load() error {
	if l.opts.Dir == "" {
		return nil
	}
	f, err := os.Open(l.opts.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("goodput: read the state of earlier attempts: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	l.file.ours = outfile.Same(f)
	text, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("goodput: read the state of earlier attempts: %w", err)
	}
	var st liveState
	if err := json.Unmarshal(text, &st); err != nil {
		return fmt.Errorf("goodput: %s is damaged, remove it to begin anew: %w", l.opts.path(), err)
	}
	if st.Version != stateVersion || st.Rank != l.opts.Rank {
		return fmt.Errorf("goodput: %s is version %d of rank %d, this is version %d of rank %d: use another directory or remove it",
			l.opts.path(), st.Version, st.Rank, stateVersion, l.opts.Rank)
	}
	for i := range st.Attempts {
		st.Attempts[i].History.shorten()
	}
	l.earlier, l.peak, l.saved, l.rough, l.unknown = st.Attempts, st.Peak, st.Saved, st.Rough, st.Unknown
	if n := len(l.earlier); n > 0 && l.opts.Attempt <= l.earlier[n-1].Attempt {
		l.opts.Attempt = l.earlier[n-1].Attempt + 1
	}
	return nil
}

// self is this attempt as the next one would find it.
func (l *Live) self() pastAttempt {
	a := pastAttempt{
		Attempt: l.opts.Attempt, Start: l.opts.Start, Stop: l.s.now, Ended: l.ended != run.NoEnd, Spent: Totals{},
		History: l.own, Lost: l.lost, FirstOwn: l.first, FirstNumber: l.number, FirstIn: l.firstIn,
	}
	for w, ns := range l.spent {
		a.Spent.add(l.table[w], ns)
	}
	a.Usual, a.Counted = l.usual.median()
	for i := range l.steps {
		if l.steps[i].open {
			a.Open = append(a.Open, openStep{l.steps[i].own, l.steps[i].first})
		}
	}
	return a
}

// state is what the file should say now. It shares nothing with the ledger.
func (l *Live) state() *liveState {
	if l.opts.Dir == "" {
		return nil
	}
	a := l.self()
	a.History.Points, a.History.Tail = slices.Clone(a.History.Points), slices.Clone(a.History.Tail)
	st := &liveState{Version: stateVersion, Rank: l.opts.Rank, Peak: l.peak, Saved: l.saved, Rough: l.rough, Unknown: l.unknown}
	for i := range l.earlier {
		e := l.earlier[i]
		e.History.Points, e.History.Tail = slices.Clone(e.History.Points), slices.Clone(e.History.Tail)
		st.Attempts = append(st.Attempts, e)
	}
	st.Attempts = append(st.Attempts, a)
	if n := len(st.Attempts) - maxStateAttempts; n > 0 {
		st.Attempts = st.Attempts[n:] // so many restarts have no use for the first
	}
	return st
}

// stateFile is the file of the state.
type stateFile struct {
	mu   sync.Mutex
	ours outfile.Proof // of the file as it was read or written last; nil: there was none
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
	ours, err := outfile.Write(o.path(), text, 0o644, s.ours)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("goodput: another process writes %s: give each run a directory and each process a rank of its own: %w", o.path(), err)
	}
	if err != nil {
		return fmt.Errorf("goodput: %w", err)
	}
	s.ours, s.last = ours, end
	return nil
}

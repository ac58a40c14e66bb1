package checkpoint

import (
	"errors"
	"sync"
	"time"
)

// Writer saves in the background, one checkpoint at a time. Start it with
// [NewWriter] and end it with Close.
type Writer struct {
	store *Store
	jobs  chan job
	done  chan struct{}

	mu     sync.Mutex // held over a send, so that Close never closes under one
	closed bool

	errMu sync.Mutex
	errs  []error // not yet reported
}

type job struct {
	state    *State
	finished func(Result)
}

// Result tells how a background save went.
type Result struct {
	Saved
	Start, End time.Time // when the background work began and ended
	Err        error
}

// NewWriter starts the background goroutine over store, which nobody else may
// use until Close.
func NewWriter(store *Store) *Writer {
	w := &Writer{store: store, jobs: make(chan job), done: make(chan struct{})}
	go w.run()
	return w
}

var errWriterClosed = errors.New("checkpoint: the background writer is closed")

// Save takes over state, which must be a private copy (see [State.Clone]), and
// returns as soon as the background goroutine has it: at once, unless the save
// before is still being written, which is waited for. finished, when not nil, is
// called from the background goroutine. An error is that of an earlier save.
func (w *Writer) Save(state *State, finished func(Result)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errWriterClosed
	}
	w.jobs <- job{state, finished}
	return w.takeErrors()
}

// Close waits for the save in progress and returns the errors not yet reported
// by Save. Closing again does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.jobs)
	}
	w.mu.Unlock()
	<-w.done
	return w.takeErrors()
}

func (w *Writer) run() {
	defer close(w.done)
	for j := range w.jobs {
		r := Result{Start: time.Now()}
		r.Saved, r.Err = w.store.Save(j.state)
		r.End = time.Now()
		if r.Err != nil {
			w.errMu.Lock()
			w.errs = append(w.errs, r.Err)
			w.errMu.Unlock()
		}
		if j.finished != nil {
			j.finished(r)
		}
	}
}

func (w *Writer) takeErrors() error {
	w.errMu.Lock()
	defer w.errMu.Unlock()
	err := errors.Join(w.errs...)
	w.errs = nil
	return err
}

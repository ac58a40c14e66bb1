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

	mu     sync.Mutex // held during a send, so that Close does not close the channel then
	closed bool

	errMu sync.Mutex
	errs  []error // not yet reported
}

type job struct {
	state    *State
	finished func(Result)
}

// Result is the result of a background save.
type Result struct {
	Saved
	Start, End time.Time // of the background work
	Err        error
}

// NewWriter starts the background goroutine for store. No one else may use
// store until Close.
func NewWriter(store *Store) *Writer {
	w := &Writer{store: store, jobs: make(chan job), done: make(chan struct{})}
	go w.run()
	return w
}

var errWriterClosed = errors.New("checkpoint: the background writer is closed")

// Save takes ownership of state, which must be a private copy (see
// [State.Clone]), and returns when the background goroutine has it: at once, or
// after the previous save if that is still in progress. The background
// goroutine calls finished unless it is nil. An error is that of an earlier
// save.
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

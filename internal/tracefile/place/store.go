package place

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

// Defaults of StoreOptions.
const (
	DefaultMaxOpen      = 64
	DefaultMaxProcesses = 4096
	DefaultMaxBytes     = 64 << 20
)

// Errors of With.
var (
	// ErrClosed is what comes after Close.
	ErrClosed = errors.New("the files are complete")
	// ErrFull passes by itself: what comes is to be sent again later.
	ErrFull = errors.New("more waits to be written than memory is allowed for; send it again later")
)

// StoreOptions configures a Store.
type StoreOptions[K comparable] struct {
	// MaxOpen bounds the files that are open at once. To make room one is closed
	// for now; it is opened again when its process sends something.
	MaxOpen int
	// MaxProcesses bounds the processes that are known at once, their files open
	// or not. To make room the file of one that is silent is completed.
	MaxProcesses int
	// MaxFiles bounds the files that are made for the processes of a Group as
	// long as any of them is known.
	MaxFiles int
	// MaxBytes bounds what waits and what is remembered of all processes together.
	MaxBytes int64
	// Complete is after how long a silent process is forgotten; 0 is never.
	Complete time.Duration
	// Window is how long a span waits for its parent.
	Window time.Duration
	// Assembler configures what puts spans together, but for TID.
	Assembler Options

	// Limits are those that spans are converted by.
	Limits Limits

	// Group returns the processes that MaxFiles is about, by one of their names.
	Group func(K) string
	// Shared is the key of the file of the processes that are one too many.
	Shared K
	Watch  Watcher
	See    string // where it is said what limits do
}

// Watcher is told what becomes of the files of a Store. Calls come from many
// goroutines, with a file locked.
type Watcher interface {
	// Counted tells what was written, and how many lines were lost, since the last call.
	Counted(c Counts, lost uint64)
	// Opened and Closed tell how many files are open. again is for one that was
	// closed for now.
	Opened(again bool)
	Closed()
	// Outage tells that a file could not be made or opened again.
	Outage()
	// Log tells what somebody should know.
	Log(level slog.Level, message string, args ...any)
}

// Store has the files of many processes, each with its Assembler. It is safe
// for concurrent use. A file has a slot while it may be open; there are MaxOpen
// of them. The lock of a file is taken before that of the store, never after it.
type Store[K comparable] struct {
	o     StoreOptions[K]
	bytes atomic.Int64 // that files count
	told  warnedOnce

	relief sync.Mutex // held by who makes room in memory

	mu     sync.Mutex
	files  map[K]*File[K]
	groups map[string]*group
	recent list[K]
	open   slots[K]
	ending int // files that were removed and are not complete yet
	closed bool
}

// group counts the files of processes that belong together.
type group struct {
	known, made int
	used        time.Time
}

// NewStore makes a Store without files.
func NewStore[K comparable](o StoreOptions[K]) *Store[K] {
	s := &Store[K]{o: o, files: make(map[K]*File[K]), groups: make(map[string]*group)}
	s.told.log, s.told.see = o.Watch.Log, o.See
	return s
}

// With calls fn with the locked file of a process, which is open; create makes
// it where the process is new. fn gets the
// file of Shared where there are too many processes. now is the time.
func (s *Store[K]) With(key K, now time.Time, create func(K) (Made, error), fn func(*File[K]) error) error {
	if err := s.afford(now); err != nil {
		return err
	}
	for {
		f, err := s.get(key, now)
		if err != nil {
			return err
		}
		f.mu.Lock()
		// Its slot may be gone, or the file complete: then once more.
		if s.holds(f) && f.state != stateClosed {
			err := s.ready(f, create)
			if err == nil {
				err = fn(f)
				s.count(f)
			}
			f.mu.Unlock()
			return err
		}
		f.mu.Unlock()
	}
}

// get finds the file of a process or makes it, and gives it a slot.
func (s *Store[K]) get(key K, now time.Time) (*File[K], error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	f, forgotten := s.find(key, now)
	f.used = now
	s.recent.front(f)
	var victim *File[K]
	if !f.slot {
		if len(s.open.files) >= s.o.MaxOpen {
			victim = s.open.victim(now)
			s.open.release(victim)
		}
		s.open.take(f)
	}
	s.mu.Unlock()
	if forgotten != nil {
		_ = s.finish(context.Background(), forgotten) // it is logged
		s.ended()
	}
	if victim != nil {
		if err := s.putAside(victim, f); err != nil {
			return nil, fmt.Errorf("%d files are open and none can be put aside: %w", s.o.MaxOpen, err)
		}
	}
	return f, nil
}

// find finds the file of a process. For one that is new another may have to be
// forgotten; where all are busy, or their group has had too many, it is the
// shared one.
func (s *Store[K]) find(key K, now time.Time) (f, forgotten *File[K]) {
	g := s.groups[s.o.Group(key)]
	if g != nil {
		g.used = now
	}
	if f = s.files[key]; f != nil || key == s.o.Shared {
		return s.orNew(f, key, now), nil
	}
	if g != nil && g.made >= s.o.MaxFiles {
		s.told.warnOnce(limitFiles, s.o.MaxFiles)
		return s.orNew(s.files[s.o.Shared], s.o.Shared, now), nil
	}
	if len(s.files) >= s.o.MaxProcesses {
		if forgotten = s.recent.last; now.Sub(forgotten.used) < silence {
			s.told.warnOnce(limitProcesses, s.o.MaxProcesses)
			return s.orNew(s.files[s.o.Shared], s.o.Shared, now), nil
		}
		s.remove(forgotten)
	}
	return s.orNew(nil, key, now), forgotten
}

// orNew returns a file, or a new one where there is none.
func (s *Store[K]) orNew(f *File[K], key K, now time.Time) *File[K] {
	if f != nil {
		return f
	}
	f = &File[K]{Key: key, group: s.o.Group(key)}
	s.files[key] = f
	g := s.groups[f.group]
	if g == nil {
		g = &group{used: now}
		s.groups[f.group] = g
	}
	g.known++
	g.made++
	return f
}

// remove takes a file out, with its slot.
func (s *Store[K]) remove(f *File[K]) {
	s.ending++
	delete(s.files, f.Key)
	s.recent.take(f)
	s.groups[f.group].known--
	s.open.release(f)
}

func (s *Store[K]) holds(f *File[K]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.slot
}

// putAside closes a file that lost its slot to another one, which gives it back
// if that does not work.
func (s *Store[K]) putAside(victim, heir *File[K]) error {
	victim.mu.Lock()
	defer victim.mu.Unlock()
	if victim.state != stateOpen || s.holds(victim) {
		return nil // there is nothing to close, or it has got another slot
	}
	err := s.suspend(context.Background(), victim)
	if err == nil {
		s.crowded()
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if victim.state == stateClosed {
		s.lose(victim, err)
		return nil
	}
	if heir.slot {
		s.open.release(heir)
	}
	s.open.take(victim)
	return err
}

// lose forgets a file that cannot be gone on with.
func (s *Store[K]) lose(f *File[K], err error) {
	if s.files[f.Key] == f {
		s.remove(f)
		s.ending-- // it has ended
	}
	s.o.Watch.Log(slog.LevelError, "trace file is not complete", "file", f.Writer.Path(), "error", err, "see", helptopic.Damaged)
}

func (s *Store[K]) crowded() {
	s.mu.Lock()
	n := len(s.files)
	s.mu.Unlock()
	s.told.warnOnce(limitOpen, s.o.MaxOpen, "processes", n)
}

// ready opens a file that has a slot.
func (s *Store[K]) ready(f *File[K], create func(K) (Made, error)) error {
	switch f.state {
	case stateNew:
		made, err := create(f.Key)
		if err != nil {
			s.o.Watch.Outage()
			return err
		}
		o := s.o.Assembler
		o.TID = made.TID
		f.Writer, f.Assembler, f.state = made.Writer, New(made.Writer, o), stateOpen
		f.Assembler.Cut(made.Cut)
		s.o.Watch.Opened(false)
	case stateAside:
		return s.resume(f)
	}
	return nil
}

// Tick writes what has waited long enough, puts the files of silent processes
// aside, and completes those of processes that are to be forgotten.
func (s *Store[K]) Tick(ctx context.Context, now time.Time) {
	s.mu.Lock()
	var idle []*File[K]
	for f := s.recent.last; f != nil && s.o.Complete > 0 && now.Sub(f.used) >= s.o.Complete; f = s.recent.last {
		s.remove(f)
		idle = append(idle, f)
	}
	for name, g := range s.groups {
		if g.known == 0 && now.Sub(g.used) >= max(s.o.Complete, silence) {
			delete(s.groups, name)
		}
	}
	busy := append([]*File[K](nil), s.open.files...)
	s.mu.Unlock()
	for _, f := range busy {
		s.settle(ctx, f, now)
	}
	for _, f := range idle {
		_ = s.finish(ctx, f) // it is logged
		s.ended()
	}
}

// Settle reports whether the files have everything that came by a time, or have counted
// it as lost. It writes what their writers hold, and returns false where spans wait for
// their parents, a file takes nothing, or one is being completed.
func (s *Store[K]) Settle(ctx context.Context, at time.Time) bool {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.files))
	settled := s.ending == 0
	s.mu.Unlock()
	for _, f := range all {
		if !settled {
			break
		}
		f.mu.Lock()
		if f.state == stateOpen {
			settled = !f.Assembler.Waits(at) && f.Writer.FlushContext(ctx) == nil
			s.count(f)
		}
		f.mu.Unlock()
	}
	return settled
}

// ended notes that a file that was removed is complete, or lost.
func (s *Store[K]) ended() {
	s.mu.Lock()
	s.ending--
	s.mu.Unlock()
}

// settle writes what has waited long enough in a file.
func (s *Store[K]) settle(ctx context.Context, f *File[K], now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state != stateOpen {
		return
	}
	f.Assembler.WriteUntil(now.Add(-s.o.Window))
	s.count(f)
	s.mu.Lock()
	silent := f.slot && now.Sub(f.used) >= silence
	if silent {
		s.open.release(f)
	}
	s.mu.Unlock()
	if !silent {
		return
	}
	if err := s.suspend(ctx, f); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if f.state == stateClosed {
			s.lose(f, err)
		} else if s.files[f.Key] == f && !f.slot {
			s.open.take(f) // it stays open, though there may be one more then
		}
	}
}

// Files returns the files of all processes that are known.
func (s *Store[K]) Files() []*File[K] {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*File[K], 0, len(s.files))
	for f := s.recent.first; f != nil; f = f.next {
		all = append(all, f)
	}
	return all
}

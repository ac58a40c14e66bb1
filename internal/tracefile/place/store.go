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
	// ErrClosed is the error after Close.
	ErrClosed = errors.New("the files are complete")
	// ErrFull is temporary: the sender should retry later.
	ErrFull = errors.New("more waits to be written than memory is allowed for; send it again later")
)

// StoreOptions configures a Store.
type StoreOptions[K comparable] struct {
	// MaxOpen bounds the files that are open at once. To make room, the store suspends a
	// file: it closes the file, and opens it again when its process sends more.
	MaxOpen int
	// MaxProcesses bounds the processes that are known at once, with open or suspended
	// files. To make room, the store completes the file of a silent process.
	MaxProcesses int
	// MaxFiles bounds the files created for the processes of a Group while any of them
	// is known. A completed file whose process sent for a minute does not count: its name
	// did not change with each batch.
	MaxFiles int
	// MaxBytes bounds the memory, in bytes, of everything that waits or is remembered,
	// for all processes together.
	MaxBytes int64
	// Complete is the time after which a silent process is forgotten and its file
	// completed; 0 means never.
	Complete time.Duration
	// Window is how long a span waits for its parent.
	Window time.Duration
	// Assembler configures the Assembler of each file. Its TID is ignored.
	Assembler Options

	// Limits are the limits that the converter of spans applies.
	Limits Limits

	// Group returns the name of the group of a process, to which MaxFiles applies.
	Group func(K) string
	// Shared is the key of the file that all processes beyond the limits share.
	Shared K
	Watch  Watcher
	See    string // the help topic that explains the limits
}

// Watcher receives the events of the files of a Store. Its methods are called from many
// goroutines, with a file locked.
type Watcher interface {
	// Counted reports what was written and how many lines were lost since the last call.
	Counted(c Counts, lost uint64)
	// Opened and Closed report that a file was opened or closed. again is true if the
	// file was suspended before.
	Opened(again bool)
	Closed()
	// Outage reports that a file could not be created or reopened.
	Outage()
	// Log logs a message for the user.
	Log(level slog.Level, message string, args ...any)
}

// Store manages the files of many processes, each with its Assembler. It is safe for
// concurrent use. A file has a slot while it may be open; there are MaxOpen slots. Lock
// order: a file's mutex before the store's, never the reverse.
type Store[K comparable] struct {
	o     StoreOptions[K]
	bytes atomic.Int64 // memory of all files
	told  warnedOnce

	relief sync.Mutex // held while afford makes room

	mu     sync.Mutex
	files  map[K]*File[K]
	groups map[string]*group
	recent list[K]
	open   slots[K]
	ending int // removed files that are not complete yet
	closed bool
}

// group counts the known processes of a group and the files that count for MaxFiles.
type group struct {
	known, made int
	used        time.Time
}

// NewStore returns a Store without files.
func NewStore[K comparable](o StoreOptions[K]) *Store[K] {
	s := &Store[K]{o: o, files: make(map[K]*File[K]), groups: make(map[string]*group)}
	s.told.log, s.told.see = o.Watch.Log, o.See
	return s
}

// With calls fn with the open, locked file of a process. create creates the file of a
// new process. If there are too many processes, fn gets the file of Shared. now is the
// current time. The errors are ErrClosed, ErrFull and those of create, fn and opening or
// suspending files.
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
		// Retry if the file has lost its slot or is complete by now.
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

// get returns the file of a process, new if necessary, and gives it a slot.
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
		_ = s.finish(context.Background(), forgotten) // finish logs the error
		s.ended()
	}
	if victim != nil {
		if err := s.putAside(victim, f); err != nil {
			return nil, fmt.Errorf("%d files are open and none can be put aside: %w", s.o.MaxOpen, err)
		}
	}
	return f, nil
}

// find returns the file of a process. A new process may require forgetting another,
// silent one, which is returned too. If no process is silent, or the group has reached
// MaxFiles, find returns the shared file.
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
		s.retire(forgotten)
	}
	return s.orNew(nil, key, now), forgotten
}

// orNew returns f, or a new file for key if f is nil.
func (s *Store[K]) orNew(f *File[K], key K, now time.Time) *File[K] {
	if f != nil {
		return f
	}
	f = &File[K]{Key: key, group: s.o.Group(key), born: now}
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

// retire removes a file that is to be completed. It no longer counts for MaxFiles if
// its process sent for a while.
func (s *Store[K]) retire(f *File[K]) {
	s.remove(f)
	if f.used.Sub(f.born) >= silence {
		s.groups[f.group].made--
	}
}

// remove removes a file from the store and releases its slot.
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

// putAside suspends victim, which lost its slot to heir. If that fails, victim gets the
// slot back.
func (s *Store[K]) putAside(victim, heir *File[K]) error {
	victim.mu.Lock()
	defer victim.mu.Unlock()
	if victim.state != stateOpen || s.holds(victim) {
		return nil // nothing to close, or it has a new slot
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

// lose forgets a file that can no longer be written, and logs that.
func (s *Store[K]) lose(f *File[K], err error) {
	if s.files[f.Key] == f {
		s.remove(f)
		s.ending-- // nothing is left to complete
	}
	s.o.Watch.Log(slog.LevelError, "trace file is not complete", "file", f.Writer.Path(), "error", err, "see", helptopic.Damaged)
}

func (s *Store[K]) crowded() {
	s.mu.Lock()
	n := len(s.files)
	s.mu.Unlock()
	s.told.warnOnce(limitOpen, s.o.MaxOpen, "processes", n)
}

// ready creates or reopens a file that has a slot, if it is not open.
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

// Tick writes the spans that have waited for Window, suspends the files of silent
// processes, and completes the files of processes that have been silent for Complete.
func (s *Store[K]) Tick(ctx context.Context, now time.Time) {
	s.mu.Lock()
	var idle []*File[K]
	for f := s.recent.last; f != nil && s.o.Complete > 0 && now.Sub(f.used) >= s.o.Complete; f = s.recent.last {
		s.retire(f)
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
		_ = s.finish(ctx, f) // finish logs the error
		s.ended()
	}
}

// Settle reports whether everything that arrived at or before the given time is in the
// files or counted as lost. It flushes the writers. It returns false if spans wait for
// their parents, a file cannot be written, or a file is being completed.
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

// ended records that a removed file is complete, or lost.
func (s *Store[K]) ended() {
	s.mu.Lock()
	s.ending--
	s.mu.Unlock()
}

// settle writes the spans of a file that have waited for Window, and suspends the file
// if its process is silent.
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
			s.open.take(f) // it stays open, even if that exceeds MaxOpen by one
		}
	}
}

// Files returns the files of all known processes, most recently used first.
func (s *Store[K]) Files() []*File[K] {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*File[K], 0, len(s.files))
	for f := s.recent.first; f != nil; f = f.next {
		all = append(all, f)
	}
	return all
}

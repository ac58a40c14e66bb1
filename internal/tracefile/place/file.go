package place

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// File is the trace file of one process. Its exported fields are for the function passed
// to Store.With.
type File[K comparable] struct {
	Key       K
	Writer    *dftracer.Writer
	Assembler *Assembler
	Names     Names

	// Protected by the mutex of the store.
	group      string
	born, used time.Time // of the first and the latest batch
	slot       bool      // the file may be open
	next, prev *File[K]  // in the list of recently used files

	mu    sync.Mutex
	state state
	lost  uint64 // lost lines already reported to Watcher.Counted
	size  int64  // memory already counted in Store.bytes
}

// Open reports whether the file is open: not new, suspended or complete.
func (f *File[K]) Open() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state == stateOpen
}

// state is the state of a file.
type state uint8

const (
	stateNew    state = iota // the file does not exist yet
	stateOpen                // the file is open
	stateAside               // the file is suspended: closed, and opened again for new spans
	stateClosed              // the file is complete and accepts no more spans
)

// list is a linked list of files, most recently used first.
type list[K comparable] struct{ first, last *File[K] }

func (l *list[K]) front(f *File[K]) {
	if l.first == f {
		return
	}
	l.take(f)
	if f.next = l.first; f.next != nil {
		f.next.prev = f
	} else {
		l.last = f
	}
	l.first = f
}

func (l *list[K]) take(f *File[K]) {
	if f.prev != nil {
		f.prev.next = f.next
	} else if l.first == f {
		l.first = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	} else if l.last == f {
		l.last = f.prev
	}
	f.next, f.prev = nil, nil
}

// slots holds the files that may be open.
type slots[K comparable] struct{ files []*File[K] }

func (s *slots[K]) take(f *File[K]) {
	f.slot = true
	s.files = append(s.files, f)
}

func (s *slots[K]) release(f *File[K]) {
	f.slot = false
	for i, o := range s.files {
		if o == f {
			last := len(s.files) - 1
			s.files[i], s.files[last] = s.files[last], nil
			s.files = s.files[:last]
			return
		}
	}
}

// silence is the time without spans after which a process counts as silent. SDKs send
// every few seconds.
const silence = time.Minute

// victim returns the file to suspend: the least recently used one if its process is
// silent, or else a random one. Always choosing the least recently used file is bad for
// processes that take turns: each finds its file just suspended.
func (s *slots[K]) victim(now time.Time) *File[K] {
	oldest := s.files[0]
	for _, f := range s.files {
		if f.used.Before(oldest.used) {
			oldest = f
		}
	}
	if now.Sub(oldest.used) > silence {
		return oldest
	}
	return s.files[rand.IntN(len(s.files))]
}

package place

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// File is the file of one process. Its exported fields are for the function
// that With calls.
type File[K comparable] struct {
	Key       K
	Writer    *dftracer.Writer
	Assembler *Assembler
	Names     Names

	// Under the lock of the store.
	group      string
	used       time.Time
	slot       bool     // it may be open
	next, prev *File[K] // by the time of use

	mu    sync.Mutex
	state state
	lost  uint64 // lines that were counted
	size  int64  // bytes that the store counts
}

// Open reports whether the file is open, and not complete or closed for now.
func (f *File[K]) Open() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state == stateOpen
}

// state is what becomes of a file.
type state uint8

const (
	stateNew    state = iota // there is none
	stateOpen                // it is open
	stateAside               // it was put aside
	stateClosed              // it is complete and takes nothing any more
)

// list has files, the one used last in front.
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

// slots has the files that may be open.
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

// silence is after how long a process counts as silent. SDKs send every few seconds.
const silence = time.Minute

// victim chooses the file that is put aside: the one used longest ago if its
// process is silent, or else any. Were it the oldest then, too, processes that
// take turns would each find their file just put aside.
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

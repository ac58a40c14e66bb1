package pytorch

import (
	"encoding/binary"

	"github.com/trainspan/trainspan/internal/spill"
)

// A phase owns the device work that any thread of its process launched inside
// it: backward runs on threads of autograd's own.

// share is device time and what it belongs to: the moment of its launch, or the
// number of the row that launched it. comm is the part that a collective took.
type share struct{ of, time, comm int64 }

// launched is the device time that was launched in an interval, and the
// part of it that collectives took, with their waits for other ranks.
type launched struct{ time, comm int64 }

func (l launched) since(o launched) launched { return launched{l.time - o.time, l.comm - o.comm} }

func shareCodec() spill.Codec[share] {
	return spill.Codec[share]{
		Key: func(s *share) spill.Key { return spill.Key{First: s.of} },
		Append: func(dst []byte, s *share) []byte {
			return binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(dst, s.of), s.time), s.comm)
		},
		Decode: func(src []byte, s *share) error {
			d := rowReader{b: src}
			if s.of, s.time, s.comm = d.int(), d.int(), d.int(); d.bad {
				return errRow
			}
			return nil
		},
	}
}

// launchSum adds up device time by launch. Asked for times that do not go
// back, it reads the launches once.
type launchSum struct {
	from *spill.Sorter[share]
	it   *spill.Iter[share]
	next *share
	at   int64 // of the last question
	sum  launched
	runs int // how often the launches were read
}

// maxSums is on how many lanes phases get device time: for each the launches are
// read again.
const maxSums = 64

// until returns the device time, in nanoseconds, launched before t.
func (l *launchSum) until(t int64) launched {
	if l.from.Len() == 0 {
		return launched{}
	}
	if l.it == nil || t < l.at {
		if l.runs++; l.runs > maxSums {
			l.at, l.next, l.sum = t, nil, launched{}
			return launched{}
		}
		l.it, l.sum = l.from.Iter(), launched{}
		l.next = l.it.Next()
	}
	l.at = t
	for l.next != nil && l.next.of < t {
		l.sum.time += l.next.time
		l.sum.comm += l.next.comm
		l.next = l.it.Next()
	}
	return l.sum
}

func (l *launchSum) err() error {
	if l.it == nil {
		return nil
	}
	return l.it.Err()
}

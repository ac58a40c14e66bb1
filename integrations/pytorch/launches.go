package pytorch

import "github.com/trainspan/trainspan/internal/spill"

// A phase owns the device work that any thread of its process launched inside
// it: backward runs on threads of autograd's own.

// launchSum adds up device time by launch. Asked for times that do not go
// back, it reads the launches once.
type launchSum struct {
	p    *process
	it   *spill.Iter[row]
	next *row
	at   int64 // of the last question
	sum  int64
}

// until returns the device time, in nanoseconds, launched before t.
func (l *launchSum) until(t int64) int64 {
	if l.p == nil || l.p.launches.Len() == 0 {
		return 0
	}
	if l.it == nil || t < l.at {
		l.it, l.sum = l.p.launches.Iter(), 0
		l.next = l.it.Next()
	}
	l.at = t
	for l.next != nil && l.next.launch < t {
		l.sum += l.next.end - l.next.start
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

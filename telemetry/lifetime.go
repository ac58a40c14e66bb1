package telemetry

import (
	"fmt"
	"sync/atomic"
)

// lifetime runs a function once, for any number of callers, who all wait for it.
type lifetime struct {
	state atomic.Pointer[life]
}

type life struct {
	done chan struct{}
	err  error
}

func (l *lifetime) end(f func() error) (err error) {
	mine := &life{done: make(chan struct{})}
	if !l.state.CompareAndSwap(nil, mine) {
		other := l.state.Load()
		<-other.done
		return other.err
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("telemetry: shutdown panicked: %v", p)
		}
		mine.err = err
		close(mine.done)
	}()
	return f()
}

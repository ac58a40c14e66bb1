package pfw

import (
	"sync"
	"time"
)

// watcher writes the begin of everything that stays open for long. The zero value
// watches nothing.
type watcher struct {
	stop chan struct{}
	done sync.WaitGroup
}

func (w *watcher) start(d *desk, files *fileLog) {
	w.stop = make(chan struct{})
	w.done.Go(func() {
		t := time.NewTicker(max(d.opts.BeginAfter/2, time.Millisecond))
		defer t.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-t.C:
				d.beginOld(d.clock.now() - d.opts.BeginAfter.Microseconds())
				files.flush(d.clock.now() / 1e6)
			}
		}
	})
}

func (w *watcher) end() {
	if w.stop != nil {
		close(w.stop)
		w.done.Wait()
	}
}

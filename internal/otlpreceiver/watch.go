package otlpreceiver

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/internal/assemble"
)

// watcher counts what the store of Files tells it.
type watcher struct {
	log                       *slog.Logger
	processes, reopened, lost atomic.Int64

	mu     sync.Mutex
	counts assemble.Counts
}

var _ assemble.Watcher = (*watcher)(nil)

// Counted implements [assemble.Watcher], as the others do.
func (w *watcher) Counted(c assemble.Counts, lost uint64) {
	w.lost.Add(int64(lost)) //nolint:gosec // lines
	w.mu.Lock()
	w.counts.Add(c)
	w.mu.Unlock()
}

// Opened counts files.
func (w *watcher) Opened(again bool) {
	if again {
		w.reopened.Add(1)
	} else {
		w.processes.Add(1)
	}
}

// Closed counts nothing.
func (*watcher) Closed() {}

// Outage counts nothing: the writer's own message says it.
func (*watcher) Outage() {}

// Log logs for the receiver.
func (w *watcher) Log(level slog.Level, message string, args ...any) {
	w.log.Log(context.Background(), level, "OTLP receiver: "+message, args...)
}

// total is what was counted in all files so far.
func (w *watcher) total() assemble.Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

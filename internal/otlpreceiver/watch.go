package otlpreceiver

import (
	"context"
	"log/slog"

	"github.com/trainspan/trainspan/internal/assemble"
)

// watcher is what the store of Files tells it.
type watcher struct{ f *Files }

var _ assemble.Watcher = watcher{}

func (w watcher) Counted(c assemble.Counts, lost uint64) {
	w.f.lost.Add(int64(lost)) //nolint:gosec // lines
	w.f.mu.Lock()
	w.f.counts.Add(c)
	w.f.mu.Unlock()
}

func (w watcher) Opened(again bool) {
	if again {
		w.f.reopened.Add(1)
	} else {
		w.f.processes.Add(1)
	}
}

func (watcher) Closed() {}

func (watcher) Outage() {}

func (w watcher) Log(level slog.Level, message string, args ...any) {
	w.f.o.Logger.Log(context.Background(), level, "OTLP receiver: "+message, args...)
}

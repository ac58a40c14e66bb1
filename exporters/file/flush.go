package file

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Open implements outputs.Output: it opens the file. An exporter can be
// attached again after its Shutdown. Records have the attempt of the identity;
// heartbeats also have its job and session tag.
func (e *Exporter) Open(_ context.Context, t *outputs.Telemetry) (outputs.Traits, error) {
	return outputs.Traits{Ordered: true, Inline: true}, e.start(t)
}

// reports returns the functions that report outages and changed paths.
func (e *Exporter) reports(log *slog.Logger) (onError func(error), onPath func(string)) {
	if log == nil {
		log = slog.Default()
	}
	if onError = e.options.OnError; onError == nil {
		onError = func(err error) { log.Warn("telemetry cannot write JSON lines", "error", err, "see", helptopic.File) }
	}
	if onPath = e.options.OnPath; onPath == nil {
		onPath = func(path string) {
			log.Info("telemetry writes JSON lines to another file", "path", path, "asked", e.path)
		}
	}
	return onError, onPath
}

func (e *Exporter) start(t *outputs.Telemetry) error {
	id := t.Identity
	onError, onPath := e.reports(t.Logger)
	e.life.Lock()
	defer e.life.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.started {
		return errors.New("file: the exporter is already started: create one per builder")
	}
	out, asked, err := open(e.path, id, e.options.Append)
	if err != nil {
		return fmt.Errorf("file: %w", err)
	}
	missing := repair(out)
	if e.now = t.Now; e.now == nil {
		e.now = func() int64 { return time.Now().UnixNano() }
	}
	sink, err := fswrite.New(out, fswrite.Options{
		Now:    func() time.Time { return time.Unix(0, e.now()) },
		Format: format{e}, Hold: e.options.StallMemory, Wait: e.options.StallWait,
		OnError:  func(err error) { onError(fmt.Errorf("file: %w", err)) },
		OnPath:   onPath,
		Unwanted: func(p fswrite.Part) bool { return p.Lines == 0 && p.Lost == 0 && out.Size() == 0 },
	})
	if err != nil {
		return fmt.Errorf("file: %w", err)
	}
	if got := out.Path(); got != asked && got != "" {
		onPath(got)
	}
	e.sink, e.started, e.closed, e.open = sink, true, false, true
	e.blocked.Store(0)
	e.enc = newEncoder(id, e.options.Compat)
	e.buf, e.lines, e.records, e.gaps, e.pending = e.buf[:0], 0, 0, nil, nil
	if missing {
		sink.Put([]byte{'\n'}, 0, 0)
	}
	if e.options.FlushInterval > 0 || e.options.Heartbeat > 0 {
		e.stop, e.done = make(chan struct{}), make(chan struct{})
		go e.flusher(e.stop, e.done)
	}
	return nil
}

// flusher passes the buffer on at intervals, and at once when it is woken, and
// writes the heartbeats. It never waits for the file.
func (e *Exporter) flusher(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	flush, stopFlush := ticker(e.options.FlushInterval)
	defer stopFlush()
	beat, stopBeat := ticker(e.options.Heartbeat)
	defer stopBeat()
	for {
		select {
		case <-stop:
			return
		case <-e.wake:
		case <-flush:
		case <-beat:
			e.heartbeat()
		}
		e.mu.Lock()
		e.hand()
		sink := e.sink
		e.mu.Unlock()
		sink.Check()
	}
}

// ticker returns a ticker and its stop function. An interval of zero or less
// never ticks.
func ticker(every time.Duration) (<-chan time.Time, func()) {
	if every <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(every)
	return t.C, t.Stop
}

func (e *Exporter) heartbeat() {
	now := e.now() // the program's clock, which may call telemetry
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open {
		e.buf = e.enc.heartbeat(e.buf, now)
		e.encoded()
	}
}

// Flush writes what is held in memory, except for a start that Compat holds
// back. If the file takes nothing, it returns the reason and keeps the records.
func (e *Exporter) Flush() error { return e.ForceFlush(context.Background()) }

// ForceFlush implements outputs.Output. It is Flush with a context.
func (e *Exporter) ForceFlush(ctx context.Context) error {
	e.mu.Lock()
	sink := e.sink
	if !e.open {
		e.mu.Unlock()
		return nil
	}
	e.hand()
	e.mu.Unlock()
	if err := sink.Flush(ctx, false); err != nil {
		return fmt.Errorf("file: %w", err)
	}
	return nil
}

// format writes the records of losses.
type format struct{ e *Exporter }

func (format) Begin(fswrite.Part) fswrite.Block { return fswrite.Block{} }
func (format) Encode(data []byte) []byte        { return data }
func (format) End(fswrite.Part) fswrite.Block   { return fswrite.Block{} }

// Gap leaves the record to the next call that passes on the buffer, so that
// records are in the order of their counts. At the end it writes the record
// itself.
func (f format) Gap(g fswrite.Gap) fswrite.Block {
	e := f.e
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.options.Compat:
		return fswrite.Block{}
	case e.open:
		e.gaps = append(e.gaps, g)
		select {
		case e.wake <- struct{}{}:
		default:
		}
		return fswrite.Block{}
	}
	e.records++
	return fswrite.Block{Data: e.enc.gap(nil, g), Lines: 1}
}

// Shutdown implements outputs.Output: it writes what is held back and closes
// the file. It returns when ctx ends; what is not in the file then is lost, and
// counted. A second Shutdown does nothing.
func (e *Exporter) Shutdown(ctx context.Context) error {
	e.life.Lock()
	defer e.life.Unlock()
	e.mu.Lock()
	e.closed = true
	if !e.started {
		e.mu.Unlock()
		return nil
	}
	e.release()
	e.hand()
	e.open = false
	sink, stop, done := e.sink, e.stop, e.done
	e.stop, e.done = nil, nil
	e.mu.Unlock()
	if stop != nil {
		close(stop)
		<-done
	}
	err := sink.Close(ctx)
	e.mu.Lock()
	e.started, e.buf = false, nil
	e.mu.Unlock()
	if err != nil {
		return fmt.Errorf("file: close %s: %w (%d records are lost)", sink.Path(), err, sink.Stats().Lost)
	}
	return nil
}

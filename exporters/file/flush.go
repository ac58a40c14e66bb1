package file

import (
	"context"
	"fmt"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/attrvalue"
	"github.com/trainspan/trainspan/internal/grammar"
	"github.com/trainspan/trainspan/internal/outfile"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// flusher hands on the buffer at intervals, and at once when it is woken, and
// writes the signs of life. It never waits for the file.
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

// ticker is none for an interval that is not above zero.
func ticker(every time.Duration) (<-chan time.Time, func()) {
	if every <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(every)
	return t.C, t.Stop
}

func (e *Exporter) heartbeat() {
	now := e.now() // the program's clock, which may use telemetry
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open {
		e.buf = e.enc.heartbeat(e.buf, now)
		e.encoded()
	}
}

// Flush writes what is held in memory, except for a start that Compat holds
// back. It returns why the file takes nothing, if that is so; the records are
// still held then.
func (e *Exporter) Flush() error { return e.ForceFlush(context.Background()) }

// ForceFlush implements outputs.Output. It is Flush until ctx is done.
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

// format tells in the file what is missing there.
type format struct{ e *Exporter }

func (format) Begin(outfile.Part) outfile.Block { return outfile.Block{} }
func (format) Encode(data []byte) []byte        { return data }
func (format) End(outfile.Part) outfile.Block   { return outfile.Block{} }

// Gap leaves the record to the next that hands on the buffer, so that records
// are in the order of their counts. At the end nobody does.
func (f format) Gap(g outfile.Gap) outfile.Block {
	e := f.e
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.options.Compat:
		return outfile.Block{}
	case e.open:
		e.gaps = append(e.gaps, g)
		select {
		case e.wake <- struct{}{}:
		default:
		}
		return outfile.Block{}
	}
	e.records++
	return outfile.Block{Data: e.appendGap(nil, g), Lines: 1}
}

func (e *Exporter) appendGap(dst []byte, g outfile.Gap) []byte {
	return e.enc.dataError(dst, &outputs.Event{
		Name: spans.EventTelemetryDataError,
		Time: g.To.UnixNano(),
		Attributes: []attributes.Attr{
			attrvalue.String(grammar.ErrorMessage, fmt.Sprintf("records are missing: %v", g.Cause)),
			attrvalue.String(grammar.TelemetryDataErrorType, grammar.IncompleteTelemetryData),
			attrvalue.Int(grammar.LostRecords, int64(g.Lines)),
		},
	})
}

// Shutdown implements outputs.Output: it writes what is held back and
// closes the file. It ends with ctx; what is not in the file then is lost, and
// counted. A second Shutdown does nothing.
func (e *Exporter) Shutdown(ctx context.Context) error {
	e.life.Lock()
	defer e.life.Unlock()
	e.mu.Lock()
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

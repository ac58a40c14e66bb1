package file

import (
	"context"
	"fmt"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// flusher writes the buffer at intervals, and at once when it is woken.
func (e *Exporter) flusher(every time.Duration, stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-e.wake:
		case <-tick.C:
		}
		_ = e.flush() // kept, and told at the next Export
	}
}

// Flush writes what is held in memory, except for a start that Compat holds
// back. After an error the records are still held.
func (e *Exporter) Flush() error { return e.flush() }

// ForceFlush implements outputs.Output.
func (e *Exporter) ForceFlush(context.Context) error { return e.flush() }

func (e *Exporter) flush() error {
	e.writing.Lock()
	defer e.writing.Unlock()
	return e.write()
}

// write writes the buffer; the caller holds writing. While it waits for the
// disk, records go into the other buffer. What could not be written stays, in
// front of what came since: the next write begins where this one stopped, in
// the middle of a line even.
func (e *Exporter) write() error {
	for {
		e.mu.Lock()
		out, f := e.buf, e.file
		if len(out) == 0 || f == nil {
			e.mu.Unlock()
			return nil
		}
		e.buf, e.spare, e.held = e.spare[:0], nil, len(out)
		e.mu.Unlock()

		n, err := f.Write(out)

		e.mu.Lock()
		e.held = 0
		e.stats.Bytes += int64(n)
		if err != nil {
			e.stats.Errors++
			e.spare = e.buf
			e.buf = append(out[:copy(out, out[n:])], e.buf...)
			if e.err == nil {
				e.err, e.told = fmt.Errorf("file: %w", err), false
			}
			err = e.err
			e.mu.Unlock()
			return err
		}
		if e.spare = out[:0]; cap(out) > 4*writeAt {
			e.spare = nil
		}
		again := e.err != nil && e.recovered(f.Name())
		e.mu.Unlock()
		if !again {
			return nil
		}
	}
}

// recovered ends an outage. The file says how much of it is missing; recovered
// tells whether there is such a record to write.
func (e *Exporter) recovered(name string) bool {
	message := fmt.Sprintf("writing %s failed for a while: %v", name, e.err)
	lost := e.lost
	e.err, e.told, e.lost = nil, false, 0
	if lost == 0 || e.options.Compat {
		return false
	}
	e.buf = e.enc.dataError(e.buf, &outputs.Event{
		Name: spans.EventTelemetryDataError,
		Time: time.Now().UnixNano(),
		Attributes: []attributes.Attr{
			attributes.String(attributes.ErrorMessage, message),
			attributes.String(attributes.TelemetryDataErrorType, attributes.IncompleteTelemetryData),
			attributes.Int(attributes.LostRecords, lost),
		},
	})
	e.stats.Records++
	return true
}

// Shutdown implements outputs.Output: it writes what is held back and
// closes the file. What the disk does not take then is lost. A second Shutdown
// does nothing.
func (e *Exporter) Shutdown(context.Context) error {
	e.life.Lock()
	defer e.life.Unlock()
	e.mu.Lock()
	f := e.file
	if f == nil {
		e.mu.Unlock()
		return nil
	}
	e.release()
	e.open = false
	stop, done := e.stop, e.done
	e.stop, e.done = nil, nil
	e.mu.Unlock()
	if stop != nil {
		close(stop)
		<-done
	}
	err := e.flush()
	if err != nil {
		mend(f)
		e.mu.Lock()
		err = fmt.Errorf("%w (%d bytes of telemetry and %d records before them are lost)", err, len(e.buf), e.lost)
		e.mu.Unlock()
	}
	e.mu.Lock()
	e.file, e.buf, e.spare = nil, nil, nil
	e.mu.Unlock()
	if closed := f.Close(); closed != nil && err == nil {
		err = fmt.Errorf("file: %w", closed)
	}
	return err
}

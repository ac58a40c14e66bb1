package file

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

// flusher writes the buffer at intervals, and at once when it is woken.
func (e *Exporter) flusher(every time.Duration, wake, stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-wake:
		case <-tick.C:
		}
		_ = e.flush() // kept, and told at the next Export
	}
}

// Flush writes what is held in memory, except for a start that Compat holds
// back.
func (e *Exporter) Flush() error { return e.flush() }

// flush writes the buffer. While it waits for the disk, records go into the
// other buffer. What could not be written stays, in front of what came since.
func (e *Exporter) flush() error {
	e.writing.Lock()
	defer e.writing.Unlock()
	e.mu.Lock()
	out, f := e.buf, e.file
	if len(out) == 0 || f == nil {
		e.mu.Unlock()
		return nil
	}
	e.buf, e.spare = e.spare[:0], nil
	e.mu.Unlock()

	n, err := f.Write(out)

	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.Bytes += int64(n)
	if err != nil {
		e.stats.Errors++
		e.buf = append(append(make([]byte, 0, len(out)-n+len(e.buf)), out[n:]...), e.buf...)
		if e.err == nil {
			e.err, e.told = fmt.Errorf("file: %w", err), false
		}
		if e.options.FlushInterval < 0 { // the caller is told here and now
			e.told = true
		}
		return e.err
	}
	e.spare = out[:0]
	if cap(e.spare) > 2*writeAt {
		e.spare = nil
	}
	if e.err != nil {
		e.recovered(f.Name())
	}
	return nil
}

// recovered ends an outage. The file says how much of it is missing.
func (e *Exporter) recovered(name string) {
	message := fmt.Sprintf("writing %s failed for a while: %v", name, e.err)
	lost := e.lost
	e.err, e.told, e.lost = nil, false, 0
	if lost == 0 || e.options.Compat {
		return
	}
	e.buf = e.enc.dataError(e.buf, &telemetry.Event{
		Name: spans.EventTelemetryDataError,
		Time: time.Now().UnixNano(),
		Attributes: []attributes.Attr{
			attributes.String(attributes.ErrorMessage, message),
			attributes.String(attributes.TelemetryDataErrorType, attributes.IncompleteTelemetryData),
			attributes.Int(attributes.LostRecords, lost),
		},
	})
}

// Shutdown implements telemetry.Exporter: it writes what is held back and
// closes the file.
func (e *Exporter) Shutdown(context.Context) error {
	e.mu.Lock()
	if e.file == nil {
		e.mu.Unlock()
		return nil
	}
	e.release()
	stop, done := e.stop, e.done
	e.stop, e.done = nil, nil
	e.mu.Unlock()
	if stop != nil {
		close(stop)
		<-done
	}
	err := e.flush()
	e.mu.Lock()
	defer e.mu.Unlock()
	var f *os.File
	f, e.file = e.file, nil
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("%w (%d bytes of telemetry are lost)", err, len(e.buf))
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("file: %w", err)
	}
	return nil
}

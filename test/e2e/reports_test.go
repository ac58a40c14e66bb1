package e2e

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"sync"
)

// reports keeps the log lines of telemetry about itself, as JSON.
type reports struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *reports) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write implements io.Writer.
func (r *reports) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *reports) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// line is a log line about losses.
type line struct {
	Spans   int64           `json:"spans"`
	Records int64           `json:"log_records"`
	Cause   string          `json:"cause"`
	Causes  json.RawMessage `json:"causes"`
}

func (r *reports) lines() (all []line) {
	text := json.NewDecoder(bytes.NewBufferString(r.String()))
	for {
		var l line
		if err := text.Decode(&l); err != nil {
			return all
		}
		all = append(all, l)
	}
}

// lost adds up the spans in the warnings at losses, and those in the one
// line at shutdown.
func (r *reports) lost() (single, atEnd int64) {
	for _, l := range r.lines() {
		if l.Cause != "" {
			single += l.Spans
		} else if l.Causes != nil {
			atEnd += l.Spans
		}
	}
	return single, atEnd
}

// lostRecords returns the number of log records in the line at shutdown.
func (r *reports) lostRecords() (n int64) {
	for _, l := range r.lines() {
		n += l.Records
	}
	return n
}

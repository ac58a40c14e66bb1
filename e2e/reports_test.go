package e2e

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"sync"
)

// reports keeps what telemetry logs about itself, as JSON lines.
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

// lost adds up the spans of the warnings that were given as spans were lost,
// and those of the one line at shutdown.
func (r *reports) lost() (single, atEnd int64) {
	lines := json.NewDecoder(bytes.NewBufferString(r.String()))
	for {
		var line struct {
			Spans int64           `json:"spans"`
			Cause string          `json:"cause"`
			All   json.RawMessage `json:"causes"`
		}
		if err := lines.Decode(&line); err != nil {
			return single, atEnd
		}
		if line.Cause != "" {
			single += line.Spans
		} else if line.All != nil {
			atEnd += line.Spans
		}
	}
}

package pyring

import (
	"log/slog"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/otlp"
	"go.opentelemetry.io/otel/trace"
)

// Options sets where ring buffers are and what is made of them.
type Options struct {
	// Dir is the folder in which processes make ring buffers, or several as in
	// PATH. Import ignores it.
	Dir string
	// Out is the folder for the output; it is created if it is missing. Existing
	// files are not changed. If it is empty, Import uses the folder of each ring
	// buffer.
	Out string

	// Job and Attempt are used for processes whose launcher does not set them.
	// Attempt counts from zero; a negative value is unknown.
	Job     string
	Attempt int

	// Trace configures the trace files, except for the process's identity. Nil
	// means the defaults, with gzip level 1.
	Trace *dftracer.Options

	// Config returns the configuration for sending a process's telemetry, based on
	// the program's own: OTLP, Prometheus, the export customization and the
	// resource, as for a Go program. The files are always those of Out. Nil sends
	// nothing.
	Config func(code config.Config) (config.Config, error)
	// OTLP, if not nil, changes the settings of the OTLP output.
	OTLP func(*otlp.Config)
	// Parent is the span that the job belongs to, see TRACEPARENT; an invalid one
	// means none.
	Parent trace.SpanContext

	// Log is used for problems. Nil means slog.Default.
	Log *slog.Logger
}

func (o Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.Default()
	}
	return o.Log
}

// Stats are counts over all processes.
type Stats struct {
	Processes int   `json:"processes"` // processes with a ring buffer
	Spans     int64 `json:"spans"`     // spans read
	Again     int64 `json:"again"`     // spans left out, because an earlier reader had written them
	Lost      int64 `json:"lost"`      // slots that were overwritten before they were read and written, and lines of files that are gone
	Waiting   int64 `json:"waiting"`   // spans that could not be written and stay in their ring buffer, for Import
	Bad       int64 `json:"bad"`       // invalid slots and lines
	Open      int64 `json:"open"`      // spans that were open when their process ended
	Calls     int64 `json:"calls"`     // of one-logger's callbacks
	Errors    int   `json:"errors"`    // ring buffers that could not be read completely

	// Delivery counts what was sent.
	Delivery Delivery `json:"delivery"`

	// Files are the written traces and JSON lines.
	Files []string `json:"files"`
}

// Delivery counts what was to be sent. Spans that are neither Sent, nor Spilled
// to a directory for later, nor Lost are being sent.
type Delivery struct {
	Spans          int64 `json:"spans"`
	Sent           int64 `json:"sent"`
	Spilled        int64 `json:"spilled"`
	Lost           int64 `json:"lost"`
	LogRecords     int64 `json:"log_records"`
	LostLogRecords int64 `json:"lost_log_records"`
	// Causes counts the Lost spans by cause.
	Causes map[string]int64 `json:"causes,omitempty"`
}

func (d *Delivery) add(o Delivery) {
	d.Spans += o.Spans
	d.Sent += o.Sent
	d.Spilled += o.Spilled
	d.Lost += o.Lost
	d.LogRecords += o.LogRecords
	d.LostLogRecords += o.LostLogRecords
	for cause, n := range o.Causes {
		if d.Causes == nil {
			d.Causes = make(map[string]int64)
		}
		d.Causes[cause] += n
	}
}

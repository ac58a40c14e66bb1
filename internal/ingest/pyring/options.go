package pyring

import (
	"log/slog"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/otlp"
	"go.opentelemetry.io/otel/trace"
)

// Options says where rings are and what is made of them.
type Options struct {
	// Dir is the folder in which processes make rings, or several as in PATH.
	// Import does not look at it.
	Dir string
	// Out is the folder for what is written; it is made if it is missing.
	// Existing files are left alone. Import takes the folder of each ring if it is
	// empty.
	Out string

	// Job and Attempt are those of processes whose launcher says nothing
	// else. Attempt counts from zero; a negative one is unknown.
	Job     string
	Attempt int

	// Trace configures the trace files, but for what the process says about
	// itself. Nil is the default, at gzip level 1.
	Trace *dftracer.Options

	// Config returns the configuration of what is sent of a process, over what the
	// program itself says: OTLP, Prometheus, the export customization and the resource,
	// as a Go program has them. Its files are those of Out whatever that says of
	// files. Nil sends nothing.
	Config func(code config.Config) (config.Config, error)
	// OTLP may change the settings of the OTLP output. Nil leaves them.
	OTLP func(*otlp.Config)
	// Parent is the span that the job belongs to, see TRACEPARENT; an invalid one
	// is none.
	Parent trace.SpanContext

	// Log gets what goes wrong. Nil is slog.Default.
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
	Processes int   `json:"processes"` // whose rings were read
	Spans     int64 `json:"spans"`     // read
	Again     int64 `json:"again"`     // of those, left out: an earlier reader of the ring had written them
	Lost      int64 `json:"lost"`      // slots that were overwritten before they were read and written, and lines of files that are gone
	Waiting   int64 `json:"waiting"`   // spans that could not be written and are in their ring, for Import
	Bad       int64 `json:"bad"`       // slots and lines that cannot be true
	Open      int64 `json:"open"`      // spans that had not ended when their process was gone
	Calls     int64 `json:"calls"`     // of one-logger's callbacks
	Errors    int   `json:"errors"`    // rings that could not be read to their end

	// Delivery is what became of what was sent.
	Delivery Delivery `json:"delivery"`

	// Files are the traces and JSON lines that were written.
	Files []string `json:"files"`
}

// Delivery are counts of what was to be sent. Spans that are neither Sent, nor
// Spilled to a directory for later, nor Lost are on their way.
type Delivery struct {
	Spans          int64 `json:"spans"`
	Sent           int64 `json:"sent"`
	Spilled        int64 `json:"spilled"`
	Lost           int64 `json:"lost"`
	LogRecords     int64 `json:"log_records"`
	LostLogRecords int64 `json:"lost_log_records"`
	// Causes says of the spans that are Lost why.
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

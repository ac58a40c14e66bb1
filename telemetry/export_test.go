package telemetry

import (
	"time"

	"github.com/trainspan/trainspan/internal/record/segment"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// JobIDs are those of a process, and ErrNotConfigured the answer of none.
var (
	JobIDs           = jobIDs
	ErrNotConfigured = errNotConfigured
)

// Rotate cuts the long spans of a provider as its background goroutine does.
func (p *Provider) Rotate(now time.Time) {
	for out := range p.hub.Outputs {
		if e, ok := out.(*segment.Exporter); ok {
			e.Rotate(now)
		}
	}
}

// Held counts what the exporters of a provider remember of open spans.
func (p *Provider) Held() (n int) {
	for out := range p.hub.Outputs {
		if e, ok := out.(*segment.Exporter); ok {
			n += e.Held()
		}
	}
	return n + p.hub.Held()
}

// Files returns the counts of the files that a provider writes.
func (p *Provider) Files(add func(outputs.FileStats)) {
	for s := range p.hub.Stats {
		if s.File.Output != "" {
			add(s.File)
		}
	}
}

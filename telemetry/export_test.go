package telemetry

import (
	"time"

	"github.com/trainspan/trainspan/internal/record/segment"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// JobIDs makes the ids of a process; ErrNotConfigured is returned without a
// provider.
var (
	JobIDs           = jobIDs
	ErrNotConfigured = errNotConfigured
)

// Rotate cuts the long spans of a provider like its background goroutine.
func (p *Provider) Rotate(now time.Time) {
	for out := range p.hub.Outputs {
		if e, ok := out.(*segment.Exporter); ok {
			e.Rotate(now)
		}
	}
}

// Held returns how many open spans the exporters of a provider remember.
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

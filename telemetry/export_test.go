package telemetry

import "time"

// Rotate cuts the long spans of a provider as its background goroutine does.
func (p *Provider) Rotate(now time.Time) {
	for _, f := range p.filters {
		f.rotate(now)
	}
}

// Held counts what the filters of a provider remember of open spans.
func (p *Provider) Held() (n int) {
	for _, f := range p.filters {
		f.mu.Lock()
		n += len(f.hidden) + len(f.moved) + len(f.long)
		f.mu.Unlock()
	}
	return n
}

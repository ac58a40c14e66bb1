package pytorch

import "github.com/trainspan/trainspan/internal/kineto"

// eventCounts counts events by category and phase. A trace has few kinds, and those
// just seen come again, so they are looked at before the map.
type eventCounts struct {
	byKind map[string]*int64
	recent [16]recentCount
	next   int
}

// recentCount is a counter that was used lately.
type recentCount struct {
	phase byte
	cat   []byte
	n     *int64
}

func (c *eventCounts) add(phase byte, cat []byte) {
	for i := range c.recent {
		if r := &c.recent[i]; r.n != nil && r.phase == phase && string(r.cat) == string(cat) {
			*r.n++
			return
		}
	}
	k := "-"
	if len(cat) > 0 {
		k, _ = kineto.Clean(cat[:min(len(cat), 48)])
	}
	k += "/"
	if phase != 0 {
		k += string(rune(phase))
	}
	if c.byKind == nil {
		c.byKind = map[string]*int64{}
	}
	if c.byKind[k] == nil {
		if len(c.byKind) > 1000 {
			k = "(other)"
		}
		if c.byKind[k] == nil {
			c.byKind[k] = new(int64)
		}
	}
	r := &c.recent[c.next%len(c.recent)]
	c.next++
	r.phase, r.cat, r.n = phase, append(r.cat[:0], cat...), c.byKind[k]
	*r.n++
}

// to puts the counts into a report.
func (c *eventCounts) to(counts map[string]int64) {
	for k, n := range c.byKind {
		counts[k] = *n
	}
}

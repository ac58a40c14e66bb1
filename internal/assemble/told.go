package assemble

import (
	"log/slog"
	"sync"
	"time"
)

// The limits of a Store that are told when they are met.
const (
	limitAttributes = iota
	limitEvents
	limitLinks
	limitLanes
	limitFiles
	limitProcesses
	limitBytes
	limitOpen
	limits
)

// messages say what a limit does.
var messages = [limits]string{
	limitAttributes: "spans, events or resources have more attributes than are kept: what is over is counted in " + ArgDroppedAttributes,
	limitEvents:     "spans have more events than are kept: what is over is counted in " + ArgDroppedEvents,
	limitLinks:      "spans have more links than are kept: what is over is counted in " + ArgDroppedLinks,
	limitLanes:      "more spans run at a time than there are lanes: what finds no room is on lane 0, where spans need not nest",
	limitFiles:      "processes that belong together have had more files than may be made for them: new ones share a file",
	limitProcesses:  "more processes send spans than are known at once: new ones share a file",
	limitBytes:      "more spans wait to be written than memory is allowed for: senders are asked to send again later",
	limitOpen:       "more processes send spans than trace files may be open: files are closed and opened again in turns",
}

// crowdedEvery is the least time between two warnings of too many open files.
const crowdedEvery = time.Minute

// told says of each limit once that it was met. The time matters only of limitOpen,
// which is told again.
type told struct {
	log func(slog.Level, string, ...any)
	see string

	mu sync.Mutex
	at [limits]time.Time
}

// once tells of a limit, unless that was done.
func (t *told) once(which, limit int, more ...any) {
	t.mu.Lock()
	last, now := t.at[which], time.Now()
	silent := !last.IsZero() && (which != limitOpen || now.Sub(last) < crowdedEvery)
	if !silent {
		t.at[which] = now
	}
	t.mu.Unlock()
	if !silent {
		t.log(slog.LevelWarn, messages[which], append([]any{"limit", limit, "see", t.see}, more...)...)
	}
}

// counted tells of the limits that spans met.
func (t *told) counted(c *Counts, l Limits) {
	if c.Cut.Attributes > 0 {
		t.once(limitAttributes, l.Attributes)
	}
	if c.Cut.Events > 0 {
		t.once(limitEvents, l.Events)
	}
	if c.Cut.Links > 0 {
		t.once(limitLinks, l.Links)
	}
	if c.SharedLane > 0 {
		t.once(limitLanes, maxLanes)
	}
}

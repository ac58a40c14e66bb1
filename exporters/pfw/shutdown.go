package pfw

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// left is something that a shutdown ends.
type left struct {
	*open
	write   func(end int64)
	pending func() bool // somebody else ends it and has not written it
	depth   int
}

// truncate writes what is still open.
func (d *desk) truncate() {
	all := d.openScopes() // that were registered meanwhile
	for _, e := range d.open.allSpans() {
		all = append(all, left{
			open: &e.open, depth: e.level(), pending: func() bool { return d.open.holdsSpan(e) },
			write: func(end int64) { d.write(e, e.span, end, true) },
		})
	}
	d.end(all)
}

// endScopes ends the scopes that are open.
func (d *desk) endScopes() { d.end(d.openScopes()) }

func (d *desk) openScopes() []left {
	var all []left
	for _, sc := range d.open.allScopes() {
		all = append(all, left{
			open: &sc.open, depth: sc.level(), pending: func() bool { return d.open.holds(sc) },
			write: func(end int64) {
				d.writeScope(sc, end, true)
				d.truncated.Add(1)
			},
		})
	}
	return all
}

// patienceForChildren bounds the wait for children that others are ending.
const patienceForChildren = 100 * time.Millisecond

// end ends all, children first. A child that somebody else is ending at the
// moment keeps its parent if it is waited for.
func (d *desk) end(all []left) {
	slices.SortFunc(all, func(a, b left) int {
		return cmp.Or(cmp.Compare(b.depth, a.depth), cmp.Compare(b.id, a.id))
	})
	now := d.clock.now()
	deadline := time.Now().Add(patienceForChildren)
	for _, l := range all {
		if l.finish(&d.beginning) {
			l.write(now)
			continue
		}
		for l.pending() && time.Now().Before(deadline) {
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// patience bounds the wait for ends without a deadline.
const patience = 10 * time.Second

// settled waits for ends that others are writing: their children may be in the
// file already.
func (d *desk) settled(ctx context.Context) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := 10 * time.Microsecond; len(d.open.allSpans())+len(d.open.allScopes()) > 0; wait = min(2*wait, time.Millisecond) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

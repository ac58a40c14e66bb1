package pytorch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/kineto"
	"github.com/trainspan/trainspan/internal/vocab"
)

// relativeBelow separates times since the start of a profiler from times
// since 1970, in microseconds: eleven days of profiling, or January 1970.
const relativeBelow = int64(1e12)

// ppProbe is how many events are compared to find the offset.
const ppProbe = 64

// PPClock is what is wrong with the PP events of a DFTracer file that a Python
// profiler handler wrote: their times count from the start of the profiler,
// beside events that count from 1970. FindPPClock makes one.
type PPClock struct {
	// Relative counts PP events on the profiler's own clock, Absolute those on
	// the wall clock.
	Relative, Absolute int64
	// Offset in microseconds makes relative times absolute; it is known when
	// Known is set, from the Matched of Compared events that a Kineto trace of
	// the same run has, too.
	Offset            int64
	Known             bool
	Matched, Compared int
}

// Warning returns a sentence for a person, empty when nothing is wrong.
func (c *PPClock) Warning() string {
	switch {
	case c.Relative == 0:
		return ""
	case c.Known:
		return fmt.Sprintf("%d PP events were on the profiler's own clock; they were moved by %d microseconds, found from %d of %d events of the Kineto trace", c.Relative, c.Offset, c.Matched, c.Compared)
	}
	return fmt.Sprintf("%d PP events are on the profiler's own clock and cannot be placed beside the others; give the Kineto trace of the same run", c.Relative)
}

// Fix moves a PP event from the profiler's clock to the wall clock and reports
// whether it did. Other events, and all events while the offset is not known,
// are left alone.
func (c *PPClock) Fix(ev *dftracer.Event) bool {
	if !c.Known || !relativePP(ev) {
		return false
	}
	ev.TS += c.Offset
	return true
}

func relativePP(ev *dftracer.Event) bool {
	return ev.Cat == "PP" && ev.Phase == dftracer.PhaseComplete && ev.TS < relativeBelow
}

// ppEvent is what both files say about an event.
type ppEvent struct {
	name    string
	ts, dur int64
}

// FindPPClock looks for PP events on the profiler's own clock in trace, a
// DFTracer file. With a Kineto trace of the same run as profile, it finds the
// offset by matching the first events by name and duration. profile may be nil.
func FindPPClock(ctx context.Context, trace Source, profile *Source) (*PPClock, error) {
	c := &PPClock{}
	probe, err := c.readTrace(ctx, trace)
	if err != nil || profile == nil || len(probe) == 0 {
		return c, err
	}
	wanted := map[string]bool{}
	for _, e := range probe {
		wanted[e.name] = true
	}
	rows, err := readProfile(ctx, *profile, wanted)
	if err != nil {
		return c, err
	}
	c.match(probe, rows)
	return c, nil
}

// readTrace counts PP events and keeps the first relative ones.
func (c *PPClock) readTrace(ctx context.Context, src Source) ([]ppEvent, error) {
	f, err := src.Open()
	if err != nil {
		return nil, fmt.Errorf("pytorch: %w", err)
	}
	defer f.Close()
	r, err := dftracer.NewReader(f, nil)
	if err != nil {
		return nil, fmt.Errorf("pytorch: %s: %w", src.Name, err)
	}
	var probe []ppEvent
	later := func(a, b ppEvent) int { return cmp.Compare(a.ts, b.ts) }
	for ev, err := range r.All() {
		if err != nil {
			return nil, fmt.Errorf("pytorch: %s: %w", src.Name, err)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		switch {
		case relativePP(ev):
			c.Relative++
			// Allocator events carry no duration to compare.
			if ev.Name != "[memory]" {
				probe = append(probe, ppEvent{strings.Clone(ev.Name), ev.TS, ev.Dur})
			}
			if len(probe) >= 4*ppProbe {
				slices.SortStableFunc(probe, later)
				probe = probe[:ppProbe]
			}
		case ev.Cat == "PP" && ev.Phase == dftracer.PhaseComplete:
			c.Absolute++
		}
	}
	slices.SortStableFunc(probe, later)
	return probe[:min(len(probe), ppProbe)], nil
}

// readProfile lists the host rows of a Kineto trace that have a wanted name.
func readProfile(ctx context.Context, src Source, wanted map[string]bool) ([]ppEvent, error) {
	f, err := src.Open()
	if err != nil {
		return nil, fmt.Errorf("pytorch: %w", err)
	}
	defer f.Close()
	var rows []ppEvent
	err = kineto.Walk(f, src.Name, func(m kineto.Member) error {
		first := len(rows)
		r := kineto.NewReader(m.Body)
		var ev kineto.Event
		for {
			err := r.Next(&ev)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if k := ev.Kind(); k != kineto.KindCPUOp && k != kineto.KindUserAnnotation || len(rows) >= 1<<20 {
				continue
			}
			name, _ := kineto.Clean(ev.Name())
			if _, step := vocab.ProfilerStepNumber(name); step {
				name = "ProfilerStep*"
			}
			if wanted[name] {
				rows = append(rows, ppEvent{name, ev.TS, ev.Dur})
			}
		}
		for i := first; i < len(rows); i++ {
			end := rows[i].ts + rows[i].dur + r.Info().Base
			rows[i].ts = (rows[i].ts + r.Info().Base) / 1000
			rows[i].dur = end/1000 - rows[i].ts
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("pytorch: %s: %w", src.Name, err)
	}
	slices.SortStableFunc(rows, func(a, b ppEvent) int { return cmp.Compare(a.ts, b.ts) })
	return rows, nil
}

// match tries every row that could be the first event and takes the offset at
// which most of the others fall on a row of their name. At least three of four
// have to, and at least three.
func (c *PPClock) match(probe, rows []ppEvent) {
	c.Compared = len(probe)
	best, bestOffset := 0, int64(0)
	for _, r := range rows {
		if r.name != probe[0].name || apart(r.dur, probe[0].dur) > 2 {
			continue
		}
		offset := r.ts - probe[0].ts
		hits := 0
		for i, e := range probe {
			if onRow(rows, e, offset) {
				hits++
			}
			if hits+len(probe)-1-i <= best {
				break
			}
		}
		if hits > best {
			best, bestOffset = hits, offset
		}
	}
	c.Matched = best
	if best >= 3 && best*4 >= len(probe)*3 {
		c.Known, c.Offset = true, bestOffset
	}
}

// maxOnRow is how many rows of one moment are looked at.
const maxOnRow = 256

// onRow reports whether a row of the name and duration of e starts within two
// microseconds of where the offset puts it.
func onRow(rows []ppEvent, e ppEvent, offset int64) bool {
	at := e.ts + offset
	i, _ := slices.BinarySearchFunc(rows, at-2, func(r ppEvent, t int64) int { return cmp.Compare(r.ts, t) })
	for most := min(len(rows), i+maxOnRow); i < most && rows[i].ts <= at+2; i++ {
		if rows[i].name == e.name && apart(rows[i].dur, e.dur) <= 2 {
			return true
		}
	}
	return false
}

func apart(a, b int64) int64 {
	if a > b {
		a, b = b, a
	}
	if a < 0 && b > math.MaxInt64+a {
		return math.MaxInt64
	}
	return b - a
}

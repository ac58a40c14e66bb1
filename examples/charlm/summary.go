package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/spans"
)

// category has the totals of one category of events in a trace.
type category struct {
	name  string
	count int
	total time.Duration // of all events; overlapping events count each
	busy  time.Duration // in which at least one event was open
}

// interval is the time of one event, in microseconds.
type interval struct{ start, end int64 }

// summarize reads a trace back. run is the time of the whole application.
func summarize(path string) (categories []category, run time.Duration, err error) {
	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	root, _ := spans.Lookup(spans.Application)
	times := make(map[string][]interval)
	for ev, err := range r.All() {
		switch {
		case err != nil:
			return nil, 0, err
		case ev.Phase != dftracer.PhaseComplete || ev.Cat == dftracer.CatDFTracer:
			continue
		case ev.Cat == root.Category:
			run += micros(ev.Dur)
		default:
			times[ev.Cat] = append(times[ev.Cat], interval{ev.TS, ev.End()})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(times)) {
		c := category{name: name, count: len(times[name])}
		for _, t := range times[name] {
			c.total += micros(t.end - t.start)
		}
		c.busy = micros(covered(times[name]))
		categories = append(categories, c)
	}
	slices.SortStableFunc(categories, func(a, b category) int { return cmp.Compare(b.busy, a.busy) })
	return categories, run, nil
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// covered returns the time that the intervals cover together. It sorts them.
func covered(times []interval) (sum int64) {
	slices.SortFunc(times, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
	var until int64
	for _, t := range times {
		if t.end > until {
			sum += t.end - max(t.start, until)
			until = t.end
		}
	}
	return sum
}

// printSummary prints how the time of the run was used: for each category the
// number of its events, their total time, and the share of the run in which it
// was busy.
func printSummary(w io.Writer, categories []category, run time.Duration) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "category\tevents\ttotal\tbusy\tof the run\t")
	for _, c := range categories {
		share := "-"
		if run > 0 {
			share = fmt.Sprintf("%.1f %%", 100*c.busy.Seconds()/run.Seconds())
		}
		fmt.Fprintf(tw, "%s\t%d\t%.3f s\t%.3f s\t%s\t\n", c.name, c.count, c.total.Seconds(), c.busy.Seconds(), share)
	}
	fmt.Fprintf(tw, "whole run\t1\t%.3f s\t%.3f s\t100.0 %%\t\n", run.Seconds(), run.Seconds())
	return tw.Flush()
}

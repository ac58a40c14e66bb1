package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// JSON writes a [Report], or a value made of parts of reports, as indented JSON.
func JSON(w io.Writer, r any) error {
	if all, ok := r.(*Report); ok {
		short := *all
		short.GPUs = all.GPUs[:min(len(all.GPUs), maxEvidence)]
		short.Resources = all.Resources[:min(len(all.Resources), maxEvidence)]
		short.Recompiled = all.Recompiled[:min(len(all.Recompiled), maxRecompiled)]
		r = &short
	}
	enc := json.NewEncoder(display.JSON(w))
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// First returns the lines of the first screen of a report: how the job ended, the diagnosis
// and its reason, the next action, where the time went, and usually at most ten further lines.
// columns is limited to the range 40 to 100. Lines are at most that wide, and words are not
// broken.
func (r *Report) First(columns int) []string {
	s := &screen{columns: min(max(columns, minColumns), maxColumns)}
	s.first(r)
	return s.lines
}

// Screen returns the lines of the first screen and of all tables, for a terminal with that
// many columns. columns is limited to the range 40 to 100. Words are not broken. On a narrow
// terminal, sentences take more lines, and tables omit their least important columns.
func (r *Report) Screen(columns int) []string {
	s := &screen{columns: min(max(columns, minColumns), maxColumns), all: true}
	s.first(r)
	if r.Profile != nil {
		s.profile(r.Profile)
	} else {
		s.ledger(r)
		s.attempts(r)
	}
	s.ranks(r)
	s.steps(r)
	s.checkpoints(r)
	s.io(r.IO)
	s.evidence(r)
	s.quality(r)
	return s.lines
}

func (s *screen) ledger(r *Report) {
	if r.Ledger.Wall == 0 {
		return
	}
	ranks := int64(max(len(r.Ranks), 1))
	title := fmt.Sprintf("WHERE %s WENT", display.Duration(r.Ledger.Wall))
	if ranks > 1 {
		title += fmt.Sprintf(" (mean of %d ranks)", ranks)
	}
	s.head(title)
	row := func(name string, share float64, ns int64) { s.part(name, share, ns/ranks) }
	list := r.Shares
	if list == nil { // the time in steps is unknown
		for _, l := range r.Losses {
			list = append(list, Share{Name: PartName(string(l.Category)), Time: l.Time, Share: l.Share})
		}
	}
	const most = 10
	for i, l := range list {
		if i == most-1 && len(list) > most {
			var rest Share
			for _, o := range list[i:] {
				rest.Time, rest.Share = rest.Time+o.Time, rest.Share+o.Share
			}
			row(fmt.Sprintf("%d others", len(list)-i), rest.Share, rest.Time)
			break
		}
		row(l.Name, l.Share, l.Time)
	}
	if r.Goodput != nil {
		s.line("  in steps %s: compute, communication, other code and waits in them", display.Percent(*r.Goodput))
	}
}

// lasted returns how long the attempt took: a range if its last records are missing.
func (a *Attempt) lasted() string { return durationRange(a.Stop-a.Start, a.Latest-a.Start) }

func (s *screen) attempts(r *Report) {
	if len(r.Attempts) == 0 {
		return
	}
	t := &display.Table{Heads: []string{"<ATTEMPTS", "began", "lasted", "<steps", "in steps", "<end"}, Drop: []string{"began", "lasted"}}
	const most = 4
	list := r.Attempts
	if len(list) > most {
		list = append(slices.Clone(list[:1]), list[len(list)-most+1:]...)
	}
	for i := range list {
		a := &list[i]
		steps := "none"
		if a.FirstStep >= 0 {
			steps = fmt.Sprintf("%d … %d", a.FirstStep, a.LastStep)
		}
		name := "?"
		if a.Number > 0 {
			name = strconv.Itoa(a.Number)
		}
		t.Add("  "+name, "+"+display.Duration(a.Start-r.Ledger.From), a.lasted(), steps, percentOrUnknown(a.Goodput), display.Text(a.End()))
	}
	s.lines = append(s.lines, "")
	s.table(t)
	s.countHidden(len(r.Attempts)-len(list), "attempt")
	ranks := int64(max(len(r.Ranks), 1))
	costly := slices.Clone(r.Ledger.Disruptions)
	slices.SortStableFunc(costly, func(a, b account.Disruption) int { return cmp.Compare(b.Total, a.Total) })
	for i := range costly[:min(len(costly), 3)] {
		d := &costly[i]
		what := "Restart after"
		if d.Next == d.After {
			what = "Rollback in"
		}
		s.say("%s attempt %d cost %s: %s", what, d.After, display.Duration(d.Total/ranks), partsOf(d, ranks))
	}
	s.countHidden(len(costly)-3, "disruption")
}

// partsOf returns the parts of the cost of a restart per rank, without those that are 0.
func partsOf(d *account.Disruption, ranks int64) string {
	parts := []string{fmt.Sprintf("%s redone (%s)", stepsRange(d.Iterations, d.IterationsMost), display.Duration((d.LostWork+d.Stall+d.Stretch)/ranks))}
	if down := durationRange(d.Down/ranks, d.DownMost/ranks); d.Down/ranks > 0 || d.DownMost/ranks > 0 {
		parts = append(parts, down+" down")
	}
	for _, p := range [...]struct {
		ns   int64
		what string
	}{{d.Unrecorded, "not on record before the kill"}, {d.Init, "initialization"}, {d.Reload, "loading the checkpoint"}, {d.Warmup, "warm-up"}} {
		if p.ns/ranks > 0 {
			parts = append(parts, display.Duration(p.ns/ranks)+" "+p.what)
		}
	}
	return strings.Join(parts, ", ")
}

func (s *screen) ranks(r *Report) {
	list := r.compared()
	if len(list) < 2 {
		return
	}
	t := &display.Table{Heads: []string{"<RANKS", "own work", "excess", "wait", "last in", "in steps", "<host"}, Drop: []string{"in steps", "last in", "host"}}
	const ends = 3
	for i, k := range list {
		if len(list) > 2*ends && i == ends {
			t.Add(append([]string{fmt.Sprintf("  … %d", len(list)-2*ends)}, make([]string, 6)...)...)
		}
		if i >= ends && i < len(list)-ends {
			continue
		}
		t.Add(k.cells("  ", display.Percent(k.Last), percentOrUnknown(k.Goodput))...)
	}
	s.lines = append(s.lines, "")
	s.table(t)
}

// leftOut adds the number of steps that were not compared, if there are any.
func (s *screen) leftOut(r *Report) {
	n := r.Steps.Count - r.Steps.Compared
	if n <= 0 {
		return
	}
	why := "the first of each attempt, slow starts"
	if u := r.Ledger.Iterations.Unfinished; u > 0 {
		why += fmt.Sprintf(", %d unfinished", u)
	}
	if r.Steps.Device {
		why += ", those without times of the device"
	}
	s.line("  %d excluded: %s", n, why)
}

// trend describes how the median of the last quarter of the steps compares with that of the first.
func trend(x float64) string {
	switch change := math.Abs(100 * x); {
	case change < 1:
		return "as long in the last quarter as in the first"
	case x < 0:
		return fmt.Sprintf("%.0f %% shorter in the last quarter than in the first", change)
	default:
		return fmt.Sprintf("%.0f %% longer in the last quarter than in the first", change)
	}
}

func (s *screen) steps(r *Report) {
	st := &r.Steps
	if st.Count == 0 {
		return
	}
	if st.Compared == 0 {
		s.head(fmt.Sprintf("STEPS  %d, none compared", st.Count))
		s.leftOut(r)
		return
	}
	s.head(fmt.Sprintf("STEPS  %d, %d compared: median %s, p99 %s, longest %s (step %d)", st.Count, st.Compared, display.Milliseconds(st.Median), display.Milliseconds(st.P99), display.Milliseconds(st.Max), st.MaxAt))
	s.leftOut(r)
	if st.Trend != nil {
		s.line("  %s", trend(*st.Trend))
	}
	var parts []string
	for _, p := range straggler.Phases() {
		if v := st.Phases[p.String()]; v > 0 {
			parts = append(parts, r.phaseWord(p)+" "+display.Milliseconds(v))
		}
	}
	if st.Wait != nil {
		parts = append(parts, "waits "+display.Milliseconds(*st.Wait), "collectives "+display.Milliseconds(*st.Transfer))
	}
	for _, l := range display.Join(parts, ", ", s.columns-4) {
		s.line("  %s", l)
	}
	if st.Device {
		s.line("  times of the device: data, other code and save are its idle time")
	}
}

func (s *screen) checkpoints(r *Report) {
	var saves, loads, failedSaves, failedLoads int
	var blocking, background, longest, load int64
	for i := range r.Checkpoints {
		c := &r.Checkpoints[i]
		switch {
		case c.Load && c.Failed:
			failedLoads++
		case c.Load:
			loads++
			load += c.Blocking
		case c.Failed:
			failedSaves++
		default:
			saves++
			blocking, background, longest = blocking+c.Blocking, background+c.Background, max(longest, c.Blocking)
		}
	}
	var parts []string
	if saves > 0 {
		parts = append(parts, fmt.Sprintf("%d saved: blocked training for %s (longest %s), %s in the background", saves, display.Duration(blocking), display.Duration(longest), display.Duration(background)))
	}
	if r.MoreSaves > 0 {
		parts = append(parts, fmt.Sprintf("%d more saved", r.MoreSaves))
	}
	if failedSaves > 0 {
		parts = append(parts, display.Plural(failedSaves, "save")+" failed")
	}
	if loads > 0 {
		parts = append(parts, fmt.Sprintf("%d loaded in %s", loads, display.Duration(load)))
	}
	if failedLoads > 0 {
		parts = append(parts, display.Plural(failedLoads, "load")+" failed")
	}
	for i, part := range parts {
		if i == 0 {
			s.head("CHECKPOINTS  " + part)
			continue
		}
		s.line("  %s", part)
	}
}

func (s *screen) quality(r *Report) {
	q := &r.Quality
	waiting := ""
	if q.Waiting > 0 {
		waiting = fmt.Sprintf(", %d waiting for trainspan trace import", q.Waiting)
	}
	s.head(fmt.Sprintf("DATA  %s, %s, %s unreadable, %s truncated, %s dropped%s", display.Plural(q.Files, "file"), display.Plural(int(q.Spans), "span"), display.Plural(q.BadLines, "line"), display.Plural(q.Torn, "file"), display.Plural(int(q.Dropped), "span"), waiting))
	const most = 5
	list := slices.Clone(q.Remarks)
	for _, f := range q.Skipped {
		list = append(list, "left out: "+f)
	}
	for i, m := range list {
		if i == most-1 && len(list) > most {
			s.countHidden(len(list)-i, "remark")
			break
		}
		s.say("%s", m)
	}
	for _, section := range q.See {
		s.say("see %s", section)
	}
}

// percentOrUnknown formats a fraction in percent, and nil as "unknown".
func percentOrUnknown(x *float64) string {
	if x == nil {
		return "unknown"
	}
	return display.Percent(*x)
}

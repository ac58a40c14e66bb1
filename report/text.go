package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/trainspan/trainspan/analysis/goodput"
	"github.com/trainspan/trainspan/analysis/straggler"
)

// The size of the screen.
const (
	maxColumns = 100
	maxLines   = 60
)

// JSON writes a report for machines: [Report], indented.
func JSON(w io.Writer, r *Report) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// Text writes a report for people: at most 60 lines of at most 100 letters.
func Text(w io.Writer, r *Report) error {
	s := &screen{}
	s.verdict(r)
	s.ledger(r)
	s.attempts(r)
	s.ranks(r)
	s.steps(r)
	s.checkpoints(r)
	s.evidence(r)
	s.quality(r)
	if _, err := io.WriteString(w, strings.Join(s.lines[:min(len(s.lines), maxLines)], "\n")+"\n"); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// screen gathers the lines.
type screen struct{ lines []string }

func (s *screen) line(format string, args ...any) {
	text := strings.TrimRight(clean(fmt.Sprintf(format, args...)), " ")
	s.lines = append(s.lines, clip(text, maxColumns))
}

func (s *screen) head(title string) {
	s.lines = append(s.lines, "")
	s.line("%s", title)
}

// more says how many entries are not shown.
func (s *screen) more(n int, what string) {
	if n > 0 {
		s.line("  … %s, see --json or --html", plural(n, "more "+what))
	}
}

func (s *screen) verdict(r *Report) {
	lines := fold(clean(r.Verdict.Sentence), maxColumns)
	if len(lines) > 9 {
		lines = append(lines[:8], clip(lines[8], maxColumns-2)+" …")
	}
	s.lines = append(s.lines, lines...)
}

// bar draws a share in eighths of letters; a small one is still seen.
func bar(share float64, width int) string {
	eighths := int(share*float64(width)*8 + 0.5)
	if share > 0 {
		eighths = max(eighths, 1)
	}
	out := strings.Repeat("█", eighths/8)
	if n := eighths % 8; n > 0 {
		out += string([]rune(" ▏▎▍▌▋▊▉")[n])
	}
	return out + strings.Repeat(" ", max(width-utf8.RuneCountInString(out), 0))
}

func (s *screen) ledger(r *Report) {
	if r.Goodput == nil {
		return
	}
	ranks := int64(max(len(r.Ranks), 1))
	title := fmt.Sprintf("WHERE %s WENT", duration(r.Ledger.Wall))
	if ranks > 1 {
		title += fmt.Sprintf(" (mean of %d ranks)", ranks)
	}
	s.head(title)
	row := func(name string, share float64, ns int64) {
		s.line("  %-22s %s %8s %11s", clip(name, 22), bar(share, 48), percent(share), duration(ns/ranks))
	}
	row("trained the model", *r.Goodput, r.Ledger.Categories[goodput.Productive])
	const most = 9
	for i, l := range r.Losses {
		if i == most-1 && len(r.Losses) > most {
			var rest Loss
			for _, o := range r.Losses[i:] {
				rest.Time, rest.Share = rest.Time+o.Time, rest.Share+o.Share
			}
			row(fmt.Sprintf("%d others", len(r.Losses)-i), rest.Share, rest.Time)
			break
		}
		row(words(l.Category), l.Share, l.Time)
	}
}

func (s *screen) attempts(r *Report) {
	if len(r.Attempts) == 0 {
		return
	}
	s.head("ATTEMPTS              began        lasted   steps              goodput   end")
	const most = 4
	list := r.Attempts
	if len(list) > most {
		list = append(slices.Clone(list[:1]), list[len(list)-most+1:]...)
	}
	for i := range list {
		a := &list[i]
		end := "no proper end"
		if a.Ended {
			end = "ended"
		}
		if a.Outcome != "" {
			end = a.Outcome
		}
		steps := "none"
		if a.FirstStep >= 0 {
			steps = fmt.Sprintf("%d … %d", a.FirstStep, a.LastStep)
		}
		s.line("  %-11d %14s %13s   %-18s %7s   %s", a.Number, "+"+duration(a.Start-r.Ledger.From), duration(a.Stop-a.Start), clip(steps, 18), percent(a.Goodput), end)
	}
	s.more(len(r.Attempts)-len(list), "attempt")
	ranks := int64(max(len(r.Ranks), 1))
	costly := slices.Clone(r.Ledger.Disruptions)
	slices.SortStableFunc(costly, func(a, b goodput.Disruption) int { return cmp.Compare(b.Total, a.Total) })
	for i := range costly[:min(len(costly), 3)] {
		d := &costly[i]
		s.line("  after %d: %s lost, %s: work %s, down %s, init %s, load %s, warm-up %s", d.After, plural(d.Iterations, "step"),
			duration(d.Total/ranks), duration((d.LostWork+d.Stall+d.Stretch)/ranks), duration(d.Down/ranks), duration(d.Init/ranks), duration(d.Reload/ranks), duration(d.Warmup/ranks))
	}
	s.more(len(costly)-3, "disruption")
}

func (s *screen) ranks(r *Report) {
	var list []*Rank
	for i := range r.Ranks {
		if r.Ranks[i].Compared {
			list = append(list, &r.Ranks[i])
		}
	}
	if len(list) < 2 {
		return
	}
	slices.SortStableFunc(list, func(a, b *Rank) int { return cmp.Compare(b.Excess, a.Excess) })
	s.head("RANKS                 own work     excess       wait   last in   goodput   host")
	const ends = 3
	for i, k := range list {
		if len(list) > 2*ends && i == ends {
			s.line("  … %s between", plural(len(list)-2*ends, "rank"))
		}
		if i >= ends && i < len(list)-ends {
			continue
		}
		s.line("  %-11d %16s %10s %10s %9s %9s   %s", k.Rank, milliseconds(k.Own), milliseconds(k.Excess), milliseconds(k.Wait), percent(k.Last), percent(k.Goodput), k.Host)
	}
}

func (s *screen) steps(r *Report) {
	st := &r.Steps
	if st.Count == 0 {
		return
	}
	s.head(fmt.Sprintf("STEPS  %d: median %s, p99 %s, longest %s (step %d)", st.Count, milliseconds(st.Median), milliseconds(st.P99), milliseconds(st.Max), st.MaxAt))
	if st.Count >= 40 {
		s.line("  trend: the last quarter took %+.1f %% against the first", 100*st.Trend)
	}
	var parts []string
	for _, p := range straggler.Phases() {
		if v := st.Phases[p.String()]; v > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", p, milliseconds(v)))
		}
	}
	if st.Wait != nil {
		parts = append(parts, "wait "+milliseconds(*st.Wait), "transfer of the collective "+milliseconds(*st.Transfer))
	}
	for i, l := range fold(strings.Join(parts, ", "), maxColumns-4) {
		if i < 2 {
			s.line("  %s", l)
		}
	}
}

func (s *screen) checkpoints(r *Report) {
	var saves, loads int
	var blocking, background, longest, load int64
	for i := range r.Checkpoints {
		c := &r.Checkpoints[i]
		if c.Load {
			loads++
			load += c.Blocking
			continue
		}
		saves++
		blocking, background, longest = blocking+c.Blocking, background+c.Background, max(longest, c.Blocking)
	}
	if saves+loads == 0 {
		return
	}
	s.head(fmt.Sprintf("CHECKPOINTS  %d saved: held up the training for %s (longest %s), %s in the background", saves, duration(blocking), duration(longest), duration(background)))
	if loads > 0 {
		s.line("  %d loaded in %s", loads, duration(load))
	}
}

func (s *screen) quality(r *Report) {
	q := &r.Quality
	s.head(fmt.Sprintf("DATA  %s, %s, %d lines unreadable, %s cut off, %s dropped", plural(q.Files, "file"), plural(int(q.Spans), "span"), q.BadLines, plural(q.Torn, "file"), plural(int(q.Dropped), "span")))
	const most = 5
	list := slices.Clone(q.Remarks)
	for _, f := range q.Skipped {
		list = append(list, "left out: "+f)
	}
	for i, m := range list {
		if i == most-1 && len(list) > most {
			s.more(len(list)-i, "remark")
			break
		}
		s.line("  %s", m)
	}
}

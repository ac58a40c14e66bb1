package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// The size of the screen.
const (
	minColumns = 40
	maxColumns = 100

	// labelWidth is the column in which the text of a labelled line begins.
	labelWidth = 11
)

// screen collects the lines of a text report.
type screen struct {
	columns int
	all     bool // the first screen is not cut: the tables follow, and they do not have its lines
	lines   []string
}

// line adds a line. If it is too long, it is wrapped, and every line has its indentation.
func (s *screen) line(format string, args ...any) {
	text := strings.TrimRight(display.Text(fmt.Sprintf(format, args...)), " ")
	if display.Width(text) <= s.columns {
		s.lines = append(s.lines, text)
		return
	}
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	for _, l := range display.Fold(text, s.columns-len(indent)) {
		s.lines = append(s.lines, indent+l)
	}
}

// mostSaid is the largest number of lines of a sentence on a screen of maxColumns.
const mostSaid = 2

// say adds an indented sentence below a heading.
func (s *screen) say(format string, args ...any) {
	text := display.Text(fmt.Sprintf(format, args...))
	if s.columns == maxColumns {
		text = display.Elide(text, mostSaid*(maxColumns-4))
	}
	for _, l := range display.Fold(text, s.columns-2) {
		s.lines = append(s.lines, "  "+l)
	}
}

// table adds a table. Its heading is not indented.
func (s *screen) table(t *display.Table) {
	heads, rows := t.Lines(s.columns + 2)
	if heads == "" { // the rows became paragraphs, which need a heading
		heads = strings.TrimPrefix(t.Heads[0], "<")
	}
	for _, l := range append([]string{heads}, rows...) {
		s.lines = append(s.lines, strings.TrimPrefix(l, "  "))
	}
}

// room returns the width of a column: wide on a screen of maxColumns, narrow on a smaller one.
func (s *screen) room(wide, narrow int) int {
	if s.columns < maxColumns {
		return narrow
	}
	return wide
}

func (s *screen) head(title string) {
	s.lines = append(s.lines, "")
	title = display.Text(title)
	lines := []string{title}
	if display.Width(title) > s.columns {
		lines = display.Fold(title, s.columns-2)
	}
	for i, l := range lines {
		s.lines = append(s.lines, strings.Repeat("  ", min(i, 1))+l)
	}
}

// countHidden adds a line with the number of hidden entries, if there are any.
func (s *screen) countHidden(n int, what string) {
	if n > 0 {
		s.line("  … %s, see --json or --html", display.Plural(n, "more "+what))
	}
}

// bar draws a share with a resolution of an eighth of a character. A positive share is
// never empty.
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

// part adds a row with a name, a bar, a share and a duration of ns nanoseconds.
func (s *screen) part(name string, share float64, ns int64) {
	width := s.room(22, 17)
	picture := ""
	if n := s.columns - width - 30; n >= 4 {
		picture = " " + bar(share, n)
	}
	for i, l := range display.Fold(display.Elide(display.Text(name), 2*width), width) {
		if i > 0 {
			s.line("  %s", l)
			continue
		}
		s.line("  %s%s %8s %9s", display.Pad(l, width), picture, display.Percent(share), display.Duration(ns))
	}
}

// labelled adds a text with a label, wrapped. It does nothing if text is empty.
func (s *screen) labelled(label, text string) {
	if text != "" {
		s.labelledAt(label, text)
	}
}

// labelledAt is like labelled, but also adds an empty text. An empty label continues the
// text above.
func (s *screen) labelledAt(label, text string) {
	head := display.Pad(label, labelWidth)
	if display.Width(label) >= labelWidth {
		head = label + "  "
	}
	// After a long label the first line is shorter.
	lines := display.Fold(strings.Repeat("x", display.Width(head)-labelWidth)+" "+display.Text(text), s.columns-labelWidth)
	if display.Width(head) == labelWidth {
		lines = display.Fold(display.Text(text), s.columns-labelWidth)
	} else if len(lines) > 0 {
		lines[0] = strings.TrimPrefix(strings.TrimLeft(lines[0], "x"), " ")
	}
	for i, l := range lines {
		if i > 0 {
			head = strings.Repeat(" ", labelWidth)
		}
		s.lines = append(s.lines, strings.TrimRight(head+l, " "))
	}
}

// plain adds a text, wrapped.
func (s *screen) plain(text string) {
	s.lines = append(s.lines, display.Fold(display.Text(text), s.columns)...)
}

// maxRemarks limits the remarks: a job of a thousand ranks may have thousands of flags.
const maxRemarks = 40

// remarks describes the flags of the ledger, one remark for each kind. Device is set if steps run on
// devices: an iteration of the host is then long if it waits for the steps of several, which are as
// long as usual.
func remarks(led *account.Report, device bool) []string {
	var order []account.FlagKind
	of := make(map[account.FlagKind][]account.Flag)
	for _, f := range led.Flags {
		if of[f.Kind] == nil {
			order = append(order, f.Kind)
		}
		of[f.Kind] = append(of[f.Kind], f)
	}
	var out []string
	for _, k := range order {
		if k == account.MissingRank || device && k == account.LongIteration {
			continue // Quality.Missing has missing ranks
		}
		text := strings.ReplaceAll(string(k), "_", " ")
		if t, ok := flagWords[k]; ok {
			text = t
		}
		out = append(out, text+" ("+flagPlaces(of[k])+")")
	}
	return out[:min(len(out), maxRemarks)]
}

// flagPlaces returns the ranks and attempts of flags of one kind, and how many flags there are if
// that is more.
func flagPlaces(list []account.Flag) string {
	var ranks, attempts []int
	places, n := make(map[[2]int]bool), len(list)
	for _, f := range list {
		ranks = append(ranks, f.Rank)
		places[[2]int{f.Rank, f.Attempt}] = true
		if n += f.Count; f.Attempt > 0 {
			attempts = append(attempts, f.Attempt)
		}
	}
	distinct := func(list []int) []int { slices.Sort(list); return slices.Compact(list) }
	where := finding.RankList(distinct(ranks))
	if attempts = distinct(attempts); len(attempts) == 1 {
		where += fmt.Sprintf(", attempt %d", attempts[0])
	} else if len(attempts) > 1 {
		where += fmt.Sprintf(", %d attempts", len(attempts))
	}
	if n > len(places) {
		where += fmt.Sprintf(", %d times", n)
	}
	return where
}

// numbered sets RanksInvented, and returns the remark about it if it is set.
func (q *Quality) numbered(j *job.Job) []string {
	without, ranks := 0, make(map[int]bool)
	for _, p := range j.Processes {
		ranks[p.Rank] = true
		if !p.RankKnown {
			without++
		}
	}
	switch q.RanksInvented = without > 0 && len(ranks) > 1; {
	case !q.RanksInvented:
		return nil
	case without == len(j.Processes):
		return []string{"no record has a rank: ranks are numbered in the order of start"}
	}
	return []string{"no record has the rank of " + display.Plural(without, "process") + ": numbered in the order of start"}
}

// unlikely returns remarks about impossible and contradictory records.
func (q *Quality) unlikely() (out []string) {
	if q.Aside > 0 {
		out = append(out, display.Plural(int(q.Aside), "record")+" ignored: more than 30 days from the other times of the file, or ending before they begin")
	}
	if q.BadNumbers > 0 {
		out = append(out, display.Plural(q.BadNumbers, "number")+" of ranks, attempts or the world size ignored: below 0 or above 1,048,575")
	}
	if q.Disagree > 0 {
		out = append(out, q.DisagreeOn+" contradictory in records and file names, "+display.Plural(q.Disagree, "time")+": a record in the trace takes precedence, the file name comes last")
	}
	if text := describeMissing(q.NotRecorded); text != "" {
		out = append(out, text)
	}
	if q.OtherSignals > 0 {
		out = append(out, display.Plural(q.OtherSignals, "line")+" of OTLP log records and metrics skipped: only spans are read")
	}
	if q.Relative > 0 {
		out = append(out, display.Plural(q.Relative, "clock")+" with relative times whose base the files do not have")
	}
	return out
}

var flagWords = map[account.FlagKind]string{
	account.NoEnd:           "no proper end was recorded",
	account.NoHeartbeat:     "ended without an end record (killed?): its last record counts as its end",
	account.ClockSkew:       "an attempt begins before the last activity of the previous one",
	account.LongIteration:   "a step took more than ten times the usual time",
	account.SpansDropped:    "spans were dropped while recording",
	account.TwoWriters:      "several processes have the same rank and attempt",
	account.MissingEnds:     "spans without an end were closed by later records",
	account.WarmupUnknown:   "warm-up unknown: no usual time to compare the first step with",
	account.Provisional:     "the usual time of a step comes from fewer than three steps",
	account.LostWorkUnknown: "lost work unknown: no record has the step at which an attempt resumed",
	account.ResumeInferred:  "the step at which an attempt resumed is inferred",
	account.NoIterations:    "no training step was recorded",
	account.LocalSteps:      "steps are counted from 0 in each attempt",
}

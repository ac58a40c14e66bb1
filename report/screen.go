package report

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/layout"
	"github.com/trainspan/trainspan/internal/visible"
)

// The size of the screen.
const (
	minColumns = 40
	maxColumns = 100

	// labelWidth is the column in which the text of a labelled line begins.
	labelWidth = 6
)

// screen gathers the lines.
type screen struct {
	columns int
	lines   []string
}

// line adds a line, with its indentation where it takes several.
func (s *screen) line(format string, args ...any) {
	text := strings.TrimRight(visible.Text(fmt.Sprintf(format, args...)), " ")
	if layout.Width(text) <= s.columns {
		s.lines = append(s.lines, text)
		return
	}
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	for _, l := range layout.Fold(text, s.columns-len(indent)) {
		s.lines = append(s.lines, indent+l)
	}
}

// mostSaid is how many lines a sentence takes where there is room for most.
const mostSaid = 2

// say adds a sentence, below a head.
func (s *screen) say(format string, args ...any) {
	text := visible.Text(fmt.Sprintf(format, args...))
	if s.columns == maxColumns {
		text = layout.Elide(text, mostSaid*(maxColumns-4))
	}
	for _, l := range layout.Fold(text, s.columns-2) {
		s.lines = append(s.lines, "  "+l)
	}
}

// table adds a table, whose head begins where the line does.
func (s *screen) table(t *layout.Table) {
	heads, rows := t.Lines(s.columns + 2)
	if heads == "" { // paragraphs, which need the name of what they are of
		heads = strings.TrimPrefix(t.Heads[0], "<")
	}
	for _, l := range append([]string{heads}, rows...) {
		s.lines = append(s.lines, strings.TrimPrefix(l, "  "))
	}
}

// room is the width of a column: wide on the full screen, narrow on a smaller one.
func (s *screen) room(wide, narrow int) int {
	if s.columns < maxColumns {
		return narrow
	}
	return wide
}

func (s *screen) head(title string) {
	s.lines = append(s.lines, "")
	title = visible.Text(title)
	lines := []string{title}
	if layout.Width(title) > s.columns {
		lines = layout.Fold(title, s.columns-2)
	}
	for i, l := range lines {
		s.lines = append(s.lines, strings.Repeat("  ", min(i, 1))+l)
	}
}

// more says how many entries are not shown.
func (s *screen) more(n int, what string) {
	if n > 0 {
		s.line("  … %s, see --json or --html", human.Plural(n, "more "+what))
	}
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

// part adds a row with a bar for a share of something, which took so long.
func (s *screen) part(name string, share float64, ns int64) {
	width := s.room(22, 17)
	picture := ""
	if n := s.columns - width - 30; n >= 4 {
		picture = " " + bar(share, n)
	}
	for i, l := range layout.Fold(layout.Elide(visible.Text(name), 2*width), width) {
		if i > 0 {
			s.line("  %s", l)
			continue
		}
		s.line("  %-*s%s %8s %9s", width, l, picture, human.Percent(share), human.Duration(ns))
	}
}

// labelled adds a text behind a word, on as many lines as it takes.
func (s *screen) labelled(label, text string) {
	if text == "" {
		return
	}
	width := 0
	if label != "" {
		width = labelWidth
	}
	for i, l := range layout.Fold(visible.Text(text), s.columns-width) {
		if i > 0 {
			label = ""
		}
		s.lines = append(s.lines, strings.TrimRight(fmt.Sprintf("%-*s%s", width, label, l), " "))
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// painter colours text on terminals and leaves it alone elsewhere.
type painter struct{ on bool }

// paint returns the painter for w: colours are for terminals whose user has
// not set NO_COLOR or a TERM that knows none.
func (a *app) paint(w io.Writer) painter {
	if a.lookup != nil {
		if v, _ := a.lookup("NO_COLOR"); v != "" {
			return painter{}
		}
		if v, _ := a.lookup("TERM"); v == "dumb" {
			return painter{}
		}
	}
	return painter{terminal(w)}
}

func (p painter) wrap(code, s string) string {
	if !p.on {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p painter) head(s string) string { return p.wrap("1", s) }
func (p painter) dim(s string) string  { return p.wrap("2", s) }
func (p painter) good(s string) string { return p.wrap("32", s) }
func (p painter) warn(s string) string { return p.wrap("33", s) }
func (p painter) bad(s string) string  { return p.wrap("31", s) }

func terminal(w io.Writer) bool {
	if s, ok := w.(*stickyWriter); ok {
		w = s.w
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// table lines up columns: words to the left, numbers to the right.
type table struct {
	heads []string // a leading "<" puts a column to the left
	rows  [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer, p painter) {
	width := make([]int, len(t.heads))
	left := make([]bool, len(t.heads))
	heads := make([]string, len(t.heads))
	for i, h := range t.heads {
		heads[i], left[i] = strings.CutPrefix(h, "<")
		width[i] = utf8.RuneCountInString(heads[i])
	}
	for _, row := range t.rows {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	line := func(row []string) string {
		var b strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			b.WriteString("  ")
			if left[i] {
				b.WriteString(c + pad)
			} else {
				b.WriteString(pad + c)
			}
		}
		return strings.TrimRight(b.String(), " ")
	}
	_, _ = fmt.Fprintln(w, p.dim(line(heads))) // w remembers its error
	for _, row := range t.rows {
		_, _ = fmt.Fprintln(w, line(row))
	}
}

// printf writes to standard output, which remembers its error.
func (a *app) printf(format string, args ...any) { _, _ = fmt.Fprintf(a.stdout, format, args...) }

// printJSON writes a value for machines.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// shorten cuts a long name in the middle.
func shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	return string(r[:most*2/3]) + "…" + string(r[len(r)-(most-most*2/3-1):])
}

package main

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/trainspan/trainspan/internal/layout"
	"github.com/trainspan/trainspan/internal/visible"
)

// painter colours text on terminals and not elsewhere.
type painter struct{ on bool }

// colours are the words of --color.
var colours = []string{"auto", "always", "never"}

// paint returns the painter for w. As long as --color says nothing else, colours are for
// terminals whose user has not set NO_COLOR or a TERM that knows none.
func (a *app) paint(w *visible.Writer) painter {
	switch a.color {
	case "always":
		return painter{true}
	case "never":
		return painter{}
	}
	noColor, _ := a.env("NO_COLOR")
	kind, _ := a.env("TERM")
	return painter{terminal(w.Under()) && noColor == "" && kind != "dumb"}
}

// env looks a variable of the environment up.
func (a *app) env(name string) (string, bool) {
	if a.streams.lookup == nil {
		return "", false
	}
	return a.streams.lookup(name)
}

func (p painter) wrap(code, s string) visible.Own {
	s = visible.Text(s)
	if !p.on {
		return visible.Own(s)
	}
	return visible.Own("\x1b[" + code + "m" + s + "\x1b[0m")
}

func (p painter) head(s string) visible.Own { return p.wrap("1", s) }
func (p painter) dim(s string) visible.Own  { return p.wrap("2", s) }
func (p painter) good(s string) visible.Own { return p.wrap("32", s) }
func (p painter) warn(s string) visible.Own { return p.wrap("33", s) }
func (p painter) bad(s string) visible.Own  { return p.wrap("31", s) }

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// table prints a table, as wide as the terminal is.
func (a *app) table(to *visible.Writer, t *layout.Table) {
	heads, rows := t.Lines(a.columns(to))
	p := a.paint(to)
	if heads != "" {
		_, _ = visible.Fprintf(to, "%s\n", p.dim(heads)) // to remembers its error
	}
	for _, row := range rows {
		_, _ = visible.Fprintf(to, "%s\n", row)
	}
}

// width returns how many characters fit on a line of standard output, 0 for any number.
func (a *app) width() int { return a.columns(a.stdout) }

// columns returns how many characters fit on a line: those of the terminal, or COLUMNS, at
// least 40. 0 is as many as there are.
func (a *app) columns(w *visible.Writer) int {
	if v, _ := a.env("COLUMNS"); v != "" {
		if n, err := strconv.Atoi(v); err == nil && n > 0 {
			return max(n, 40)
		}
	}
	if f, ok := w.Under().(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return max(n, 40)
		}
	}
	return 0
}

// printf writes to standard output, which remembers its error. Arguments stay on
// one line.
func (a *app) printf(format string, args ...any) { _, _ = visible.Fprintf(a.stdout, format, args...) }

// printJSON writes a value for machines.
func (a *app) printJSON(v any) error { return printJSON(a.stdout, v) }

func printJSON(to *visible.Writer, v any) error {
	enc := json.NewEncoder(visible.JSON(to))
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// csvWriter writes rows of RFC 4180 whose cells stay on one line. A cell that a
// spreadsheet would take for a formula stays as it is: no reader takes back what
// is put in front of one, so that each other reader would have the wrong name.
type csvWriter struct{ *csv.Writer }

func newCSV(w io.Writer) *csvWriter { return &csvWriter{csv.NewWriter(w)} }

// row writes a row, which it changes.
func (w *csvWriter) row(cells []string) error {
	for i, c := range cells {
		cells[i] = visible.Text(c)
	}
	return w.Write(cells)
}

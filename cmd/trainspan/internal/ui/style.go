package ui

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

// Painter colours text on terminals and not elsewhere.
type Painter struct{ On bool }

// Colours are the words of --color.
var Colours = []string{"auto", "always", "never"}

// Paint returns the painter for w. As long as --color says nothing else, colours are for
// terminals whose user has not set NO_COLOR or a TERM that knows none.
func (a *App) Paint(w *visible.Writer) Painter {
	switch a.Color {
	case "always":
		return Painter{true}
	case "never":
		return Painter{}
	}
	noColor, _ := a.Env("NO_COLOR")
	kind, _ := a.Env("TERM")
	return Painter{Terminal(w.Under()) && noColor == "" && kind != "dumb"}
}

// Env looks a variable of the environment up.
func (a *App) Env(name string) (string, bool) {
	if a.Streams.Lookup == nil {
		return "", false
	}
	return a.Streams.Lookup(name)
}

func (p Painter) wrap(code, s string) visible.Own {
	s = visible.Text(s)
	if !p.On {
		return visible.Own(s)
	}
	return visible.Own("\x1b[" + code + "m" + s + "\x1b[0m")
}

func (p Painter) Head(s string) visible.Own  { return p.wrap("1", s) }
func (p Painter) Dim(s string) visible.Own   { return p.wrap("2", s) }
func (p Painter) Good(s string) visible.Own  { return p.wrap("32", s) }
func (p Painter) Amber(s string) visible.Own { return p.wrap("33", s) }
func (p Painter) Bad(s string) visible.Own   { return p.wrap("31", s) }

func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Table prints a table, as wide as the terminal is.
func (a *App) Table(to *visible.Writer, t *layout.Table) {
	heads, rows := t.Lines(a.Columns(to))
	p := a.Paint(to)
	if heads != "" {
		_, _ = visible.Fprintf(to, "%s\n", p.Dim(heads)) // to remembers its error
	}
	for _, row := range rows {
		_, _ = visible.Fprintf(to, "%s\n", row)
	}
}

// Width returns how many characters fit on a line of standard output, 0 for any number.
func (a *App) Width() int { return a.Columns(a.Stdout) }

// Columns returns how many characters fit on a line: those of the terminal, or COLUMNS, at
// least 40. 0 is as many as there are.
func (a *App) Columns(w *visible.Writer) int {
	if v, _ := a.Env("COLUMNS"); v != "" {
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

// Printf writes to standard output, which remembers its error. Arguments stay on
// one line.
func (a *App) Printf(format string, args ...any) { _, _ = visible.Fprintf(a.Stdout, format, args...) }

// PrintJSON writes a value for machines.
func (a *App) PrintJSON(v any) error { return PrintJSON(a.Stdout, v) }

func PrintJSON(to *visible.Writer, v any) error {
	enc := json.NewEncoder(visible.JSON(to))
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// CsvWriter writes rows of RFC 4180 whose cells stay on one line. A cell that a
// spreadsheet would take for a formula stays as it is: no reader takes back what
// is put in front of one, so that each other reader would have the wrong name.
type CsvWriter struct{ *csv.Writer }

func NewCSV(w io.Writer) *CsvWriter { return &CsvWriter{csv.NewWriter(w)} }

// Row writes a row, which it changes.
func (w *CsvWriter) Row(cells []string) error {
	for i, c := range cells {
		cells[i] = visible.Text(c)
	}
	return w.Write(cells)
}

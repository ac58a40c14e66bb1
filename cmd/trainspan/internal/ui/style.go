package ui

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/trainspan/trainspan/internal/visible"
)

// Painter colours text on terminals and not elsewhere.
type Painter struct{ On bool }

// Colours are the words of --color.
var Colours = []string{"auto", "always", "never"}

func (p Painter) wrap(code, s string) visible.Own {
	s = visible.Text(s)
	if !p.On {
		return visible.Own(s)
	}
	return visible.Own("\x1b[" + code + "m" + s + "\x1b[0m")
}

// Head paints a heading.
func (p Painter) Head(s string) visible.Own { return p.wrap("1", s) }

// Dim paints what matters less.
func (p Painter) Dim(s string) visible.Own { return p.wrap("2", s) }

// Good paints good news.
func (p Painter) Good(s string) visible.Own { return p.wrap("32", s) }

// Amber paints a warning.
func (p Painter) Amber(s string) visible.Own { return p.wrap("33", s) }

// Bad paints bad news.
func (p Painter) Bad(s string) visible.Own { return p.wrap("31", s) }

// Terminal reports whether w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// PrintJSON writes v as indented JSON.
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

// NewCSV returns a writer of CSV.
func NewCSV(w io.Writer) *CsvWriter { return &CsvWriter{csv.NewWriter(w)} }

// Row writes a row, which it changes.
func (w *CsvWriter) Row(cells []string) error {
	for i, c := range cells {
		cells[i] = visible.Text(c)
	}
	return w.Write(cells)
}

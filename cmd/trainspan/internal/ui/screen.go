package ui

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/report"
	"golang.org/x/term"
)

// Screen writes the first screen of a report, or with full all its tables, for
// a terminal with a number of columns; 0 means no limit. The first paragraph
// has the color of its severity.
func Screen(to *display.Writer, p Painter, columns int, r *report.Report, full bool) {
	if columns <= 0 {
		columns = math.MaxInt
	}
	lines := r.First(columns)
	if full {
		lines = r.Screen(columns)
	}
	color := Painter.Amber
	switch v := &r.Verdict; {
	case strings.HasPrefix(v.Outcome, "FAILED"), v.Outcome == "KILLED", v.Outcome == "HUNG", v.Outcome == "OUT OF MEMORY":
		color = Painter.Bad
	case v.Diagnosis == "NO PROBLEM FOUND" && v.Outcome != "END UNKNOWN" && !strings.HasPrefix(v.Outcome, "STOPPED"):
		color = Painter.Good
	}
	printLines(to, p, color, lines)
}

// Untrained prints the screen of a command in which no process trained. Columns
// is the width of the terminal, 0 elsewhere.
func Untrained(to *display.Writer, p Painter, columns int, u *report.Untrained) {
	color := Painter.Amber
	if u.Outcome.How.Bad() {
		color = Painter.Bad
	}
	printLines(to, p, color, u.First(columns))
}

// printLines prints the lines of a screen, those before the first empty line in
// a color.
func printLines(to *display.Writer, p Painter, color func(Painter, string) display.Own, lines []string) {
	for _, l := range lines {
		if l == "" {
			color = nil
		}
		text := display.Own(display.Text(l))
		if color != nil {
			text = color(p, l)
		}
		_, _ = display.Fprintf(to, "%s\n", text) // to remembers its error
	}
}

// Painter colours text on terminals and not elsewhere.
type Painter struct{ On bool }

// Colours are the values of --color.
var Colours = []string{"auto", "always", "never"}

func (p Painter) wrap(code, s string) display.Own {
	s = display.Text(s)
	if !p.On {
		return display.Own(s)
	}
	return display.Own("\x1b[" + code + "m" + s + "\x1b[0m")
}

// Head paints a heading.
func (p Painter) Head(s string) display.Own { return p.wrap("1", s) }

// Dim paints less important text.
func (p Painter) Dim(s string) display.Own { return p.wrap("2", s) }

// Good paints good news.
func (p Painter) Good(s string) display.Own { return p.wrap("32", s) }

// Amber paints a warning.
func (p Painter) Amber(s string) display.Own { return p.wrap("33", s) }

// Bad paints bad news.
func (p Painter) Bad(s string) display.Own { return p.wrap("31", s) }

// Terminal reports whether w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// PrintJSON writes v as indented JSON.
func PrintJSON(to *display.Writer, v any) error {
	enc := json.NewEncoder(display.JSON(to))
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// CsvWriter writes rows in the format of RFC 4180, with each cell on one line.
// It does not change cells that a spreadsheet would interpret as formulas,
// because other readers would not remove a prefix and would get a wrong name.
type CsvWriter struct{ *csv.Writer }

// NewCSV returns a CsvWriter.
func NewCSV(w io.Writer) *CsvWriter { return &CsvWriter{csv.NewWriter(w)} }

// Row writes a row. It overwrites the elements of cells.
func (w *CsvWriter) Row(cells []string) error {
	for i, c := range cells {
		cells[i] = display.Text(c)
	}
	return w.Write(cells)
}

// Moment formats a time in microseconds since the Unix epoch.
func Moment(us int64) string {
	return time.UnixMicro(us).UTC().Format("2006-01-02 15:04:05.000 UTC")
}

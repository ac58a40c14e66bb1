package main

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/trainspan/trainspan/internal/visible"
)

// painter colours text on terminals and not elsewhere.
type painter struct{ on bool }

// paint returns the painter for w: colours are for terminals whose user has
// not set NO_COLOR or a TERM that knows none.
func (a *app) paint(w *visible.Writer) painter {
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

// table lines up columns: words to the left, numbers to the right.
type table struct {
	heads []string // a leading "<" puts a column to the left
	rows  [][]string
	drop  []string // heads of columns that go first where there is no room
	empty bool     // columns in which no row has anything go as well
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write prints the table, no wider than a number of characters; 0 is any.
func (t *table) write(w *visible.Writer, p painter, most int) {
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
	shown := t.fit(heads, width, left, most)
	line := func(row []string) string {
		var b strings.Builder
		for i, c := range row {
			if !shown[i] {
				continue
			}
			c = shorten(c, width[i])
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
	_, _ = visible.Fprintf(w, "%s\n", p.dim(line(heads))) // w remembers its error
	for _, row := range t.rows {
		_, _ = visible.Fprintf(w, "%s\n", line(row))
	}
}

// narrowest is how far a column of words is cut.
const narrowest = 16

// fit decides which columns are shown, and cuts those of words.
func (t *table) fit(heads []string, width []int, left []bool, most int) []bool {
	shown := make([]bool, len(heads))
	total := 0
	for i := range heads {
		shown[i] = !t.empty || len(t.rows) == 0 || slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != "-" && row[i] != "" })
		if shown[i] {
			total += width[i] + 2
		}
	}
	cut := func(floor int) {
		for i := range heads {
			if over := total - most; over > 0 && left[i] && shown[i] && width[i] > floor {
				over = min(over, width[i]-floor)
				width[i], total = width[i]-over, total-over
			}
		}
	}
	if most <= 0 {
		return shown
	}
	cut(2 * narrowest)
	for _, name := range t.drop {
		if i := slices.Index(heads, name); total > most && i >= 0 && shown[i] {
			shown[i] = false
			total -= width[i] + 2
		}
	}
	cut(narrowest)
	return shown
}

// width is how many characters fit on a line of standard output: those of the
// terminal, or COLUMNS. 0 is as many as there are.
func (a *app) width() int {
	if a.streams.lookup != nil {
		if v, _ := a.streams.lookup("COLUMNS"); v != "" {
			if n, err := strconv.Atoi(v); err == nil && n > 0 {
				return max(n, 40)
			}
		}
	}
	if f, ok := a.stdout.Under().(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil {
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

// shorten cuts a long name in the middle.
func shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(visible.Text(s))
	return string(r[:most*2/3]) + "…" + string(r[len(r)-(most-most*2/3-1):])
}

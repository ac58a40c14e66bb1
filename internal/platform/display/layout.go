// Package display lays out text and tables on lines of a number of columns. No
// word and no number is cut: what is too long continues on the next line, and a
// table column without room is left out as a whole. Most characters take one
// column; Chinese, Japanese and Korean characters and emoji take two, and
// combining marks none. A width of 0 means no limit.
package display

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	eaw "golang.org/x/text/width"
)

// Width returns how many columns a text takes on a terminal.
func Width(text string) (n int) {
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if r < 0x300 { // the first combining mark
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	if kind := eaw.LookupRune(r).Kind(); kind == eaw.EastAsianWide || kind == eaw.EastAsianFullwidth {
		return 2
	}
	return 1
}

// fitting returns how many runes of a text fit into a number of columns, with
// the combining marks of the last one. It is at least 1, so that loops end.
func fitting(r []rune, columns int) int {
	n := 0
	for n < len(r) && (columns >= runeWidth(r[n]) || n == 0) {
		columns -= runeWidth(r[n])
		n++
	}
	return n
}

// Cut returns the start of a text that fits on a line, with "…" if something
// is cut off.
func Cut(text string, columns int) string {
	if Width(text) <= columns {
		return text
	}
	if columns < 1 {
		return ""
	}
	r := []rune(text)
	n := fitting(r, columns-1)
	if Width(string(r[:n])) > columns-1 {
		n = 0
	}
	return string(r[:n]) + "…"
}

// Pad appends blanks to a text up to a width.
func Pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(columns-Width(text), 0))
}

// units stay on the same line as the number before them.
var units = map[string]bool{"ns": true, "µs": true, "ms": true, "s": true, "min": true, "h": true, "d": true, "%": true, "B": true, "KB": true, "MB": true, "GB": true, "TB": true}

// words splits a text where a line may end: not between a number and its unit.
func words(text string) []string {
	out := strings.Fields(text)
	n := 0
	for i, word := range out {
		unit := strings.TrimRight(word, ".,;:)")
		if n > 0 && i > 0 && units[unit] && strings.ContainsRune("0123456789", rune(out[i-1][len(out[i-1])-1])) {
			out[n-1] += " " + word
			continue
		}
		out[n] = word
		n++
	}
	return out[:n]
}

// Fold breaks a text at its blanks into lines of a width. A word that is longer
// than a line is broken, if possible after a mark such as a slash.
func Fold(text string, width int) (lines []string) {
	if width <= 0 {
		return []string{strings.Join(strings.Fields(text), " ")}
	}
	line := ""
	for _, word := range words(text) {
		switch {
		case line == "":
			line = word
		case Width(line)+1+Width(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
		for Width(line) > width {
			r := []rune(line)
			most := fitting(r, width)
			n := most
			for n > most/2 && !isMark(r[n-1]) {
				n--
			}
			if n == 0 || !isMark(r[n-1]) {
				n = most
				for n > 1 && r[n-1] == hidden {
					n--
				}
			}
			lines, line = append(lines, string(r[:n])), string(r[n:])
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// Paragraphs folds the lines of a text that are longer than a width, at blanks.
// A name longer than a line is not broken, so that it can be copied.
// Continuation lines are indented by two more than their line, so that no name
// begins one. Colour sequences take no columns.
func Paragraphs(text []byte, width int) []byte {
	if width <= 0 || len(text) <= width {
		return text
	}
	var out []byte
	for line := range bytes.Lines(text) {
		if visibleWidth(line) > width {
			line = paragraph(line, width)
		}
		out = append(out, line...)
	}
	return out
}

func paragraph(line []byte, width int) (out []byte) {
	body := bytes.TrimLeft(line, " ")
	indent := line[:len(line)-len(body)]
	if len(indent) > width/2 {
		indent = indent[:width/2]
	}
	out = append(out, indent...)
	at := len(indent)
	indent = append(bytes.Clone(indent), "  "...)
	for i := 0; i < len(body); {
		n := bytes.IndexByte(body[i:], ' ')
		if n < 0 {
			n = len(body) - i
		}
		blanks := len(body[i+n:]) - len(bytes.TrimLeft(body[i+n:], " "))
		word := body[i : i+n]
		if w := visibleWidth(word); at+w > width && at > len(indent) && w <= width-len(indent) {
			out = append(append(bytes.TrimRight(out, " "), '\n'), indent...)
			at = len(indent)
		}
		out = append(out, body[i:i+n+blanks]...)
		at += visibleWidth(word) + blanks
		i += n + blanks
	}
	return out
}

// visibleWidth returns the width of a line without its line end and colour
// sequences.
func visibleWidth(line []byte) (n int) {
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRune(line[i:])
		switch {
		case r == 0x1b:
			if end := bytes.IndexByte(line[i:], 'm'); end > 0 {
				size = end + 1
			}
		case r != '\n':
			n += runeWidth(r)
		}
		i += size
	}
	return n
}

// hidden stands for a character of a name that is not shown, such as a line
// break, after which the name could imitate a line.
const hidden = '·'

// isMark reports whether a word can be broken after a character.
func isMark(r rune) bool {
	return r != '…' && r != hidden && !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r)
}

// Join puts parts on lines of a width. A part that fits on one line is not
// broken.
func Join(parts []string, between string, width int) (lines []string) {
	for _, part := range parts {
		if n := len(lines); n > 0 && (width <= 0 || Width(lines[n-1]+between+part) <= width) {
			lines[n-1] += between + part
		} else {
			lines = append(lines, Fold(part, width)...)
		}
	}
	return lines
}

// Elide leaves out words in the middle of a text, so that it fits into a width.
// A word ends at a mark; without marks, letters are left out.
func Elide(text string, width int) string {
	if Width(text) <= width || width < 1 {
		return text
	}
	r := []rune(text)
	head, tail := 0, len(r)
	for room := width * 2 / 3; head < len(r) && runeWidth(r[head]) <= room; head++ {
		room -= runeWidth(r[head])
	}
	for room := width - width*2/3 - 1; tail > head && runeWidth(r[tail-1]) <= room; tail-- {
		room -= runeWidth(r[tail-1])
	}
	for tail < len(r) && runeWidth(r[tail]) == 0 { // a combining mark whose letter is left out
		tail++
	}
	for n := head; n > head/2; n-- {
		if isMark(r[n-1]) {
			head = n
			break
		}
	}
	for n := tail; n < len(r) && n < tail+(len(r)-tail)/2; n++ {
		if isMark(r[n]) {
			tail = n
			break
		}
	}
	return string(r[:head]) + "…" + string(r[tail:])
}

// Table aligns columns: words to the left, numbers to the right.
type Table struct {
	Heads []string // a leading "<" aligns a column to the left
	Drop  []string // heads of the columns that are dropped first if the table is too wide
	Empty bool     // drops columns in which all cells are empty
	Whole bool     // long cells are not shortened, however many lines they take
	rows  [][]string
}

// Add adds a row with a cell for each head.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Clear removes the rows.
func (t *Table) Clear() { t.rows = t.rows[:0] }

// The widths down to which a column of words is folded: before columns are
// dropped, and after.
const (
	narrow    = 32
	narrowest = 16
	mostLines = 3 // of one cell; longer cells lose words in the middle
)

// Lines returns the line of the heads and those of the rows, none wider than a
// width. If the table does not fit, each row is a paragraph in which every
// number follows its head, and there is no line of heads.
func (t *Table) Lines(width int) (heads string, rows []string) {
	c := t.columns()
	if c.total() > width && width > 0 {
		c.fold(width, narrow)
		for _, name := range t.Drop {
			if i := slices.Index(c.heads, name); c.total() > width && i >= 0 {
				c.shown[i] = false
			}
		}
		c.fold(width, narrowest)
		if c.total() > width {
			return "", t.paragraphs(width)
		}
	}
	for _, row := range t.rows {
		rows = append(rows, c.row(row)...)
	}
	return strings.Join(c.row(c.heads), ""), rows
}

// columns is the layout of a table: widths, alignment, and which columns are
// shown.
type columns struct {
	heads       []string
	width       []int
	left, shown []bool
	whole       bool
}

func (t *Table) columns() *columns {
	n := len(t.Heads)
	c := &columns{make([]string, n), make([]int, n), make([]bool, n), make([]bool, n), t.Whole}
	for i, h := range t.Heads {
		c.heads[i], c.left[i] = strings.CutPrefix(h, "<")
		c.width[i] = Width(c.heads[i])
		c.shown[i] = !t.Empty || len(t.rows) == 0
		for _, row := range t.rows {
			c.width[i] = max(c.width[i], Width(row[i]))
			c.shown[i] = c.shown[i] || !blank(row[i])
		}
	}
	return c
}

func blank(cell string) bool { return cell == "" || cell == "-" }

func (c *columns) total() (n int) {
	for i, w := range c.width {
		if c.shown[i] {
			n += w + 2
		}
	}
	return n
}

// fold makes columns of words narrower, down to a floor and the width of their
// heads.
func (c *columns) fold(width, floor int) {
	for i := range c.width {
		floor := max(floor, Width(c.heads[i]))
		if over := c.total() - width; over > 0 && c.left[i] && c.shown[i] && c.width[i] > floor {
			c.width[i] -= min(over, c.width[i]-floor)
		}
	}
}

// row returns the lines of a row: as many as its tallest cell has.
func (c *columns) row(cells []string) (lines []string) {
	for n := 0; ; n++ {
		var b strings.Builder
		more := n == 0
		for i, cell := range cells {
			if !c.shown[i] {
				continue
			}
			text := cell
			if Width(cell) > c.width[i] {
				indent := cell[:len(cell)-len(strings.TrimLeft(cell, " "))]
				if !c.whole {
					cell = Elide(cell, mostLines*(c.width[i]-len(indent)))
				}
				folded := Fold(cell, c.width[i]-len(indent))
				text = ""
				if n < len(folded) {
					text = indent + folded[n]
				}
			} else if n > 0 {
				text = ""
			}
			more = more || text != ""
			pad := strings.Repeat(" ", max(c.width[i]-Width(text), 0))
			if c.left[i] {
				text += pad
			} else {
				text = pad + text
			}
			b.WriteString("  " + text)
		}
		if !more {
			return lines
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
}

// paragraphs returns the rows as paragraphs, if not even the most important
// columns fit.
func (t *Table) paragraphs(width int) (lines []string) {
	for _, row := range t.rows {
		var parts []string
		for i, h := range t.Heads {
			h, left := strings.CutPrefix(h, "<")
			switch cell := strings.TrimSpace(row[i]); {
			case blank(cell):
			case left && len(parts) == 0 && i == 0:
				lines = append(lines, indented(Fold(cell, width-2), "  ")...)
			case h == "":
				parts = append(parts, cell)
			default:
				parts = append(parts, h+" "+cell)
			}
		}
		lines = append(lines, indented(Join(parts, ", ", width-4), "    ")...)
	}
	return lines
}

func indented(lines []string, by string) []string {
	for i := range lines {
		lines[i] = by + lines[i]
	}
	return lines
}

package display_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/display"
)

func TestFold(t *testing.T) {
	for _, tc := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 10, nil},
		{"one  two three", 8, []string{"one two", "three"}},
		{"a /very/long/path/of/files b", 12, []string{"a", "/very/long/", "path/of/", "files b"}},
		{"abcdefghij", 4, []string{"abcd", "efgh", "ij"}},
		{"as it is", 0, []string{"as it is"}},
		{"it takes 16.5 ms.", 14, []string{"it takes", "16.5 ms."}},
	} {
		if got := display.Fold(tc.text, tc.width); !slices.Equal(got, tc.want) {
			t.Errorf("%q in %d: %q, want %q", tc.text, tc.width, got, tc.want)
		}
	}
}

func TestParagraphs(t *testing.T) {
	for _, tc := range []struct {
		text, want string
		width      int
	}{
		{"as it is\n", "as it is\n", 0},
		{"  one two three four\nshort\n", "  one two\n    three\n    four\nshort\n", 12},
		{"read /a/very/long/path/of/files now", "read /a/very/long/path/of/files\n  now", 10},
		{"\x1b[1mone two\x1b[0m three\n", "\x1b[1mone two\x1b[0m\n  three\n", 8},
		{"äöü äöü\n", "äöü\n  äöü\n", 6},
	} {
		if got := string(display.Paragraphs([]byte(tc.text), tc.width)); got != tc.want {
			t.Errorf("%q in %d: %q, want %q", tc.text, tc.width, got, tc.want)
		}
	}
}

func TestElide(t *testing.T) {
	for _, tc := range []struct {
		text  string
		width int
		want  string
	}{
		{"short", 10, "short"},
		{"void at::native::reduce_kernel<float, 4>(float*)", 30, "void at::native::…>(float*)"},
		{"abcdefghijklmnop", 9, "abcdef…op"},
	} {
		if got := display.Elide(tc.text, tc.width); got != tc.want {
			t.Errorf("%q in %d: %q, want %q", tc.text, tc.width, got, tc.want)
		}
	}
}

var word = regexp.MustCompile(`[\pL\d.,%]+`)

// TestTable checks all widths from 40 on: no line is wider, no number and no
// word is cut, and with enough room there are only columns.
func TestTable(t *testing.T) {
	table := &display.Table{Heads: []string{"<name", "count", "total", "self", "of self", "<end"}, Drop: []string{"of self"}, Empty: true}
	table.Add("reading the data of an epoch from a slow disk", "1,234,567", "12.5 s", "3.1 s", "24.8 %", "no proper end")
	table.Add("forward", "3", "5 ms", "5 ms", "0.1 %", "ended")
	known := word.FindAllString("name count total self of end reading the data an epoch from a slow disk 1,234,567 12.5 s 3.1 24.8 % no proper forward 3 5 ms 0.1 ended ,", -1)
	for width := 40; width < 120; width++ {
		heads, rows := table.Lines(width)
		for _, line := range append(rows, heads) {
			if display.Width(line) > width {
				t.Errorf("width %d: line %q is wider", width, line)
			}
			for _, w := range word.FindAllString(line, -1) {
				if !slices.Contains(known, strings.TrimRight(w, ",")) {
					t.Errorf("width %d: %q is cut in %q, want whole words", width, w, line)
				}
			}
		}
		if text := strings.Join(rows, "\n"); !strings.Contains(text, "1,234,567") || !strings.Contains(text, "12.5 s") || !strings.Contains(text, "proper") {
			t.Errorf("width %d: want every value in full, got\n%s", width, text)
		}
	}
	heads, rows := table.Lines(0)
	if want := "  name                                           count   total   self  of self  end"; heads != strings.Replace(want, "   count", "       count", 1) || len(rows) != 2 {
		t.Errorf("head %q, rows\n%s\nwant one row on one line", heads, strings.Join(rows, "\n"))
	}
	if heads, rows = table.Lines(24); heads != "" || !strings.HasPrefix(rows[0], "  reading the data of") {
		t.Errorf("head %q, rows\n%s\nwant a name on each line, without head", heads, strings.Join(rows, "\n"))
	}
}

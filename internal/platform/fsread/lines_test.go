package fsread_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/testkit/growth"
)

// read returns the lengths of the lines of a text, -1 for lines that are too
// long, and where each begins.
func read(r io.Reader) (lines, begin []int64, err error) {
	var l fsread.Lines
	l.Reset(r, nil)
	for {
		at := l.At()
		line, err := l.Line()
		n := int64(len(line))
		if errors.Is(err, fsread.ErrLongLine) {
			n = -1
		} else if err != nil {
			return lines, begin, err
		}
		lines, begin = append(lines, n), append(begin, at)
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", fsread.MaxLine+1)
	at := int64(len(long))
	for _, c := range []struct {
		name, text   string
		lines, begin []int64
	}{
		{"nothing", "", nil, nil},
		{"a line feed", "\n", []int64{0}, []int64{0}},
		{"an end without one", "ab\n\ncde", []int64{2, 0, 3}, []int64{0, 3, 4}},
		{"a byte order mark", "\xEF\xBB\xBFab\n\xEF\xBB\xBFc\n", []int64{2, 4}, []int64{0, 6}},
		{"a byte order mark and no line feed", "\xEF\xBB\xBFab", []int64{2}, []int64{0}},
		{"too long", "a\n" + long + "\nb\n", []int64{1, -1, 1}, []int64{0, 2, at + 3}},
		{"too long at the end", "a\n" + long, []int64{1, -1}, []int64{0, 2}},
		{"as long as it may be", long[2:] + "\nb", []int64{fsread.MaxLine - 1, 1}, []int64{0, fsread.MaxLine}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.text), iotest.HalfReader(strings.NewReader(c.text)), iotest.DataErrReader(strings.NewReader(c.text))} {
				lines, begin, err := read(r)
				if !slices.Equal(lines, c.lines) || !slices.Equal(begin, c.begin) || !errors.Is(err, io.EOF) {
					t.Errorf("lines of %d bytes that begin at %d, want %d at %d; %v", lines, begin, c.lines, c.begin, err)
				}
			}
		})
	}
}

// endless is a text without line feeds.
type endless struct{ left int64 }

func (e *endless) Read(b []byte) (int, error) {
	n := min(int64(len(b)), e.left)
	if e.left -= n; n == 0 {
		return 0, io.EOF
	}
	clear(b[:n])
	return int(n), nil
}

// TestLongLineTakesBoundedMemory checks that a line takes at most MaxLine bytes
// of memory, however long it is.
func TestLongLineTakesBoundedMemory(t *testing.T) {
	least := growth.Bytes(func() { _, _, _ = read(&endless{2 * fsread.MaxLine}) })
	most := growth.Bytes(func() { _, _, _ = read(&endless{32 * fsread.MaxLine}) })
	if least > 2*fsread.MaxLine || most > least+1<<20 {
		t.Errorf("a long line takes %d to %d bytes, want at most %d and at most 1 MiB apart", least, most, 2*fsread.MaxLine)
	}
}

func TestLinesStop(t *testing.T) {
	stop := errors.New("stop")
	var l fsread.Lines
	l.Reset(strings.NewReader("a\nb"), func() error { return stop })
	if _, err := l.Line(); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// TestEmptyLines checks that empty lines are returned until too many follow
// each other, which ends the text.
func TestEmptyLines(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		lines int
		err   error
	}{
		"as many as may be":       {strings.Repeat("\n", fsread.MaxEmpty), fsread.MaxEmpty, io.EOF},
		"with something between":  {strings.Repeat("\n", fsread.MaxEmpty) + "x" + strings.Repeat("\n", fsread.MaxEmpty), 2 * fsread.MaxEmpty, io.EOF},
		"too many":                {strings.Repeat("\n", fsread.MaxEmpty+1) + "x\n", fsread.MaxEmpty, fsread.ErrEmptyLines},
		"too many, with blanks":   {strings.Repeat(" \t\r\n", fsread.MaxEmpty+1) + "x\n", fsread.MaxEmpty, fsread.ErrEmptyLines},
		"too many after one line": {"x" + strings.Repeat("\n", fsread.MaxEmpty+2), fsread.MaxEmpty + 1, fsread.ErrEmptyLines},
	} {
		t.Run(name, func(t *testing.T) {
			var l fsread.Lines
			l.Reset(strings.NewReader(c.text), nil)
			n := 0
			_, err := l.Next()
			for ; err == nil; _, err = l.Next() {
				n++
			}
			if n != c.lines || !errors.Is(err, c.err) {
				t.Errorf("%d lines, then %v; want %d, then %v", n, err, c.lines, c.err)
			}
			if rest, err := l.Rest(); len(rest) > 0 || err != nil {
				t.Errorf("Rest() = %q, %v; want nothing", rest, err)
			}
		})
	}
}

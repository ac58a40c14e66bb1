package display

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// Writer sanitizes what is written through it to people: line feeds and tabs
// stay, other hidden characters become a [Dot]. It keeps its first error, so
// that tables need not check each line. It is safe for concurrent use.
type Writer struct {
	// Columns returns the line width for [Fprintf]; 0, and a nil function, mean no
	// limit. Set it before the first call.
	Columns func() int
	// ASCII makes [Fprintf] write [ASCII]. It is set before the first call.
	ASCII bool

	w       io.Writer
	replace func(dst []byte, r rune) []byte

	mu        sync.Mutex // guards the fields below
	err       error
	part, buf []byte // the start of an incomplete character
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w, replace: dot} }

// JSON returns a Writer for JSON texts, which keeps their values: hidden
// characters are escaped. In JSON they can only be in strings.
func JSON(w io.Writer) *Writer {
	if to, ok := w.(*Writer); ok {
		w = cleaned{to}
	}
	return &Writer{w: w, replace: escape}
}

// cleaned writes text that is already sanitized.
type cleaned struct{ *Writer }

func (c cleaned) Write(p []byte) (int, error) { return c.writeClean(p) }

// escape appends a character as a JSON escape.
func escape(dst []byte, r rune) []byte {
	switch {
	case r < ' ':
		return dot(dst, r) // not in valid JSON
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return escape(escape(dst, high), low)
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

// Under returns the underlying writer, which may be a terminal.
func (w *Writer) Under() io.Writer { return w.w }

// Err returns the first error.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Write implements io.Writer. A character may be split over several calls.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	if len(w.part) > 0 {
		p = append(w.part, p...)
	}
	whole := len(p) - unfinished(p)
	w.put(p[:whole])
	w.part = append([]byte(nil), p[whole:]...)
	if w.err != nil {
		return 0, w.err
	}
	return n, nil
}

// Flush writes an incomplete character.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(w.part)
	w.part = nil
	return w.err
}

// writeClean writes sanitized text.
func (w *Writer) writeClean(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(w.part)
	w.part = nil
	if w.err == nil {
		_, w.err = w.w.Write(p)
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// put sanitizes and writes. The caller holds the lock.
func (w *Writer) put(p []byte) {
	if w.err != nil || len(p) == 0 {
		return
	}
	if first(p, true) >= 0 {
		w.buf = appendClean(w.buf[:0], p, true, w.replace)
		p = w.buf
	}
	_, w.err = w.w.Write(p)
}

// unfinished returns the length of an incomplete character at the end.
func unfinished(p []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(p)); n++ {
		if utf8.RuneStart(p[len(p)-n]) {
			if utf8.FullRune(p[len(p)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Own is text of this program that is not sanitized, such as colour sequences.
// Untrusted parts must have passed [Text].
type Own string

// Fprintf writes like fmt.Fprintf. The text of each argument passes [Text],
// except for an [Own]. If w is a [Writer], long lines are folded at blanks.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	if false {
		_ = fmt.Sprintf(format, args...) // lets go vet check the calls
	}
	given := make([]any, len(args))
	for i, v := range args {
		switch v.(type) {
		case Own, bool, int, int64, float64: // an int may be a width
			given[i] = v
		default:
			given[i] = argument{v}
		}
	}
	text := fmt.Appendf(nil, format, given...)
	if to, ok := w.(*Writer); ok {
		if to.ASCII {
			text = []byte(ASCII(string(text)))
		}
		if to.Columns != nil {
			text = Paragraphs(text, to.Columns())
		}
		return to.writeClean(text)
	}
	return w.Write(text)
}

// argument is an argument of Fprintf.
type argument struct{ v any }

// Format implements fmt.Formatter.
func (a argument) Format(f fmt.State, verb rune) {
	_, _ = io.WriteString(f, Text(fmt.Sprintf(fmt.FormatString(f, verb), a.v))) // fmt's buffer never fails
}

// ASCII puts plain letters in place of the characters that screens, tables and sentences draw
// with; names in other alphabets stay. No line of a screen or table gets wider.
func ASCII(text string) string { return ascii.Replace(text) }

var ascii = strings.NewReplacer("█", "#", "▓", "@", "▒", "+", "░", ":", "▏", " ", "▎", " ", "▍", "#", "▌", "#", "▋", "#", "▊", "#", "▉", "#",
	"·", "-", "…", "~", "±", "~", "µ", "u", "×", "x", "–", "-", "—", "-", "−", "-", "→", ">", "≤", "<", "≥", ">", "“", `"`, "”", `"`, "’", "'")

// PlainLocale reports whether the locale that the environment names has nothing but ASCII.
func PlainLocale(lookup func(string) (string, bool)) bool {
	for _, name := range [...]string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v, _ := lookup(name); v != "" {
			return v == "C" || v == "POSIX"
		}
	}
	return false
}

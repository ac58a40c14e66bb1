package visible

import (
	"fmt"
	"io"

	"github.com/trainspan/trainspan/internal/layout"
)

// Own is text of the program itself that passes as it is, such as the codes of a
// colour. What is in it of others must have passed [Text].
type Own string

// Fprintf writes as fmt.Fprintf does. What it makes of each argument passes
// [Text], but for an [Own]. Lines that are longer than those of a [Writer] are folded at
// blanks.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	if false {
		_ = fmt.Sprintf(format, args...) // so that go vet checks the calls
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
		if to.Columns != nil {
			text = layout.Paragraphs(text, to.Columns())
		}
		return to.own(text)
	}
	return w.Write(text)
}

// argument is one of Fprintf's.
type argument struct{ v any }

// Format implements fmt.Formatter.
func (a argument) Format(f fmt.State, verb rune) {
	_, _ = io.WriteString(f, Text(fmt.Sprintf(fmt.FormatString(f, verb), a.v))) // fmt's buffer never fails
}

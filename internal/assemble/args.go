package assemble

import (
	"strings"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
)

// The arguments that stand for what OpenTelemetry has beside attributes, by its own
// names for formats without a place for them.
const (
	ArgStatus            = "otel.status_code"
	ArgStatusDescription = "otel.status_description"
	ArgLinks             = "otel.links"

	// StatusError is the value of ArgStatus for what failed.
	StatusError = "ERROR"
)

// maxLinkText bounds the text of all links of a span: half a line of a file.
const maxLinkText = 8 << 10

// Composite returns an argument for a list or an object, as [dft.JSON] writes
// it. One that is too long is bounded text.
func Composite(key string, v any) dftracer.Arg {
	text := dft.JSON(v)
	if len(text) > MaxText {
		return dftracer.String(key, Bounded(text))
	}
	return dftracer.Raw(key, text)
}

// Progress makes integers of the arguments epoch and step where they say one, as
// analyzers want them: some languages have none, and some senders only text.
func Progress(a dftracer.Arg) dftracer.Arg {
	if a.Key == attributes.Epoch || a.Key == attributes.Step {
		if n, ok := dft.Whole(a); ok {
			return dftracer.Int(a.Key, n)
		}
	}
	return a
}

// AppendStatus appends the status of a span that has failed, or that is said to be
// well; without either it appends nothing.
func AppendStatus(dst []dftracer.Arg, failed, well bool, description string) []dftracer.Arg {
	switch {
	case failed:
		dst = append(dst, dftracer.String(ArgStatus, StatusError))
		if description != "" {
			dst = append(dst, dftracer.String(ArgStatusDescription, description))
		}
	case well:
		dst = append(dst, dftracer.String(ArgStatus, "OK"))
	}
	return dst
}

// AppendCount appends how many the sender left out and how many were cut here.
func AppendCount(dst []dftracer.Arg, key string, before, cut int64) []dftracer.Arg {
	if n := before + cut; n > 0 {
		return append(dst, dftracer.Int(key, n))
	}
	return dst
}

// Link is a link of a span; its ids are in hexadecimal.
type Link struct {
	TraceID, SpanID string
	Attributes      map[string]any
}

// text returns it as JSON.
func (l *Link) text() string {
	text := `{"trace_id":"` + l.TraceID + `","span_id":"` + l.SpanID + `"`
	if len(l.Attributes) > 0 {
		if attributes := dft.JSON(l.Attributes); len(text)+len(attributes) < maxLinkText/2 {
			text += `,"attributes":` + attributes
		}
	}
	return text + "}"
}

// AppendLinks appends the first links of n that a span has, at most limit and what
// fits into half a line, and returns how many are left out. Attributes that are too
// long are left out of their link.
func AppendLinks(dst []dftracer.Arg, n, limit int, at func(int) Link) (args []dftracer.Arg, cut int64) {
	var list []string
	size := 0
	for i := range min(n, limit) {
		l := at(i)
		text := l.text()
		if size += len(text) + 1; size > maxLinkText {
			break
		}
		list = append(list, text)
	}
	if len(list) > 0 {
		dst = append(dst, dftracer.Raw(ArgLinks, "["+strings.Join(list, ",")+"]"))
	}
	return dst, int64(n - len(list))
}

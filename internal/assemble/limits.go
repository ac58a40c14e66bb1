package assemble

import (
	"cmp"
	"strconv"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
)

// DefaultLimit is how many attributes, events and links of a span are kept, and
// how many attributes of a process. It is eight times what SDKs keep by default.
const DefaultLimit = 1024

// Argument names for what is missing of a span, those that the OpenTelemetry
// specification gives for formats without such fields.
const (
	ArgDroppedAttributes = "otel.dropped_attributes_count"
	ArgDroppedEvents     = "otel.dropped_events_count"
	ArgDroppedLinks      = "otel.dropped_links_count"
)

// Limits are how many attributes, events and links of a span are kept; 0 is
// DefaultLimit. The first ones are, and what is over is added to the counts of
// what the sender left out. Attributes of an event, a link and a process are
// bounded like those of a span.
type Limits struct{ Attributes, Events, Links int }

// OrDefault fills in what is not set.
func (l Limits) OrDefault() Limits {
	return Limits{cmp.Or(max(l.Attributes, 0), DefaultLimit), cmp.Or(max(l.Events, 0), DefaultLimit), cmp.Or(max(l.Links, 0), DefaultLimit)}
}

// maxFacts bounds the text of what is written about a process, which its Writer
// repeats in each part of a file.
const maxFacts = 64 << 10

// Facts writes what is known of a process as metadata of its file, up to the
// limit of attributes and 64 KiB of text.
type Facts struct {
	Writer *dftracer.Writer
	Limit  int

	n, bytes int
	cut      int64
}

// Room reports whether there is room for one more. One that finds none counts as
// cut.
func (f *Facts) Room() bool {
	if f.n < f.Limit && f.bytes < maxFacts {
		return true
	}
	f.cut++
	return false
}

// Add writes one.
func (f *Facts) Add(key, value string) {
	key, value = key[:min(len(key), maxFact)], value[:min(len(value), maxFact)]
	f.n++
	f.bytes += len(key) + len(value)
	dft.WriteCustom(f.Writer, key, value)
}

// maxFact bounds the texts of one fact. The writer cuts on and marks it.
const maxFact = 16 << 10

// End says how many were cut.
func (f *Facts) End() Cut {
	if f.cut > 0 {
		dft.WriteCustom(f.Writer, ArgDroppedAttributes, strconv.FormatInt(f.cut, 10))
	}
	return Cut{Attributes: f.cut}
}

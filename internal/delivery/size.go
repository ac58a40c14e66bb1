package delivery

import (
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Estimated bytes of what every span, event, link, attribute and list item
// costs besides its text.
const (
	spanBytes = 160
	partBytes = 48
	kvBytes   = 24
	itemBytes = 12
)

// sizeOf estimates what a span holds in memory and takes on the wire. It looks
// at lengths only, except that OpenTelemetry copies a list to show it.
func sizeOf(s sdktrace.ReadOnlySpan) int {
	n := spanBytes + len(s.Name()) + len(s.Status().Description) + sizeOfAttributes(s.Attributes())
	for _, e := range s.Events() {
		n += partBytes + len(e.Name) + sizeOfAttributes(e.Attributes)
	}
	for _, l := range s.Links() {
		n += partBytes + sizeOfAttributes(l.Attributes)
	}
	return n
}

func sizeOfAttributes(attrs []attribute.KeyValue) (n int) {
	for i := range attrs {
		n += kvBytes + len(attrs[i].Key) + sizeOfValue(&attrs[i].Value)
	}
	return n
}

func sizeOfValue(v *attribute.Value) (n int) {
	switch v.Type() {
	case attribute.BOOL, attribute.INT64, attribute.FLOAT64, attribute.EMPTY:
		return 0
	case attribute.STRING:
		return len(v.AsString())
	case attribute.STRINGSLICE:
		for _, s := range v.AsStringSlice() {
			n += itemBytes + len(s)
		}
	case attribute.BOOLSLICE:
		n = itemBytes * len(v.AsBoolSlice())
	case attribute.INT64SLICE:
		n = itemBytes * len(v.AsInt64Slice())
	case attribute.FLOAT64SLICE:
		n = itemBytes * len(v.AsFloat64Slice())
	case attribute.BYTESLICE:
		n = len(v.AsByteSlice())
	case attribute.SLICE:
		for _, item := range v.AsSlice() {
			n += itemBytes + sizeOfValue(&item)
		}
	case attribute.MAP:
		n = sizeOfAttributes(v.AsMap())
	}
	return n
}

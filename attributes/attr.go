package attributes

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/internal/attrvalue"
)

// Attr is one attribute of a span or an event on its way to the exporters:
// an OpenTelemetry attribute, beside it the exact value where OpenTelemetry cannot
// hold it, and whether it is an extension of the reference grammar. It is a value:
// copy it freely.
type Attr = attrvalue.Attr

// From wraps OpenTelemetry attributes. The result is nil for no attributes.
func From(kvs ...attribute.KeyValue) []Attr {
	if len(kvs) == 0 {
		return nil
	}
	attrs := make([]Attr, len(kvs))
	for i := range kvs {
		attrs[i].KeyValue = kvs[i]
	}
	return attrs
}

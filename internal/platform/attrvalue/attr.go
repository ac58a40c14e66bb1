package attrvalue

import "go.opentelemetry.io/otel/attribute"

// Attr is one attribute of a span or an event. The embedded KeyValue is what
// OpenTelemetry sees. An Attr may be copied; the values it points to never
// change.
type Attr struct {
	attribute.KeyValue

	// Exact is the value for exporters that can write more than
	// OpenTelemetry can hold: a [Count] or *big.Int beyond int64, a []any of
	// items (scalars, these same kinds, and attribute.Value for lists), a
	// json.RawMessage, or [Null]. It is nil when KeyValue is exact.
	Exact any

	// Extension marks an attribute that one-logger does not have. Exporters in
	// compatibility mode leave it out.
	Extension bool
}

// Null is the Exact value of an attribute without a value. OpenTelemetry sees
// the string "null".
type Null struct{}

// AppendOTel appends the OpenTelemetry form of attrs to dst.
func AppendOTel(dst []attribute.KeyValue, attrs []Attr) []attribute.KeyValue {
	if dst == nil && len(attrs) > 0 {
		dst = make([]attribute.KeyValue, 0, len(attrs))
	}
	for i := range attrs {
		dst = append(dst, attrs[i].KeyValue)
	}
	return dst
}

// String returns an Attr with a string.
func String(key, value string) Attr { return Attr{KeyValue: attribute.String(key, value)} }

// Int returns an integer attribute.
func Int(key string, value int64) Attr { return Attr{KeyValue: attribute.Int64(key, value)} }

// Float returns a floating-point attribute.
func Float(key string, value float64) Attr { return Attr{KeyValue: attribute.Float64(key, value)} }

// Bool returns a boolean attribute.
func Bool(key string, value bool) Attr { return Attr{KeyValue: attribute.Bool(key, value)} }

// Strings returns an attribute with a list of strings.
func Strings(key string, value []string) Attr {
	return Attr{KeyValue: attribute.StringSlice(key, value)}
}

// CountOf returns an attribute with a counter that may exceed int64:
// OpenTelemetry sees an int64 if the counter fits and the nearest float64
// otherwise; the file keeps every digit.
func CountOf(key string, c Count) Attr {
	if i, ok := c.Int64(); ok {
		return Int(key, i)
	}
	return Attr{KeyValue: attribute.Float64(key, c.Float64()), Exact: c}
}

// Extend marks attributes as extensions of one-logger, in place, and returns
// them.
func Extend(attrs ...Attr) []Attr {
	for i := range attrs {
		attrs[i].Extension = true
	}
	return attrs
}

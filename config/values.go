package config

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/redact"
	"github.com/trainspan/trainspan/internal/tracefile/pytext"
)

// Var is a setting that is either a value or a function that returns it. The
// zero Var is unset.
type Var[T any] = attributes.Opt[T]

// Value returns a Var with a value. A slice or map in v is shared, not copied.
func Value[T any](v T) Var[T] { return attributes.Some(v) }

// Func returns a Var that calls fn each time it is read. A nil fn returns an
// unset Var.
func Func[T any](fn func() T) Var[T] { return attributes.SomeFunc(fn) }

// Metadata is an ordered list of keys and values, reported in this order. A
// value is a string, bool, integer, float, a json.Number, a list of these, or
// nil. A nil Metadata is an empty list.
type Metadata []struct {
	Key   string
	Value any
}

// Pairs returns Metadata with alternating keys and values:
//
//	config.Pairs("model", "llama", "layers", 32)
//
// A key that is not a string is converted to text, and a last key without a
// value gets nil. A repeated key keeps its first place and last value.
func Pairs(keysAndValues ...any) Metadata {
	var m Metadata
	for pair := range slices.Chunk(keysAndValues, 2) {
		m = m.With(fmt.Sprint(pair[0]), append(pair, nil)[1])
	}
	return m
}

// Get returns the value of key and whether it exists.
func (m Metadata) Get(key string) (any, bool) {
	if i := m.index(key); i >= 0 {
		return m[i].Value, true
	}
	return nil, false
}

// With returns a copy with the value of key replaced or, if there is none,
// appended.
func (m Metadata) With(key string, value any) Metadata {
	c := slices.Clip(slices.Clone(m))
	if i := c.index(key); i >= 0 {
		c[i].Value = value
		return c
	}
	return append(c, Metadata{{key, value}}...)
}

// Strings returns each entry as "key:value", with the value as Python's str()
// writes it: True, None, 5.0, 1e-05, ['h200', 'b200'].
func (m Metadata) Strings() (out []string) {
	for _, e := range m {
		out = append(out, string(pytext.AppendStr([]byte(e.Key+":"), e.Value)))
	}
	return out
}

func (m Metadata) index(key string) int {
	for i := range m {
		if m[i].Key == key {
			return i
		}
	}
	return -1
}

// Headers are the request headers of an output, by name. They can be secrets,
// so printing, logging or marshalling a Headers shows the names and hides the
// values. Read the values through the map.
type Headers map[string]string

// Format writes the names, for every verb.
func (h Headers) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, h.names()) // a fmt.State cannot report write errors
}

// MarshalText returns the names, for encoding/json, YAML and log/slog.
func (h Headers) MarshalText() ([]byte, error) { return []byte(h.names()), nil }

func (h Headers) names() string {
	parts := make([]string, 0, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		parts = append(parts, name+"="+redact.Hidden)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

package config

import (
	"fmt"
	"slices"
)

// Metadata is an ordered list of keys and values: the order in which they were
// written is the order in which they are reported. A value is a string, bool,
// integer, float, a json.Number, a list of these, or nil. A nil Metadata is an
// empty list.
type Metadata []struct {
	Key   string
	Value any
}

// Pairs builds Metadata from keys and values in turn:
//
//	config.Pairs("model", "llama", "layers", 32)
//
// A key that is no string is written as text, and a last key without a value
// gets nil. A repeated key keeps its first place and its last value.
func Pairs(keysAndValues ...any) Metadata {
	var m Metadata
	for i := 0; i < len(keysAndValues); i += 2 {
		key, ok := keysAndValues[i].(string)
		if !ok {
			key = fmt.Sprint(keysAndValues[i])
		}
		var value any
		if i+1 < len(keysAndValues) {
			value = keysAndValues[i+1]
		}
		m = m.With(key, value)
	}
	return m
}

// Get returns the value of key and whether the key is there.
func (m Metadata) Get(key string) (any, bool) {
	if i := m.index(key); i >= 0 {
		return m[i].Value, true
	}
	return nil, false
}

// With returns a copy in which key has the value given: in its old place when
// the key is there already, else at the end. m itself stays as it is.
func (m Metadata) With(key string, value any) Metadata {
	c := slices.Clip(slices.Clone(m))
	if i := c.index(key); i >= 0 {
		c[i].Value = value
		return c
	}
	return append(c, struct {
		Key   string
		Value any
	}{key, value})
}

// Strings renders each entry as "key:value", the value written as Python's
// str() writes it: True, None, 5.0, 1e-05, ['h200', 'b200']. It returns nil for
// an empty list.
func (m Metadata) Strings() []string {
	if len(m) == 0 {
		return nil
	}
	out := make([]string, len(m))
	for i, e := range m {
		dst := append([]byte(e.Key), ':')
		out[i] = string(appendPyStr(dst, e.Value))
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

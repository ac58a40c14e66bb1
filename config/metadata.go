package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Entry is one item of [Metadata]. Value is a string, bool, integer, float, a
// json.Number, a list of these, or nil.
type Entry struct {
	Key   string
	Value any
}

// Metadata is an ordered list of keys and values: the order in which they were
// written is the order in which they are reported. Nil is an empty list.
type Metadata []Entry

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
	return append(c, Entry{Key: key, Value: value})
}

// Without returns a copy that lacks key.
func (m Metadata) Without(key string) Metadata {
	return slices.DeleteFunc(slices.Clone(m), func(e Entry) bool { return e.Key == key })
}

// Clone returns a copy with its own entries. Lists inside values are shared.
func (m Metadata) Clone() Metadata { return slices.Clone(m) }

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

// MarshalJSON writes the entries as one object, in their order.
func (m Metadata) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, e := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(e.Key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(e.Value)
		if err != nil {
			return nil, fmt.Errorf("config: metadata %q: %w", e.Key, err)
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads an object and keeps the order of its keys and the digits
// of its numbers, which become json.Number.
func (m *Metadata) UnmarshalJSON(data []byte) error {
	n, err := readJSON(data, "metadata")
	if err != nil {
		return err
	}
	switch v := n.plain().(type) {
	case nil:
		*m = nil
	case Metadata:
		*m = v
	default:
		return fmt.Errorf("config: metadata: must be an object")
	}
	return nil
}

func (m Metadata) index(key string) int {
	return slices.IndexFunc(m, func(e Entry) bool { return e.Key == key })
}

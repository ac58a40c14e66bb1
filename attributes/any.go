package attributes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
)

// Any makes an attribute of any Go value, for values that come from
// configuration, JSON or reflection. Scalars, slices of scalars, [Count],
// *big.Int and json.Number keep their type; a slice of mixed scalars keeps
// each item's type in files and becomes a list of strings for OpenTelemetry;
// a nil interface becomes a null; a map or a json.Marshaler becomes an object
// in files and its text for OpenTelemetry; anything else becomes its fmt text.
// It never fails and never panics.
func Any(key string, v any) Attr {
	switch v := v.(type) {
	case nil:
		return null(key)
	case string:
		return String(key, v)
	case bool:
		return Bool(key, v)
	case int:
		return Int(key, int64(v))
	case int8:
		return Int(key, int64(v))
	case int16:
		return Int(key, int64(v))
	case int32:
		return Int(key, int64(v))
	case int64:
		return Int(key, v)
	case uint8:
		return Int(key, int64(v))
	case uint16:
		return Int(key, int64(v))
	case uint32:
		return Int(key, int64(v))
	case uint:
		return CountOf(key, CountOfUint(uint64(v)))
	case uint64:
		return CountOf(key, CountOfUint(v))
	case float32:
		return Float(key, float64(v))
	case float64:
		return Float(key, v)
	case Count:
		return CountOf(key, v)
	case *big.Int:
		return BigInt(key, v)
	case json.Number:
		return number(key, v)
	case []string:
		return Strings(key, v)
	case []bool:
		return Attr{KeyValue: attribute.BoolSlice(key, v)}
	case []int:
		return Attr{KeyValue: attribute.IntSlice(key, v)}
	case []int64:
		return Attr{KeyValue: attribute.Int64Slice(key, v)}
	case []float64:
		return Attr{KeyValue: attribute.Float64Slice(key, v)}
	case []any:
		return list(key, v)
	case attribute.Value:
		return Attr{KeyValue: attribute.KeyValue{Key: attribute.Key(key), Value: v}}
	}
	switch v.(type) {
	case json.Marshaler, map[string]any:
		if t, err := marshal(v); err == nil {
			return Attr{KeyValue: attribute.String(key, string(t)), Exact: json.RawMessage(t)}
		}
	}
	return String(key, text(v))
}

// marshal is json.Marshal for values whose own methods may panic, without the
// escapes that are for HTML.
func marshal(v any) (_ []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// text renders a value whose own methods may panic on nil receivers.
func text(v any) (s string) {
	defer func() {
		if r := recover(); r != nil {
			s = fmt.Sprintf("%T", v)
		}
	}()
	return fmt.Sprint(v)
}

// number keeps the kind that the JSON text spells: a point or an exponent
// makes a float, anything else an integer of any size.
func number(key string, n json.Number) Attr {
	s := n.String()
	if !strings.ContainsAny(s, ".eE") {
		if b, ok := new(big.Int).SetString(s, 10); ok {
			return BigInt(key, b)
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return String(key, s)
	}
	return Float(key, f)
}

// list turns a mixed slice into the narrowest OpenTelemetry slice.
func list(key string, items []any) Attr {
	values := make([]Attr, len(items))
	kind := attribute.INVALID
	same := true
	exact := true
	for i, item := range items {
		values[i] = Any("", item)
		exact = exact && values[i].Exact == nil
		if i == 0 {
			kind = values[i].Value.Type()
		}
		same = same && values[i].Value.Type() == kind
	}
	if same && exact && len(items) > 0 {
		switch kind {
		case attribute.STRING:
			return Attr{KeyValue: attribute.StringSlice(key, collect(values, attribute.Value.AsString))}
		case attribute.BOOL:
			return Attr{KeyValue: attribute.BoolSlice(key, collect(values, attribute.Value.AsBool))}
		case attribute.INT64:
			return Attr{KeyValue: attribute.Int64Slice(key, collect(values, attribute.Value.AsInt64))}
		case attribute.FLOAT64:
			return Attr{KeyValue: attribute.Float64Slice(key, collect(values, attribute.Value.AsFloat64))}
		}
	}
	exactItems := make([]any, len(values))
	for i := range values {
		exactItems[i] = values[i].exactValue()
	}
	return Attr{
		KeyValue: attribute.StringSlice(key, collect(values, attribute.Value.Emit)),
		Exact:    exactItems,
	}
}

func collect[T any](values []Attr, get func(attribute.Value) T) []T {
	out := make([]T, len(values))
	for i := range values {
		out[i] = get(values[i].Value)
	}
	return out
}

// exactValue is the value of one list item for exporters that can write it.
func (a Attr) exactValue() any {
	if a.Exact != nil {
		return a.Exact
	}
	return a.Value.AsInterface()
}

// Package attrvalue defines attributes with exact values: integers beyond
// int64, null and lists of mixed types, which OpenTelemetry cannot hold. It
// converts any Go value to an attribute, and repairs attributes so that every
// output accepts them.
package attrvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
)

// maxDepth bounds how deep [Any] follows pointers and nested lists, which may
// be cyclic.
const maxDepth = 16

// Any converts any Go value to an attribute, for values from configuration,
// JSON or reflection. Scalars, slices of scalars, [Count], *big.Int and
// json.Number keep their kind, also as named types. A slice of mixed values
// keeps each item's type in files and becomes a list of strings for
// OpenTelemetry. Nil and nil pointers become null. A map or a json.Marshaler
// becomes its JSON in files and the JSON text for OpenTelemetry. A pointer
// becomes what it points to; anything else becomes its fmt text. A slice longer
// than [MaxListItems] is cut to one item more than that, so that [Clean] detects
// it. Any never fails and never panics.
func Any(key string, v any) Attr { return anyAt(key, v, 0) }

func anyAt(key string, v any, depth int) Attr {
	switch v := v.(type) {
	case nil:
		return null(key)
	case string:
		return String(key, v)
	case bool:
		return Bool(key, v)
	case int:
		return Int(key, int64(v))
	case int64:
		return Int(key, v)
	case float64:
		return Float(key, v)
	case Count:
		return CountOf(key, v)
	case *big.Int:
		return BigInt(key, v)
	case json.Number:
		return number(key, v)
	case []string:
		return Strings(key, v[:min(len(v), MaxListItems+1)])
	case []bool:
		return Attr{KeyValue: attribute.BoolSlice(key, v[:min(len(v), MaxListItems+1)])}
	case []int:
		return Attr{KeyValue: attribute.IntSlice(key, v[:min(len(v), MaxListItems+1)])}
	case []int64:
		return Attr{KeyValue: attribute.Int64Slice(key, v[:min(len(v), MaxListItems+1)])}
	case []float64:
		return Attr{KeyValue: attribute.Float64Slice(key, v[:min(len(v), MaxListItems+1)])}
	case []byte:
		return Attr{KeyValue: attribute.ByteSlice(key, v[:min(len(v), MaxValueBytes+1)])}
	case []any:
		return list(key, v, depth)
	case attribute.Value:
		return Attr{KeyValue: attribute.KeyValue{Key: attribute.Key(key), Value: v}}
	}
	return reflected(key, v, depth)
}

// reflected is Any for types without a case there.
func reflected(key string, v any, depth int) Attr {
	rv := reflect.ValueOf(v)
	if rv.Kind() == reflect.Pointer && rv.IsNil() {
		return null(key)
	}
	switch v := v.(type) {
	case json.Marshaler:
		if t, err := marshal(v); err == nil {
			return object(key, t)
		}
		return String(key, text(v))
	case error, fmt.Stringer, fmt.Formatter:
		return String(key, text(v))
	}
	if depth >= maxDepth {
		return String(key, fmt.Sprintf("%T", v))
	}
	switch rv.Kind() {
	case reflect.Bool:
		return Bool(key, rv.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return Int(key, rv.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return CountOf(key, CountOfUint(rv.Uint()))
	case reflect.Float32, reflect.Float64:
		return Float(key, rv.Float())
	case reflect.String:
		return String(key, rv.String())
	case reflect.Slice, reflect.Array:
		items := make([]any, min(rv.Len(), MaxListItems+1))
		for i := range items {
			items[i] = rv.Index(i).Interface()
		}
		return list(key, items, depth)
	case reflect.Pointer:
		if rv.Elem().Kind() != reflect.Struct {
			return anyAt(key, rv.Elem().Interface(), depth+1)
		}
	case reflect.Map:
		t, err := marshal(v)
		if err == nil {
			return object(key, t)
		}
		if cyclic(err) { // fmt would not end
			return String(key, fmt.Sprintf("%T", v))
		}
	}
	return String(key, text(v))
}

// object returns an attribute with JSON text as its value.
func object(key string, t []byte) Attr {
	switch t[0] {
	case '{', '[':
		return Attr{KeyValue: attribute.String(key, string(t)), Exact: json.RawMessage(t)}
	case '"':
		var s string
		if err := json.Unmarshal(t, &s); err == nil {
			return String(key, s)
		}
	case 't', 'f':
		return Bool(key, t[0] == 't')
	case 'n':
		return null(key)
	}
	return number(key, json.Number(t))
}

// marshal calls json.Marshal without HTML escapes, for values whose own methods
// may panic.
func marshal(v any) (_ []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("a method of the value panicked")
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

func cyclic(err error) bool {
	var unsupported *json.UnsupportedValueError
	return errors.As(err, &unsupported) && strings.Contains(unsupported.Str, "cycle")
}

// text renders a value whose own methods may panic.
func text(v any) (s string) {
	defer func() {
		if r := recover(); r != nil {
			s = fmt.Sprintf("%T", v)
		}
	}()
	return fmt.Sprint(v)
}

// number converts a JSON number: with a point or an exponent to a float,
// otherwise to an integer of any size.
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

// list converts a mixed slice to the narrowest OpenTelemetry slice.
func list(key string, items []any, depth int) Attr {
	if depth >= maxDepth {
		return String(key, fmt.Sprintf("%T", items))
	}
	items = items[:min(len(items), MaxListItems+1)]
	values := make([]Attr, len(items))
	kind := attribute.EMPTY
	same := true
	exact := true
	for i, item := range items {
		values[i] = anyAt("", item, depth+1)
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
		exactItems[i] = values[i].exact()
	}
	return Attr{
		KeyValue: attribute.StringSlice(key, collect(values, attribute.Value.String)),
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

// exact returns the value of one list item for exporters that can write exact
// values.
func (a Attr) exact() any {
	if a.Exact != nil {
		return a.Exact
	}
	switch a.Value.Type() {
	case attribute.BOOL, attribute.INT64, attribute.FLOAT64, attribute.STRING:
		return a.Value.AsInterface()
	}
	return a.Value
}

// BigInt returns an attribute with an integer of any size, with the same rule
// as [CountOf]. A nil pointer is a null.
func BigInt(key string, v *big.Int) Attr {
	switch {
	case v == nil:
		return null(key)
	case v.IsInt64():
		return Int(key, v.Int64())
	}
	f, _ := new(big.Float).SetInt(v).Float64()
	if math.IsInf(f, 0) {
		return Attr{KeyValue: attribute.String(key, v.String()), Exact: new(big.Int).Set(v)}
	}
	return Attr{KeyValue: attribute.Float64(key, f), Exact: new(big.Int).Set(v)}
}

func null(key string) Attr {
	return Attr{KeyValue: attribute.String(key, "null"), Exact: Null{}}
}

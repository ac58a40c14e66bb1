package attrvalue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"go.opentelemetry.io/otel/attribute"
)

func exactText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case json.RawMessage:
		return string(v)
	case []any:
		var items []string
		for _, item := range v {
			items = append(items, exactText(item))
		}
		return "[" + strings.Join(items, " ") + "]"
	case attribute.Value:
		return v.String()
	}
	return fmt.Sprint(v)
}

type (
	color  string
	level  int
	phase  uint8
	ratio  float32
	flag   bool
	object struct{ A, B int }
)

type textual struct{ s string }

func (t *textual) String() string { return t.s } // panics on nil

type broken int

func (broken) String() string { panic("no text") }

type brokenJSON struct{}

func (brokenJSON) MarshalJSON() ([]byte, error) { panic("no JSON") }

type jsonly struct{ text string }

func (j jsonly) MarshalJSON() ([]byte, error) { return []byte(j.text), nil }

type failing struct{}

func (failing) MarshalJSON() ([]byte, error) { return nil, errors.New("will not") }
func (failing) String() string               { return "failing" }

func TestAny(t *testing.T) {
	five := 5
	loop := map[string]any{"a": 1}
	loop["self"] = loop
	ring := []any{1}
	ring[0] = ring
	type pointer *pointer
	var itself pointer
	itself = &itself
	for _, c := range []struct {
		name  string
		value any
		kind  attribute.Type
		text  string
		exact string
	}{
		{"nil", nil, attribute.STRING, "null", "{}"},
		{"string", "héllo", attribute.STRING, "héllo", ""},
		{"bool", true, attribute.BOOL, "true", ""},
		{"int", -1, attribute.INT64, "-1", ""},
		{"int8", int8(-128), attribute.INT64, "-128", ""},
		{"int16", int16(-5), attribute.INT64, "-5", ""},
		{"int32", int32(5), attribute.INT64, "5", ""},
		{"int64", int64(math.MinInt64), attribute.INT64, "-9223372036854775808", ""},
		{"uint8", uint8(255), attribute.INT64, "255", ""},
		{"uint16", uint16(6), attribute.INT64, "6", ""},
		{"uint32", uint32(math.MaxUint32), attribute.INT64, "4294967295", ""},
		{"uint", uint(7), attribute.INT64, "7", ""},
		{"uint64 within", uint64(math.MaxInt64), attribute.INT64, "9223372036854775807", ""},
		{"uint64 beyond", uint64(math.MaxUint64), attribute.FLOAT64, "1.8446744073709552e+19", "18446744073709551615"},
		{"float32", float32(0.5), attribute.FLOAT64, "0.5", ""},
		{"float64", 1e300, attribute.FLOAT64, "1e+300", ""},
		{"NaN", math.NaN(), attribute.FLOAT64, "NaN", ""},
		{"Count", attrvalue.CountOfUint(1 << 63), attribute.FLOAT64, "9.223372036854776e+18", "9223372036854775808"},
		{"big.Int", big.NewInt(3), attribute.INT64, "3", ""},
		{"nil big.Int", (*big.Int)(nil), attribute.STRING, "null", "{}"},
		{"json integer", json.Number("12"), attribute.INT64, "12", ""},
		{"json integer beyond", json.Number("7046430720000000000000"), attribute.FLOAT64, "7.04643072e+21", "7046430720000000000000"},
		{"json float", json.Number("5.0"), attribute.FLOAT64, "5", ""},
		{"json exponent", json.Number("1e3"), attribute.FLOAT64, "1000", ""},
		{"json float beyond", json.Number("1e999"), attribute.FLOAT64, "+Inf", ""},
		{"json nonsense", json.Number("one"), attribute.STRING, "one", ""},
		{"json nothing", json.Number(""), attribute.STRING, "", ""},
		{"named string", color("red"), attribute.STRING, "red", ""},
		{"named int", level(3), attribute.INT64, "3", ""},
		{"named uint8", phase(3), attribute.INT64, "3", ""},
		{"named float", ratio(0.25), attribute.FLOAT64, "0.25", ""},
		{"named bool", flag(true), attribute.BOOL, "true", ""},
		{"named with text", 1500 * time.Millisecond, attribute.STRING, "1.5s", ""},
		{"error", errors.New("bad"), attribute.STRING, "bad", ""},
		{"strings", []string{"a", "b"}, attribute.STRINGSLICE, `["a","b"]`, ""},
		{"bools", []bool{true, false}, attribute.BOOLSLICE, "[true,false]", ""},
		{"ints", []int{1, 2}, attribute.INT64SLICE, "[1,2]", ""},
		{"int64s", []int64{1, 2}, attribute.INT64SLICE, "[1,2]", ""},
		{"int32s", []int32{1, 2}, attribute.INT64SLICE, "[1,2]", ""},
		{"uint64s", []uint64{1, 2}, attribute.INT64SLICE, "[1,2]", ""},
		{"float64s", []float64{0.5}, attribute.FLOAT64SLICE, "[0.5]", ""},
		{"float32s", []float32{0.5, 2}, attribute.FLOAT64SLICE, "[0.5,2]", ""},
		{"array", [2]int8{1, 2}, attribute.INT64SLICE, "[1,2]", ""},
		{"named strings", []color{"red"}, attribute.STRINGSLICE, `["red"]`, ""},
		{"bytes", []byte("hi"), attribute.BYTESLICE, "aGk=", ""},
		{"one kind", []any{1, int8(2)}, attribute.INT64SLICE, "[1,2]", ""},
		{"mixed", []any{1, "a", 2.5, true, nil}, attribute.STRINGSLICE, `["1","a","2.5","true","null"]`, "[1 a 2.5 true {}]"},
		{"beyond int64 in a list", []any{1, uint64(1 << 63)}, attribute.STRINGSLICE, `["1","9.223372036854776e+18"]`, "[1 9223372036854775808]"},
		{"list of lists", []any{[]string{"a"}, []int{1}}, attribute.STRINGSLICE, `["[\"a\"]","[1]"]`, `[["a"] [1]]`},
		{"empty list", []any{}, attribute.STRINGSLICE, "[]", "[]"},
		{"nil list", []any(nil), attribute.STRINGSLICE, "[]", "[]"},
		{"map", map[string]any{"b": 1, "a": "<x>"}, attribute.STRING, `{"a":"<x>","b":1}`, `{"a":"<x>","b":1}`},
		{"map of ints", map[string]int{"a": 1}, attribute.STRING, `{"a":1}`, `{"a":1}`},
		{"nil map", map[string]any(nil), attribute.STRING, "null", "{}"},
		{"map of what JSON cannot hold", map[string]any{"a": math.Inf(1)}, attribute.STRING, "map[a:+Inf]", ""},
		{"map of itself", loop, attribute.STRING, "map[string]interface {}", ""},
		{"marshaler, object", jsonly{"{ \"a\" : 1 }"}, attribute.STRING, `{"a":1}`, `{"a":1}`},
		{"marshaler, string", time.Unix(0, 0).UTC(), attribute.STRING, "1970-01-01T00:00:00Z", ""},
		{"marshaler, number", jsonly{"1.5"}, attribute.FLOAT64, "1.5", ""},
		{"marshaler, bool", jsonly{"false"}, attribute.BOOL, "false", ""},
		{"marshaler, null", jsonly{"null"}, attribute.STRING, "null", "{}"},
		{"marshaler that fails", failing{}, attribute.STRING, "failing", ""},
		{"raw message", json.RawMessage("[1,\n2]"), attribute.STRING, "[1,2]", "[1,2]"},
		{"struct", object{1, 2}, attribute.STRING, "{1 2}", ""},
		{"pointer", &five, attribute.INT64, "5", ""},
		{"nil pointer", (*int)(nil), attribute.STRING, "null", "{}"},
		{"nil pointer with text", (*textual)(nil), attribute.STRING, "null", "{}"},
		{"pointer with text", &textual{"text"}, attribute.STRING, "text", ""},
		{"value", attribute.Int64SliceValue([]int64{4}), attribute.INT64SLICE, "[4]", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := attrvalue.Any("key", c.value)
			if a.Key != "key" || a.Value.Type() != c.kind {
				t.Fatalf("attribute %q = %s of kind %v, want kind %v", a.Key, a.Value.String(), a.Value.Type(), c.kind)
			}
			if c.kind == attribute.FLOAT64 {
				if got := fmt.Sprint(a.Value.AsFloat64()); got != c.text {
					t.Errorf("value is %s, want %s", got, c.text)
				}
			} else if got := a.Value.String(); got != c.text {
				t.Errorf("value is %s, want %s", got, c.text)
			}
			if got := exactText(a.Exact); got != c.exact {
				t.Errorf("exact: got %s, want %s", got, c.exact)
			}
		})
	}
	for name, v := range map[string]any{
		"String panics":      broken(1),
		"MarshalJSON panics": brokenJSON{},
		"list of itself":     ring,
		"pointer to itself":  itself,
		"func":               func() {},
		"channel":            make(chan int),
		"list of panics":     []any{broken(1), brokenJSON{}},
		"map of panics":      map[string]any{"a": brokenJSON{}},
	} {
		t.Run(name, func(t *testing.T) {
			if a := attrvalue.Any("key", v); a.Key != "key" || a.Value.String() == "" {
				t.Errorf("Any(%T) = %v, want the key and a value", v, a)
			}
		})
	}
}

func TestAnyIsBounded(t *testing.T) {
	for name, v := range map[string]any{
		"ints":   make([]int, 1<<20),
		"any":    make([]any, 1<<20),
		"uint16": make([]uint16, 1<<20),
		"bytes":  make([]byte, 1<<20),
	} {
		attrs, repaired := attrvalue.Clean([]attrvalue.Attr{attrvalue.Any(name, v)})
		if repaired != 1 {
			t.Errorf("%s: Clean repaired %d values, want 1: the list is too long", name, repaired)
		}
		if n := len(attrs[0].Value.String()); n > 2*attrvalue.MaxValueBytes {
			t.Errorf("%s: %d bytes are left, want at most %d", name, n, 2*attrvalue.MaxValueBytes)
		}
	}
}

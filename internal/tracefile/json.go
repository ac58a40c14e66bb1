package tracefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
)

// JSON returns the JSON text of a list or an object (a slice or a map) for
// [Raw]. NaN and infinities become the strings of [Float]. A value that JSON
// cannot represent, such as a function, becomes a descriptive string.
func JSON(v any) string {
	text, err := encodeJSON(v)
	if err != nil {
		if text, err = encodeJSON(finite(reflect.ValueOf(v))); err != nil {
			text, _ = encodeJSON(fmt.Sprint(v))
		}
	}
	return text
}

func encodeJSON(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// finite returns a copy of a value with strings in place of NaN and infinities.
func finite(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			arg := Float("", f)
			return json.RawMessage(AppendArg(arg, nil, V2))
		}
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			return finite(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break // bytes become one string
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = finite(v.Index(i))
		}
		return list
	case reflect.Map:
		m := make(map[string]any, v.Len())
		for _, key := range v.MapKeys() {
			m[fmt.Sprint(key)] = finite(v.MapIndex(key))
		}
		return m
	case reflect.Invalid:
		return nil
	}
	return v.Interface()
}

// FromJSON returns the argument for one value of valid JSON. Numbers without a
// fraction become integers if they fit, booleans become the integers of [Bool],
// and null, lists and objects stay JSON.
func FromJSON(key string, text []byte) Arg {
	a := Raw("", "null")
	if len(text) > 0 {
		a = generalValue(text)
	}
	a.Key = key
	return a.truth()
}

// truth converts a boolean to an integer.
func (a Arg) truth() Arg {
	if a.kind == KindRaw && (a.str == "true" || a.str == "false") {
		return Bool(a.Key, a.str == "true")
	}
	return a
}

// AppendObject appends the members of a JSON object as arguments, converted by
// [FromJSON], in their order. If text is not a valid object, ok is false and
// the members before the error are appended. It keeps no part of text.
func AppendObject(dst []Arg, text []byte) (args []Arg, ok bool) {
	p := objects.Get().(*Parser)
	defer objects.Put(p)
	if args, ok = p.object(dst, text); ok {
		return args, true
	}
	if from := bytes.TrimSpace(text); len(from) == 0 || from[0] != '{' {
		return dst, false
	}
	err := p.members(json.NewDecoder(bytes.NewReader(text)), func(key string, value json.RawMessage) error {
		dst = append(dst, FromJSON(key, value))
		return nil
	})
	return dst, err == nil && json.Valid(text)
}

// objects holds parsers whose interned strings can be reused.
var objects = sync.Pool{New: func() any { return &Parser{} }}

// object parses the common form of an object in one pass.
func (p *Parser) object(dst []Arg, b []byte) ([]Arg, bool) {
	if len(b) < 2 || b[0] != '{' {
		return dst, false
	}
	if len(b) == 2 {
		return dst, b[1] == '}'
	}
	for i, ok := 1, false; ; i++ {
		key, next := plainString(b, i)
		if next < 0 || next >= len(b) || b[next] != ':' {
			return dst, false
		}
		a := Arg{Key: p.intern.get(key)}
		if i, ok = p.value(b, next+1, &a); !ok || i >= len(b) || b[i] != ',' && b[i] != '}' {
			return dst, false
		}
		dst = append(dst, a.truth())
		if b[i] == '}' {
			return dst, i == len(b)-1
		}
	}
}

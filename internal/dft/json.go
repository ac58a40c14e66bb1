package dft

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// JSON returns the text of a list or an object (a slice or a map) for [Raw]. Of floats
// that JSON has no words for it writes those of [Float]. What cannot be JSON at all, such
// as a function, is a string that shows it.
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

// finite returns a copy of a value with words in place of floats that are none.
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
			break // bytes are one text
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

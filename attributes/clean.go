package attributes

import (
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
)

// MaxValueBytes is the longest string that [Clean] leaves alone, and the sum
// of the strings of a list. A longer value would make a backend refuse the
// whole batch that it travels in.
const MaxValueBytes = 16 << 10

// MaxListItems is the longest list that [Clean] leaves alone.
const MaxListItems = 1024

// shortened ends a value that was cut.
const shortened = "…"

// Clean mends, in place, keys and values that exporters could not take:
// invalid UTF-8 becomes U+FFFD, values over [MaxValueBytes] and lists over
// [MaxListItems] are cut. It returns attrs and the number of attributes that
// it changed.
func Clean(attrs []Attr) (_ []Attr, mended int) {
	for i := range attrs {
		if attrs[i].clean() {
			mended++
		}
	}
	return attrs, mended
}

// CleanKeyValue is [Clean] for a single OpenTelemetry attribute.
func CleanKeyValue(kv attribute.KeyValue) (attribute.KeyValue, bool) {
	a := Attr{KeyValue: kv}
	mended := a.clean()
	return a.KeyValue, mended
}

// CleanString is [Clean] for a single string.
func CleanString(s string) (string, bool) { return cleanString(s, MaxValueBytes) }

func (a *Attr) clean() (mended bool) {
	if key, changed := CleanString(string(a.Key)); changed {
		a.Key, mended = attribute.Key(key), true
	}
	switch a.Value.Type() {
	case attribute.INVALID:
		*a = null(string(a.Key))
		return true
	case attribute.STRING:
		if s, changed := CleanString(a.Value.AsString()); changed {
			a.Value, mended = attribute.StringValue(s), true
		}
	case attribute.STRINGSLICE:
		if list, changed := cleanStrings(a.Value.AsStringSlice()); changed {
			a.Value, a.Exact, mended = attribute.StringSliceValue(list), nil, true
		}
	case attribute.BOOLSLICE:
		if v := a.Value.AsBoolSlice(); len(v) > MaxListItems {
			a.Value, mended = attribute.BoolSliceValue(v[:MaxListItems]), true
		}
	case attribute.INT64SLICE:
		if v := a.Value.AsInt64Slice(); len(v) > MaxListItems {
			a.Value, mended = attribute.Int64SliceValue(v[:MaxListItems]), true
		}
	case attribute.FLOAT64SLICE:
		if v := a.Value.AsFloat64Slice(); len(v) > MaxListItems {
			a.Value, mended = attribute.Float64SliceValue(v[:MaxListItems]), true
		}
	}
	return mended
}

func cleanString(s string, limit int) (string, bool) {
	if len(s) <= limit && utf8.ValidString(s) {
		return s, false
	}
	cut := len(s) > limit
	if cut {
		s = s[:limit-len(shortened)]
		for i := 0; i < utf8.UTFMax && len(s) > 0; i++ { // do not end inside a character
			if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size > 1 {
				break
			}
			s = s[:len(s)-1]
		}
	}
	s = strings.ToValidUTF8(s, "�")
	if cut {
		s += shortened
	}
	return s, true
}

func cleanStrings(list []string) ([]string, bool) {
	changed := false
	if len(list) > MaxListItems {
		list, changed = list[:MaxListItems], true
	}
	left := MaxValueBytes
	var out []string
	for i, s := range list {
		fixed, c := cleanString(s, max(left, len(shortened)))
		left -= len(fixed)
		if c && out == nil {
			out = append(make([]string, 0, len(list)), list[:i]...)
		}
		if out != nil {
			out = append(out, fixed)
		}
		changed = changed || c
	}
	if out == nil {
		out = list
	}
	return out, changed
}

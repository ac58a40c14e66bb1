package attrvalue

import (
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
)

// MaxValueBytes is the length of the longest string that [Clean] does not cut,
// and the limit for the sum of the strings of a list. A backend would refuse
// the whole batch of a longer value.
const MaxValueBytes = 16 << 10

// MaxListItems is the length of the longest list that [Clean] does not cut.
const MaxListItems = 1024

// shortened ends a value that was cut.
const shortened = "…"

// Clean repairs, in place, keys and values that exporters could not accept:
// invalid UTF-8 becomes U+FFFD, values over [MaxValueBytes] and lists over
// [MaxListItems] are cut, a nested list or map of OpenTelemetry that is too
// large or has invalid UTF-8 becomes its JSON text, and a key without a value
// gets null. A repaired attribute loses its Exact value. It returns attrs and
// the number of changed attributes. A second call changes nothing.
func Clean(attrs []Attr) (_ []Attr, repaired int) {
	for i := range attrs {
		if attrs[i].clean() {
			repaired++
		}
	}
	return attrs, repaired
}

// CleanKeyValue is [Clean] for a single OpenTelemetry attribute.
func CleanKeyValue(kv attribute.KeyValue) (attribute.KeyValue, bool) {
	a := Attr{KeyValue: kv}
	repaired := a.clean()
	return a.KeyValue, repaired
}

// CleanString is [Clean] for a single string.
func CleanString(s string) (string, bool) { return cleanString(s, MaxValueBytes) }

func (a *Attr) clean() (repaired bool) {
	if key, changed := CleanString(string(a.Key)); changed {
		a.Key, repaired = attribute.Key(key), true
	}
	if a.Value.Type() == attribute.EMPTY {
		a.Value, a.Exact = attribute.StringValue("null"), Null{}
		return true
	}
	if v, changed := cleanValue(a.Value); changed {
		a.Value, a.Exact, repaired = v, nil, true
	}
	return repaired
}

func cleanValue(v attribute.Value) (_ attribute.Value, repaired bool) {
	switch v.Type() {
	case attribute.STRING:
		if s, changed := CleanString(v.AsString()); changed {
			return attribute.StringValue(s), true
		}
	case attribute.STRINGSLICE:
		if list, changed := cleanStrings(v.AsStringSlice()); changed {
			return attribute.StringSliceValue(list), true
		}
	case attribute.BOOLSLICE:
		if list := v.AsBoolSlice(); len(list) > MaxListItems {
			return attribute.BoolSliceValue(list[:MaxListItems]), true
		}
	case attribute.INT64SLICE:
		if list := v.AsInt64Slice(); len(list) > MaxListItems {
			return attribute.Int64SliceValue(list[:MaxListItems]), true
		}
	case attribute.FLOAT64SLICE:
		if list := v.AsFloat64Slice(); len(list) > MaxListItems {
			return attribute.Float64SliceValue(list[:MaxListItems]), true
		}
	case attribute.BYTESLICE:
		if b := v.AsByteSlice(); len(b) > MaxValueBytes {
			return attribute.ByteSliceValue(b[:MaxValueBytes]), true
		}
	case attribute.SLICE, attribute.MAP:
		if left := MaxValueBytes; !fits(v, &left) { // its JSON text, cut
			s, _ := CleanString(v.String())
			return attribute.StringValue(s), true
		}
	}
	return v, false
}

// fits reports whether a nested value holds only valid text and subtracts its
// size from left. Every item counts at least one byte.
func fits(v attribute.Value, left *int) bool {
	const item = MaxValueBytes / MaxListItems
	*left -= item
	switch v.Type() {
	case attribute.MAP:
		for _, kv := range v.AsMap() {
			*left -= len(kv.Key)
			if *left < 0 || !utf8.ValidString(string(kv.Key)) || !fits(kv.Value, left) {
				return false
			}
		}
	case attribute.SLICE:
		for _, one := range v.AsSlice() {
			if !fits(one, left) {
				return false
			}
		}
	case attribute.STRING:
		*left -= len(v.AsString())
		return *left >= 0 && utf8.ValidString(v.AsString())
	case attribute.STRINGSLICE:
		for _, s := range v.AsStringSlice() {
			*left -= item + len(s)
			if *left < 0 || !utf8.ValidString(s) {
				return false
			}
		}
	case attribute.BYTESLICE:
		*left -= len(v.AsByteSlice())
	case attribute.BOOLSLICE:
		*left -= item * len(v.AsBoolSlice())
	case attribute.INT64SLICE:
		*left -= item * len(v.AsInt64Slice())
	case attribute.FLOAT64SLICE:
		*left -= item * len(v.AsFloat64Slice())
	}
	return *left >= 0
}

func cleanString(s string, limit int) (string, bool) {
	if len(s) <= limit && utf8.ValidString(s) {
		return s, false
	}
	cut := len(s) > limit
	if cut {
		s = s[:limit]
	}
	s = strings.ToValidUTF8(s, "\uFFFD") // may be longer than before
	if cut || len(s) > limit {
		end := min(len(s), limit-len(shortened))
		for end > 0 && end < len(s) && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + shortened
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

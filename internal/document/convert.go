package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The functions below turn a value of a document, a variable or a program into a type.
// They are lax: a whole float and a number in quotes are integers. The error states what
// is wanted; the caller adds the value and its place.

// Text returns a string. A number is refused, since it may not come out as it was written.
func Text(v any) (string, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	if _, mapping := v.(Mapping); mapping || v == nil || reflect.ValueOf(v).Kind() == reflect.Slice {
		return "", errors.New("must be a string")
	}
	return "", errors.New("must be a string; put it in quotes")
}

// Int reads digits, also with single underscores between them, or a float without a
// fraction.
func Int(v any) (int, error) {
	switch v.(type) {
	case string, json.Number, fmt.Stringer: // a *big.Int
	default:
		if k := reflect.ValueOf(v).Kind(); k < reflect.Int || k > reflect.Float64 {
			return 0, errors.New("must be an integer")
		}
	}
	digits := strings.TrimSpace(fmt.Sprint(v))
	if !strings.HasPrefix(digits, "_") && !strings.HasSuffix(digits, "_") && !strings.Contains(digits, "__") {
		digits = strings.ReplaceAll(digits, "_", "")
	}
	i, err := strconv.Atoi(digits)
	if err == nil {
		return i, nil
	}
	f, ferr := strconv.ParseFloat(digits, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("does not fit in %d bits", strconv.IntSize)
	case ferr != nil || strings.ContainsAny(digits, "xXpP_"):
		return 0, errors.New("must be an integer")
	case math.IsNaN(f) || math.IsInf(f, 0):
		return 0, errors.New("must be a finite integer")
	case f != math.Trunc(f):
		return 0, errors.New("must be an integer without a fraction")
	case f < math.MinInt || f >= math.MaxInt:
		return 0, fmt.Errorf("does not fit in %d bits", strconv.IntSize)
	}
	return int(f), nil
}

// Bool reads true, yes, on, 1 and their opposites, in any case.
func Bool(v any) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(fmt.Sprint(v))) {
	case "1", "true", "t", "yes", "y", "on":
		return true, nil
	case "0", "false", "f", "no", "n", "off":
		return false, nil
	}
	return false, errors.New("must be true or false")
}

// Duration reads Go's notation. A bare number has no unit, so only zero is understood.
func Duration(v any) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(fmt.Sprint(v)))
	if err != nil {
		return 0, errors.New(`must be a duration with its unit, such as "500ms" or "10s"`)
	}
	return d, nil
}

// Texts returns a list of strings.
func Texts(v any) ([]string, error) {
	if list, ok := v.([]string); ok {
		return slices.Clone(list), nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, errors.New("must be a list of strings")
	}
	out := make([]string, len(list))
	for i, item := range list {
		var err error
		if out[i], err = Text(item); err != nil {
			return nil, fmt.Errorf("must be a list of strings; item %d is not a string", i)
		}
	}
	return out, nil
}

// List splits a text and leaves out blank items.
func List(text, separator string) []string {
	items := []string{}
	for item := range strings.SplitSeq(text, separator) {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// Pairs reads "key=value,key=value" with percent-encoded values, as OpenTelemetry's
// variables have them. Its errors show no value: headers are written this way.
func Pairs(text string) (any, error) {
	m := Mapping{}
	for _, item := range List(text, ",") {
		key, value, ok := strings.Cut(item, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, errors.New("must be written key=value,key=value")
		}
		key, keyErr := url.PathUnescape(key)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil || keyErr != nil {
			return nil, errors.New("must be percent-encoded: a value has a stray %")
		}
		m = append(m, Entry{Key: key, Value: value})
	}
	return m, nil
}

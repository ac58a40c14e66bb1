package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/platform/document"
)

// assign sets a field to a value of a file, a variable or a program, or returns
// what the field requires. The conversions are as lenient as one-logger's: a
// whole float and a number in quotes count as integers.
func assign(dst reflect.Value, v any) error {
	switch p := dst.Addr().Interface().(type) {
	case *Var[string]:
		return assignVar(p, v, toText)
	case *Var[int]:
		return assignVar(p, v, toInt)
	case *Var[bool]:
		return assignVar(p, v, toBool)
	case *Var[[]string]:
		return assignVar(p, v, toTexts)
	case *[]string:
		return assignTo(p, v, toTexts)
	case *int:
		return assignTo(p, v, toInt)
	case *time.Duration:
		return assignTo(p, v, toDuration)
	case *Metadata:
		return assignTo(p, v, toMetadata)
	case *Headers:
		return assignTo(p, v, toHeaders)
	}
	s, err := toText(v)
	dst.SetString(s) // string, or a type such as ErrorStrategy
	return err
}

func assignTo[T any](dst *T, v any, convert func(any) (T, error)) (err error) {
	*dst, err = convert(v)
	return err
}

// assignVar also accepts a function. A result that does not fit counts as zero
// at each call; validation refuses zero if it matters.
func assignVar[T any](dst *Var[T], v any, convert func(any) (T, error)) error {
	if f, ok := v.(func() any); ok {
		*dst = Func(func() T { t, _ := convert(f()); return t })
		return nil
	}
	t, err := convert(v)
	*dst = Value(t)
	return err
}

// toText refuses numbers, because they might not keep their spelling.
func toText(v any) (string, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	if isScalar(v) {
		return "", errors.New("must be a string; put it in quotes")
	}
	return "", errors.New("must be a string")
}

// toInt accepts digits, also with single underscores between them, and a float
// without a fraction.
func toInt(v any) (int, error) {
	switch v.(type) {
	case string, json.Number:
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

// toBool accepts true, yes, on, 1 and their opposites, in any case.
func toBool(v any) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(fmt.Sprint(v))) {
	case "1", "true", "t", "yes", "y", "on":
		return true, nil
	case "0", "false", "f", "no", "n", "off":
		return false, nil
	}
	return false, errors.New("must be true or false")
}

// toDuration accepts Go's notation. A bare number has no unit, so only zero is
// accepted.
func toDuration(v any) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(fmt.Sprint(v)))
	if err != nil {
		return 0, errors.New(`must be a duration with its unit, such as "500ms" or "10s"`)
	}
	return d, nil
}

func toTexts(v any) ([]string, error) {
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
		if out[i], err = toText(item); err != nil {
			return nil, fmt.Errorf("must be a list of strings; item %d is not a string", i)
		}
	}
	return out, nil
}

func toMetadata(v any) (Metadata, error) {
	m, ok := toGo(v).(Metadata)
	if !ok {
		return nil, errors.New("must be a mapping of keys to values")
	}
	return m, nil
}

// toHeaders has no values in its errors, because headers can be secrets.
func toHeaders(v any) (Headers, error) {
	m, ok := entries(v)
	if !ok {
		return nil, errors.New("must be a mapping of names to values")
	}
	h := Headers{}
	for _, e := range m {
		s, err := toText(e.Value)
		if _, twice := h[e.Key]; twice {
			err = errors.New("given twice")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", shown(e.Key), err)
		}
		h[e.Key] = s
	}
	return h, nil
}

// isScalar reports whether v is a text, a bool or a number.
func isScalar(v any) bool {
	k := reflect.ValueOf(v).Kind()
	return k == reflect.String || k >= reflect.Bool && k <= reflect.Float64
}

// entries returns the keys of a mapping of a document or of a program, if v is
// one. Those of a Go map are sorted by name.
func entries(v any) (m document.Mapping, ok bool) {
	switch v := v.(type) {
	case document.Mapping:
		return v, true
	case Metadata:
		for _, e := range v {
			m = append(m, document.Entry{Key: e.Key, Value: e.Value})
		}
		return m, true
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			m = append(m, document.Entry{Key: key, Value: v[key]})
		}
		return m, true
	}
	return nil, false
}

// toGo converts the mappings in a value to Metadata.
func toGo(v any) any {
	if list, ok := v.([]any); ok {
		list = slices.Clone(list)
		for i := range list {
			list[i] = toGo(list[i])
		}
		return list
	}
	entries, ok := entries(v)
	if !ok {
		return v
	}
	m := make(Metadata, len(entries))
	for i, e := range entries {
		m[i].Key, m[i].Value = e.Key, toGo(e.Value)
	}
	return m
}

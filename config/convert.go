package config

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// The converters turn a value from a source into the type of a field. They are
// as lax as the reference: a whole float and a number in quotes are integers.
// The error says what is wanted; the caller adds the field and the value.

func toText(v any) (string, error) {
	if _, number := v.(json.Number); !number {
		if rv := reflect.ValueOf(v); rv.Kind() == reflect.String {
			return rv.String(), nil
		}
	}
	switch v.(type) {
	case nil, Metadata, []any:
		return "", fmt.Errorf("must be a string")
	}
	return "", fmt.Errorf("must be a string; put it in quotes")
}

func toInt(v any) (int, error) {
	switch x := v.(type) {
	case string:
		return parseInt(x)
	case json.Number:
		return parseInt(string(x))
	case *big.Int:
		return fitInt(x)
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fitInt(big.NewInt(rv.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return fitInt(new(big.Int).SetUint64(rv.Uint()))
	case reflect.Float32, reflect.Float64:
		return wholeFloat(rv.Float())
	}
	return 0, fmt.Errorf("must be an integer")
}

// parseInt reads digits, also with single underscores between them, or a float
// without a fraction.
func parseInt(s string) (int, error) {
	s = strings.TrimSpace(s)
	if len(s) > 400 {
		return 0, fmt.Errorf("must be an integer of fewer digits")
	}
	digits := s
	if !strings.HasPrefix(s, "_") && !strings.HasSuffix(s, "_") && !strings.Contains(s, "__") {
		digits = strings.ReplaceAll(s, "_", "")
	}
	if i, ok := new(big.Int).SetString(digits, 10); ok {
		return fitInt(i)
	}
	if f, err := strconv.ParseFloat(digits, 64); err == nil && !strings.ContainsAny(digits, "xXpP_") {
		return wholeFloat(f)
	}
	return 0, fmt.Errorf("must be an integer")
}

func fitInt(i *big.Int) (int, error) {
	if !i.IsInt64() || int64(int(i.Int64())) != i.Int64() {
		return 0, fmt.Errorf("does not fit in %d bits", strconv.IntSize)
	}
	return int(i.Int64()), nil
}

func wholeFloat(f float64) (int, error) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return 0, fmt.Errorf("must be a finite integer")
	case f != math.Trunc(f):
		return 0, fmt.Errorf("must be an integer without a fraction")
	}
	i, _ := big.NewFloat(f).Int(nil)
	return fitInt(i)
}

func toBool(v any) (bool, error) {
	if rv := reflect.ValueOf(v); rv.Kind() == reflect.Bool {
		return rv.Bool(), nil
	}
	if s, ok := v.(string); ok {
		switch strings.ToLower(strings.TrimSpace(s)) {
		case "1", "true", "t", "yes", "y", "on":
			return true, nil
		case "0", "false", "f", "no", "n", "off":
			return false, nil
		}
	} else if i, err := toInt(v); err == nil && (i == 0 || i == 1) {
		return i == 1, nil
	}
	return false, fmt.Errorf("must be true or false")
}

// toDuration reads Go's notation. A bare number has no unit, so only zero is
// understood.
func toDuration(v any) (time.Duration, error) {
	if d, ok := v.(time.Duration); ok {
		return d, nil
	}
	if s, ok := v.(string); ok {
		if d, err := time.ParseDuration(strings.TrimSpace(s)); err == nil {
			return d, nil
		}
	} else if i, err := toInt(v); err == nil && i == 0 {
		return 0, nil
	}
	return 0, fmt.Errorf(`must be a duration with its unit, such as "500ms" or "10s"`)
}

func toTexts(v any) ([]string, error) {
	if list, ok := v.([]string); ok {
		return append([]string{}, list...), nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("must be a list of strings")
	}
	out := make([]string, len(list))
	for i, item := range list {
		s, err := toText(item)
		if err != nil {
			return nil, fmt.Errorf("must be a list of strings; item %d is none", i)
		}
		out[i] = s
	}
	return out, nil
}

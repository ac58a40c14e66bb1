package python

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/trainspan/trainspan/dftracer"
)

// maxArgs bounds the arguments of one span.
const maxArgs = 64

// appendObject appends the members of a JSON object in their order. What is no
// number, string or truth value stays JSON.
func appendObject(dst []dftracer.Arg, text []byte) []dftracer.Arg {
	if len(text) == 0 {
		return dst
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return dst
	}
	for len(dst) < maxArgs && d.More() {
		t, err := d.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return dst
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return dst
		}
		dst = upsert(dst, argument(key, value))
	}
	return dst
}

func argument(key string, value json.RawMessage) dftracer.Arg {
	switch value[0] {
	case '"':
		var s string
		_ = json.Unmarshal(value, &s)
		return dftracer.String(key, s)
	case 't', 'f':
		return dftracer.Bool(key, value[0] == 't')
	case '{', '[', 'n':
		return dftracer.Raw(key, string(value))
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return dftracer.Int(key, n)
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil && !math.IsInf(f, 0) {
		return dftracer.String(key, string(value))
	}
	return dftracer.Float(key, f)
}

// upsert sets an argument: that of a known key in its place.
func upsert(args []dftracer.Arg, a dftracer.Arg) []dftracer.Arg {
	for i := range args {
		if args[i].Key == a.Key {
			args[i] = a
			return args
		}
	}
	return append(args, a)
}

// take removes an integer argument and gives it, or was.
func take(args []dftracer.Arg, key string, was int64) ([]dftracer.Arg, int64) {
	for i := range args {
		if args[i].Key != key {
			continue
		}
		if n, err := strconv.ParseInt(args[i].Text(), 10, 64); err == nil {
			return append(args[:i:i], args[i+1:]...), n
		}
	}
	return args, was
}

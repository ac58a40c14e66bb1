package pydrain

import (
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
)

// maxArgs bounds the arguments of one span.
const maxArgs = 64

// appendObject appends the first members of a JSON object in their order.
func appendObject(dst []dftracer.Arg, text []byte) []dftracer.Arg {
	if len(text) == 0 {
		return dst
	}
	var few [8]dftracer.Arg
	all, _ := dft.AppendObject(few[:0], text) // of a damaged one what is before
	for _, a := range all[:min(len(all), maxArgs)] {
		dst = upsert(dst, a)
	}
	return dst
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

// take removes an integer argument and returns it, or was.
func take(args []dftracer.Arg, key string, was int64) ([]dftracer.Arg, int64) {
	for i := range args {
		if args[i].Key != key {
			continue
		}
		if n, ok := dft.Whole(args[i]); ok {
			return append(args[:i:i], args[i+1:]...), n
		}
	}
	return args, was
}

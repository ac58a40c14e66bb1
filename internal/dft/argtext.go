package dft

import "github.com/trainspan/trainspan/internal/jsontext"

// Plain reports whether an argument of that name is written under it whatever
// the others are: the name is short, needs no escapes, and the format does not
// own it.
func Plain(key string) bool {
	if len(key) > 32 || owned(key) {
		return false
	}
	for i := range len(key) {
		if !jsontext.Plain[key[i]] {
			return false
		}
	}
	return true
}

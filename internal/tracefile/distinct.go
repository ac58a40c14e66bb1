package tracefile

import (
	"strconv"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/tracefile/jsontext"
)

// userPrefix is put before a user's key that the format or a record of this
// package uses itself.
const userPrefix = "user_"

// Distinct renames the user's arguments, args[from:to], whose keys other
// arguments have too: the key gets the prefix, and a number after it if that
// key is also used.
func Distinct(args []Arg, from, to int, prefix string) {
	var k *taken
	for i := from; i < to; i++ {
		if holds(args[:from], args[i].Key) || holds(args[to:], args[i].Key) {
			if k == nil {
				k = takenBy(args)
			}
			args[i].Key = k.unused(prefix, args[i].Key)
		}
	}
}

func holds(args []Arg, key string) bool {
	for i := range args {
		if args[i].Key == key {
			return true
		}
	}
	return false
}

// taken holds the keys in use in one record.
type taken struct {
	names map[string]struct{}
	tried map[string]int // how often a key was renamed
}

func takenBy(args []Arg) *taken {
	k := &taken{names: make(map[string]struct{}, len(args)), tried: make(map[string]int)}
	for i := range args {
		k.names[args[i].Key] = struct{}{}
	}
	return k
}

// unused returns an unused replacement for a key, and marks it as used.
func (k *taken) unused(prefix, key string) string {
	for n := k.tried[key] + 1; ; n++ {
		name := prefix + key
		if n > 1 {
			name = prefix + strconv.Itoa(n) + "_" + key
		}
		if _, taken := k.names[name]; !taken {
			k.tried[key] = n
			k.names[name] = struct{}{}
			return name
		}
	}
}

// owned reports whether the format reserves a key.
func owned(key string) bool {
	return len(key) == 5 && (key == "level" || key == "p_idx" || key == "hhash")
}

// distinct returns args with replacements for keys that cannot be written:
// reserved keys and invalid UTF-8. Keys that are equal after the repair also
// get distinct replacements.
func distinct(args []Arg) []Arg {
	all := make([]Arg, len(args))
	k := &taken{names: make(map[string]struct{}, len(args)), tried: make(map[string]int)}
	for i := range args {
		if all[i] = args[i]; utf8.ValidString(args[i].Key) {
			k.names[args[i].Key] = struct{}{}
		}
	}
	for i := range all {
		key := all[i].Key
		switch {
		case owned(key):
			all[i].Key = k.unused(userPrefix, key)
		case !utf8.ValidString(key):
			key = repaired(key)
			if _, taken := k.names[key]; taken {
				key = k.unused(userPrefix, key)
			}
			k.names[key] = struct{}{}
			all[i].Key = key
		}
	}
	return all
}

// KeyText returns the encoded beginning of an argument: `,"key":`. It replaces a
// key that cannot be written.
func KeyText(key string) string {
	text, _ := jsontext.AppendKey(nil, distinct([]Arg{{Key: key}})[0].Key)
	return string(text)
}

// repaired returns s with U+FFFD for each byte that is not valid UTF-8.
func repaired(s string) string { return string([]rune(s)) }

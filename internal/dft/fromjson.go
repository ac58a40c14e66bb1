package dft

import (
	"bytes"
	"encoding/json"
	"sync"
)

// FromJSON returns the argument for one value of valid JSON: numbers without a
// fraction are integers where one can hold them, truth values those of [Bool], and
// null, lists and objects stay JSON.
func FromJSON(key string, text []byte) Arg {
	a := Raw("", "null")
	if len(text) > 0 {
		a = generalValue(text)
	}
	a.Key = key
	return a.truth()
}

// truth makes a number of a truth value.
func (a Arg) truth() Arg {
	if a.kind == KindRaw && (a.str == "true" || a.str == "false") {
		return Bool(a.Key, a.str == "true")
	}
	return a
}

// AppendObject appends the members of a JSON object as arguments, each as
// [FromJSON] makes it, in their order. ok is false where the text is no such object:
// then it appends the members before the damage. It keeps nothing of text.
func AppendObject(dst []Arg, text []byte) (args []Arg, ok bool) {
	p := objects.Get().(*Parser)
	defer objects.Put(p)
	if args, ok = p.object(dst, text); ok {
		return args, true
	}
	if from := bytes.TrimSpace(text); len(from) == 0 || from[0] != '{' {
		return dst, false
	}
	err := p.members(json.NewDecoder(bytes.NewReader(text)), func(key string, value json.RawMessage) error {
		dst = append(dst, FromJSON(key, value))
		return nil
	})
	return dst, err == nil && json.Valid(text)
}

// objects are parsers that have words to share.
var objects = sync.Pool{New: func() any { return &Parser{} }}

// object reads the common form of an object, in one pass over the bytes.
func (p *Parser) object(dst []Arg, b []byte) ([]Arg, bool) {
	if len(b) < 2 || b[0] != '{' {
		return dst, false
	}
	if len(b) == 2 {
		return dst, b[1] == '}'
	}
	for i, ok := 1, false; ; i++ {
		key, next := plainString(b, i)
		if next < 0 || next >= len(b) || b[next] != ':' {
			return dst, false
		}
		a := Arg{Key: p.intern.get(key)}
		if i, ok = p.value(b, next+1, &a); !ok || i >= len(b) || b[i] != ',' && b[i] != '}' {
			return dst, false
		}
		dst = append(dst, a.truth())
		if b[i] == '}' {
			return dst, i == len(b)-1
		}
	}
}

package assemble

import (
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/vocab"
)

// maxNames bounds the names that a process has in encoded form, and
// maxNameBytes their text. Names beyond are encoded each time.
const (
	maxNames     = 2048
	maxNameBytes = 128 << 10
)

// Names finds the encoded category and name of spans, which are those of
// [vocab.TraceName]. The zero value is ready for use. It is not safe for
// concurrent use.
type Names struct {
	known map[nameID]*dftracer.Key
	bytes int
}

type nameID struct {
	scope, name, cat, event string
}

// Find returns the key of a span. cat and event are the attributes, empty if
// the span has none.
func (n *Names) Find(scope, name, cat, event string) *dftracer.Key {
	id := nameID{scope, name, cat, event}
	if key := n.known[id]; key != nil {
		return key
	}
	key := dftracer.NewKey(vocab.TraceName(scope, name, cat, event))
	if n.known == nil {
		n.known = make(map[nameID]*dftracer.Key)
	}
	if size := len(scope) + len(name) + len(cat) + len(event); len(n.known) < maxNames && n.bytes+size <= maxNameBytes {
		n.bytes += size
		n.known[nameID{strings.Clone(scope), strings.Clone(name), strings.Clone(cat), strings.Clone(event)}] = &key
	}
	return &key
}

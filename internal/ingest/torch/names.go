package torch

import (
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
)

// names holds every distinct name of a file once. Traces repeat few names many
// times; a file with more text than the table holds keeps the rest in its rows.
type names struct {
	ids   map[string]uint32
	text  []string
	clean int64 // names with replaced bytes
	bytes int
	limit int
}

func newNames(limit int) *names {
	return &names{ids: make(map[string]uint32, 256), text: []string{""}, limit: limit}
}

// intern returns the id of raw, or 0 and the text if the table is full.
func (n *names) intern(raw []byte) (id uint32, text string) {
	if id, ok := n.ids[string(raw)]; ok {
		return id, ""
	}
	s, changed := kineto.Clean(raw)
	if changed {
		n.clean++
	}
	if n.bytes+len(raw)+len(s) > n.limit {
		return 0, s
	}
	n.bytes += len(raw) + len(s)
	id = uint32(len(n.text))
	n.text = append(n.text, s)
	n.ids[string(raw)] = id
	return id, ""
}

// force is intern for the few names that always need an id.
func (n *names) force(s string) uint32 {
	if s == "" {
		return 0
	}
	if id, ok := n.ids[s]; ok {
		return id
	}
	id := uint32(len(n.text))
	n.text = append(n.text, s)
	n.ids[s] = id
	return id
}

// maxRef is how much of a name is repeated on events of other rows, any number
// of which may refer to it.
const maxRef = 1024

func ref(s string) string {
	if len(s) <= maxRef {
		return s
	}
	n := maxRef
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// opOf returns the name of the operator or annotation that launched a row.
func (n *names) opOf(r *row) string {
	if r.op == 0 || int(r.op) >= len(n.text) {
		return ""
	}
	return ref(n.text[r.op])
}

func (n *names) nameOf(r *row) string {
	if r.name == 0 {
		return r.text
	}
	return n.text[r.name]
}

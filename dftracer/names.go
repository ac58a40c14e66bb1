package dftracer

import (
	"sync"

	"github.com/trainspan/trainspan/internal/tracefile"
)

// maxNames bounds the memory for names already written. A full table is
// emptied, and names are written again, which readers accept.
const maxNames = 1 << 17

// maxRepeated bounds the records that are repeated in every new file.
const maxRepeated = 1 << 14

// names holds which hash records a file has.
type names struct {
	mu   sync.Mutex // held while a record is written, so that the record precedes events that use it
	seen map[nameKey]struct{}

	listMu sync.Mutex
	list   []Event // records that each new file repeats
}

type nameKey struct {
	kind byte
	hash tracefile.Hash
}

func (n *names) all() []Event {
	n.listMu.Lock()
	defer n.listMu.Unlock()
	return append([]Event(nil), n.list...)
}

func (n *names) remember(ev Event) {
	n.listMu.Lock()
	defer n.listMu.Unlock()
	if len(n.list) < maxRepeated {
		n.list = append(n.list, ev)
	}
}

// seed adds the names that the start of a file defines.
func (n *names) seed(d Dialect, p Process) {
	n.seen = map[nameKey]struct{}{
		{tracefile.NameHostHash[0], tracefile.HashOf(d, p.Host)}:      {},
		{tracefile.NameStringHash[0], tracefile.HashOf(d, p.Command)}: {},
		{tracefile.NameStringHash[0], tracefile.HashOf(d, p.Exec)}:    {},
	}
	if d != V1 {
		n.seen[nameKey{tracefile.NameFileHash[0], tracefile.HashOf(d, p.Dir)}] = struct{}{}
	}
}

package dft

import "sync"

// Hashes resolves the hashes of a trace to the names behind them, as far as
// their records were read. It is safe for concurrent use; a nil Hashes knows nothing.
type Hashes struct {
	mu    sync.RWMutex
	names map[hashKey]string
}

type hashKey struct {
	kind byte // first letter of HH, FH, SH
	text string
}

// Host returns the host name behind the text of a hash.
func (h *Hashes) Host(text string) (string, bool) { return h.lookup(NameHostHash, text) }

// File returns the file name behind the text of a hash, such as that of an fhash argument.
func (h *Hashes) File(text string) (string, bool) { return h.lookup(NameFileHash, text) }

// String returns the string behind the text of a hash, such as that of a cmd_hash argument.
func (h *Hashes) String(text string) (string, bool) { return h.lookup(NameStringHash, text) }

// Len returns how many hashes are known.
func (h *Hashes) Len() int {
	if h == nil {
		return 0
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.names)
}

func (h *Hashes) lookup(kind, text string) (string, bool) {
	if h == nil {
		return "", false
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	name, ok := h.names[hashKey{kind[0], text}]
	return name, ok
}

// Note remembers a hash record; other events are none of its business.
func (h *Hashes) Note(ev *Event) {
	if h == nil || ev.Phase != PhaseMetadata || len(ev.Name) != 2 || ev.Name[1] != 'H' {
		return
	}
	switch ev.Name {
	case NameHostHash, NameFileHash, NameStringHash:
	default:
		return
	}
	name, text := ev.Meta()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names == nil {
		h.names = make(map[hashKey]string)
	}
	h.names[hashKey{ev.Name[0], text}] = name
}

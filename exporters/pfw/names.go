package pfw

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/vocab"
	"github.com/trainspan/trainspan/spans"
)

// maxKeys bounds the names that are kept in encoded form. A program that makes
// up a name for every span gets its names encoded every time.
const maxKeys = 2048

// standardKeys are the rows of the table of package spans.
var standardKeys = sync.OnceValue(func() *[spans.Count]dftracer.Key {
	var keys [spans.Count]dftracer.Key
	for i := range keys {
		info := spans.At(i)
		keys[i] = dftracer.NewKey(info.Category, info.Event)
	}
	return &keys
})

// keyID is what a key is found by: what a span says of its name.
type keyID struct {
	scope, name, cat, event string
}

// keyTable finds the encoded names of spans. Reading takes no lock.
type keyTable struct {
	standard *[spans.Count]dftracer.Key
	recent   [recentKeys]atomic.Pointer[recentKey]
	all      atomic.Pointer[map[keyID]*dftracer.Key]
	mu       sync.Mutex // of writers
}

// recentKeys is how many names are found without hashing them; a power of two.
const recentKeys = 64

// recentKey is a key with what was asked for.
type recentKey struct {
	keyID
	key *dftracer.Key
}

// slot spreads names by what tells most of them apart.
func (t *keyTable) slot(name string) *atomic.Pointer[recentKey] {
	h := uint(len(name))
	if h > 0 {
		h += uint(name[0])*5 + uint(name[len(name)-1])*11 + uint(name[len(name)/2])*23
	}
	return &t.recent[h%recentKeys]
}

// find returns the key of a span of that name. cat and event are the attributes,
// empty if the span has none.
func (t *keyTable) find(scope, name, cat, event string) *dftracer.Key {
	slot := t.slot(name)
	if r := slot.Load(); r != nil && r.name == name && r.scope == scope && r.cat == cat && r.event == event {
		return r.key
	}
	id := keyID{scope, name, cat, event}
	key, keep := t.known(id)
	if keep {
		slot.Store(&recentKey{id.clone(), key})
	}
	return key
}

// clone is the same in memory of its own.
func (id keyID) clone() keyID {
	return keyID{strings.Clone(id.scope), strings.Clone(id.name), strings.Clone(id.cat), strings.Clone(id.event)}
}

// known is find without the recent names. keep reports whether the key is one of
// those that are kept.
func (t *keyTable) known(id keyID) (key *dftracer.Key, keep bool) {
	if id.cat == "" && id.event == "" {
		if index := spans.Index(id.name); index >= 0 {
			return &t.standard[index], true
		}
	}
	if all := t.all.Load(); all != nil {
		if key := (*all)[id]; key != nil {
			return key, true
		}
	}
	return t.add(id), false
}

func (t *keyTable) add(id keyID) *dftracer.Key {
	key := dftracer.NewKey(vocab.TraceName(id.scope, id.name, id.cat, id.event))
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.all.Load()
	if old != nil && len(*old) >= maxKeys {
		return &key
	}
	next := make(map[keyID]*dftracer.Key)
	if old != nil {
		for k, v := range *old {
			next[k] = v
		}
	}
	next[id.clone()] = &key
	t.all.Store(&next)
	return &key
}

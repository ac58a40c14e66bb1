package pfw

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/spans"
)

// Attributes by which a span says what it is called in the trace file. They
// are not written as arguments.
const (
	AttrCategory = spans.AttrCategory
	AttrName     = spans.AttrName
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

// keyID is what a key is found by. scope is an instrumentation scope, or a
// category when byCat is set.
type keyID struct {
	scope, name string
	byCat       bool
}

// keyTable finds the encoded names of spans. Reading takes no lock.
type keyTable struct {
	standard *[spans.Count]dftracer.Key
	recent   [recentKeys]atomic.Pointer[recentKey]
	known    atomic.Pointer[map[keyID]*dftracer.Key]
	mu       sync.Mutex // of writers
}

// recentKeys is how many names are found without hashing them; a power of two.
const recentKeys = 64

// recentKey is a key with what it was found by.
type recentKey struct {
	id  keyID
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

// find gives the key of a span of that name. cat and event are the attributes,
// empty if the span has none.
func (t *keyTable) find(scope, name, cat, event string) *dftracer.Key {
	index := -1
	if cat == "" || event == "" {
		if index = spans.Index(name); index >= 0 && event == "" {
			return &t.standard[index]
		}
	}
	if event != "" {
		name = event
	}
	id := keyID{scope, name, false}
	if cat != "" {
		id = keyID{cat, name, true}
	}
	slot := t.slot(id.name)
	if r := slot.Load(); r != nil && r.id == id {
		return r.key
	}
	if known := t.known.Load(); known != nil {
		if key := (*known)[id]; key != nil {
			slot.Store(&recentKey{id, key})
			return key
		}
	}
	return t.add(id)
}

func (t *keyTable) add(id keyID) *dftracer.Key {
	cat := id.scope
	if !id.byCat {
		cat = assemble.LastWord(cat)
	}
	key := dftracer.NewKey(safeCategory(cat), id.name)
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.known.Load()
	if old != nil && len(*old) >= maxKeys {
		return &key
	}
	next := make(map[keyID]*dftracer.Key)
	if old != nil {
		for k, v := range *old {
			next[k] = v
		}
	}
	next[keyID{strings.Clone(id.scope), strings.Clone(id.name), id.byCat}] = &key
	t.known.Store(&next)
	return &key
}

// safeCategory keeps spans out of the category of the format's own records.
func safeCategory(cat string) string { return assemble.SafeCategory(cat) }

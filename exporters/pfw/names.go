package pfw

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/jsontext"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
	"go.opentelemetry.io/otel/attribute"
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

// keyTable has the encoded names of the standard spans, and finds those of others.
// Reading takes no lock.
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
	key, keep := t.lookUp(id)
	if keep {
		slot.Store(&recentKey{id.clone(), key})
	}
	return key
}

// clone is the same in memory of its own.
func (id keyID) clone() keyID {
	return keyID{strings.Clone(id.scope), strings.Clone(id.name), strings.Clone(id.cat), strings.Clone(id.event)}
}

// lookUp is find without the recent names. keep reports whether the key is one of
// those that are kept.
func (t *keyTable) lookUp(id keyID) (key *dftracer.Key, keep bool) {
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

// argRole is what becomes of an attribute of a name.
type argRole uint8

const (
	argOther    argRole = iota // an argument that has to be compared with the others
	argCategory                // the category of the event
	argEvent                   // its name
	argPlain                   // an argument
	argProgress                // an argument that is an integer if its text says one
)

// argName is the name of an attribute, looked at and encoded once: programs have few.
type argName struct {
	name string
	text string // `,"name":`
	role argRole
}

const (
	// nameSlots is how many names are remembered, a power of two.
	nameSlots = 128
	// maxNameStores bounds the names that take the place of others: a program that
	// makes up a name for every attribute gets its names encoded every time.
	maxNameStores = 1 << 13
)

// argNames finds the names of attributes. It takes no lock.
type argNames struct {
	slots  [nameSlots]atomic.Pointer[argName]
	stores atomic.Int32
}

func (t *argNames) find(name string) *argName {
	h := uint(len(name))
	if h > 0 {
		h += uint(name[0])*5 + uint(name[len(name)-1])*11 + uint(name[len(name)/2])*23
	}
	slot := &t.slots[h%nameSlots]
	if n := slot.Load(); n != nil && n.name == name {
		return n
	}
	n := newArgName(strings.Clone(name))
	if t.stores.Load() < maxNameStores {
		t.stores.Add(1)
		slot.Store(n)
	}
	return n
}

func newArgName(name string) *argName {
	n := &argName{name: name, role: argPlain}
	switch name {
	case spans.AttrCategory:
		n.role = argCategory
	case spans.AttrName:
		n.role = argEvent
	case attributes.Epoch, attributes.Step:
		n.role = argProgress
	case place.ArgStatus, place.ArgStatusDescription, place.ArgLinks, place.ArgDroppedAttributes, place.ArgDroppedLinks, place.ArgDroppedEvents, argTruncated, argTraceID, argSpanID:
		n.role = argOther
	default:
		if !tracefile.Plain(name) {
			n.role = argOther
		}
	}
	if n.role >= argPlain {
		text, _ := jsontext.AppendKey(nil, name)
		n.text = string(text)
	}
	return n
}

// append appends an attribute of this name.
func (n *argName) append(dst []byte, kv *attribute.KeyValue) []byte {
	dst = append(dst, n.text...)
	switch kv.Value.Type() {
	case attribute.INT64:
		return jsontext.AppendInt(dst, kv.Value.AsInt64())
	case attribute.STRING:
		if n.role == argPlain {
			return jsontext.AppendString(dst, kv.Value.AsString())
		}
	}
	var one [1]dftracer.Arg
	return tracefile.AppendArg(appendArg(one[:0], kv)[0], dst, dftracer.V2)
}

// appendText appends attributes as text. Those that name the event are given
// apart. ok is false where a key may be one that the event has anyway, or would
// be after its repair: then they have to be Args.
func (t *argNames) appendText(dst []byte, attrs []attribute.KeyValue) (text []byte, cat, event string, ok bool) {
	for i := range attrs {
		kv := &attrs[i]
		switch n := t.find(string(kv.Key)); n.role {
		case argCategory:
			cat = kv.Value.AsString()
		case argEvent:
			event = kv.Value.AsString()
		case argOther:
			return nil, "", "", false
		default:
			dst = n.append(dst, kv)
		}
	}
	return dst, cat, event, true
}

// appendPlain appends one attribute as text.
func (t *argNames) appendPlain(dst []byte, kv *attribute.KeyValue) (text []byte, ok bool) {
	n := t.find(string(kv.Key))
	if n.role < argPlain {
		return nil, false
	}
	return n.append(dst, kv), true
}

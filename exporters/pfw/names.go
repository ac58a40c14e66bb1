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

// maxKeys bounds the cached encoded names. If a program uses a new name for every span,
// the names beyond it are encoded each time.
const maxKeys = 2048

// standardKeys returns the encoded names of the table of package spans.
var standardKeys = sync.OnceValue(func() *[spans.Count]dftracer.Key {
	var keys [spans.Count]dftracer.Key
	for i := range keys {
		info := spans.At(i)
		keys[i] = dftracer.NewKey(info.Category, info.Event)
	}
	return &keys
})

// keyID identifies a key: the scope and name of a span, and its attributes for category
// and event name.
type keyID struct {
	scope, name, cat, event string
}

// keyTable holds the encoded names of the standard spans, and caches those of others.
// Reads take no lock.
type keyTable struct {
	standard *[spans.Count]dftracer.Key
	recent   [recentKeys]atomic.Pointer[recentKey]
	all      atomic.Pointer[map[keyID]*dftracer.Key]
	mu       sync.Mutex // serializes writers
}

// recentKeys is the number of names that are found without hashing; a power of two.
const recentKeys = 64

// recentKey is a key and its id.
type recentKey struct {
	keyID
	key *dftracer.Key
}

// slot returns the slot of a name: a cheap hash of its length and three of its bytes.
func (t *keyTable) slot(name string) *atomic.Pointer[recentKey] {
	h := uint(len(name))
	if h > 0 {
		h += uint(name[0])*5 + uint(name[len(name)-1])*11 + uint(name[len(name)/2])*23
	}
	return &t.recent[h%recentKeys]
}

// find returns the key of a span. cat and event are its attributes, empty if the span
// does not have them.
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

// clone returns a copy that shares no memory with id but the name of the scope, which
// lives as long as its tracer: equal strings in the same place are compared at once.
func (id keyID) clone() keyID {
	return keyID{id.scope, strings.Clone(id.name), strings.Clone(id.cat), strings.Clone(id.event)}
}

// lookUp is find without the recent keys. keep reports whether the key was already in
// the table.
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

// argRole is how attributes of one name are written.
type argRole uint8

const (
	argOther    argRole = iota // an argument that must be checked against the event's own arguments
	argCategory                // the category of the event
	argEvent                   // the name of the event
	argPlain                   // an argument
	argProgress                // an argument that becomes an integer if its text is one
)

// argName is the classified and encoded name of an attribute. It is cached: programs use
// few names.
type argName struct {
	name string
	text string // `,"name":`
	role argRole
}

const (
	// nameSlots is the number of cached names; a power of two.
	nameSlots = 128
	// maxNameStores bounds the stores into the cache: if a program uses a new name for
	// every attribute, later names are encoded each time.
	maxNameStores = 1 << 13
)

// argNames caches the names of attributes. It takes no lock.
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

// appendText appends attributes in encoded form. It returns the category and event name
// separately. ok is false if a key may equal one of the event's own keys, also after
// sanitizing; then the attributes must be written as Args.
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

// appendPlain appends one attribute in encoded form. ok is false if it must be written
// as an Arg.
func (t *argNames) appendPlain(dst []byte, kv *attribute.KeyValue) (text []byte, ok bool) {
	n := t.find(string(kv.Key))
	if n.role < argPlain {
		return nil, false
	}
	return n.append(dst, kv), true
}

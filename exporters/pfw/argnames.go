package pfw

import (
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/jsontext"
	"github.com/trainspan/trainspan/spans"
)

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
	case assemble.ArgStatus, assemble.ArgStatusDescription, assemble.ArgLinks, assemble.ArgDroppedAttributes, assemble.ArgDroppedLinks, assemble.ArgDroppedEvents, argTruncated, argTraceID, argSpanID:
		n.role = argOther
	default:
		if !dft.Plain(name) {
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
	return dft.AppendArg(appendArg(one[:0], kv)[0], dst, dftracer.V2)
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

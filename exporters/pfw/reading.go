package pfw

import (
	"reflect"
	"sync/atomic"
	"time"
	"unsafe"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The SDK hands a snapshot of a span to OnEnd. Each of its methods copies the
// whole snapshot, 400 bytes, to return one part of it, and ten parts are
// needed: a fifth of what a span costs here. The methods of the span that
// OnStart gets take a lock each, also for what never changes. So both are read
// in place, provided that the types are the SDK's and that the fields have the
// names and types that are known. Anything else is asked by its methods.

// layout is where a type of the SDK keeps what its methods return. A layout
// that is not known has only its type.
type layout struct {
	typ   reflect.Type
	known bool

	context, parent, name, scope, start, end, attrs, events, links, status, lostAttrs, lostEvents, lostLinks uintptr
}

// Types of the SDK. Nothing of a snapshot ever changes; of a recording span,
// the parent and the start do not.
const (
	sdkPath       = "go.opentelemetry.io/otel/sdk/trace"
	snapshotType  = "snapshot"
	recordingType = "recordingSpan"
)

// layouts remembers the layouts of both.
type layouts struct{ snapshot, recording atomic.Pointer[layout] }

// layoutFor gives the layout of the type of s, nil when it must be asked. Types
// that are not called name are somebody else's, who put them in between.
func layoutFor(found *atomic.Pointer[layout], name string, s sdktrace.ReadOnlySpan) *layout {
	t := reflect.TypeOf(s)
	l := found.Load()
	if l == nil {
		if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct ||
			t.Elem().Name() != name || t.Elem().PkgPath() != sdkPath {
			return nil
		}
		l = newLayout(t)
		found.Store(l)
	}
	if l.typ != t || !l.known {
		return nil
	}
	return l
}

func newLayout(t reflect.Type) *layout {
	l := &layout{typ: t, known: true}
	at := func(name string, want reflect.Type) uintptr {
		f, has := t.Elem().FieldByName(name)
		if !has || f.Type != want || len(f.Index) != 1 {
			l.known = false
		}
		return f.Offset
	}
	l.parent = at("parent", reflect.TypeFor[trace.SpanContext]())
	l.start = at("startTime", reflect.TypeFor[time.Time]())
	if t.Elem().Name() == recordingType {
		return l
	}
	count := reflect.TypeFor[int]()
	l.context = at("spanContext", reflect.TypeFor[trace.SpanContext]())
	l.name = at("name", reflect.TypeFor[string]())
	l.scope = at("instrumentationScope", reflect.TypeFor[instrumentation.Scope]())
	l.end = at("endTime", reflect.TypeFor[time.Time]())
	l.attrs = at("attributes", reflect.TypeFor[[]attribute.KeyValue]())
	l.events = at("events", reflect.TypeFor[[]sdktrace.Event]())
	l.links = at("links", reflect.TypeFor[[]sdktrace.Link]())
	l.status = at("status", reflect.TypeFor[sdktrace.Status]())
	l.lostAttrs = at("droppedAttributeCount", count)
	l.lostEvents = at("droppedEventCount", count)
	l.lostLinks = at("droppedLinkCount", count)
	return l
}

// started gives the parent and the start, in microseconds, of a span that
// begins.
func (c *layouts) started(s sdktrace.ReadOnlySpan) (parent trace.SpanContext, start int64) {
	l := layoutFor(&c.recording, recordingType, s)
	if l == nil {
		return s.Parent(), s.StartTime().UnixMicro()
	}
	p := reflect.ValueOf(s).UnsafePointer()
	return *(*trace.SpanContext)(unsafe.Add(p, l.parent)), (*time.Time)(unsafe.Add(p, l.start)).UnixMicro()
}

// reading is a span that is being written.
type reading struct {
	span sdktrace.ReadOnlySpan
	lay  *layout
	at   unsafe.Pointer // the span; nil when it has to be asked
}

// ended makes an ended span ready to be read.
func (c *layouts) ended(s sdktrace.ReadOnlySpan) reading {
	l := layoutFor(&c.snapshot, snapshotType, s)
	if l == nil {
		return reading{span: s}
	}
	return reading{s, l, reflect.ValueOf(s).UnsafePointer()}
}

func (r *reading) spanID() trace.SpanID {
	if r.at == nil {
		return r.span.SpanContext().SpanID()
	}
	return (*trace.SpanContext)(unsafe.Add(r.at, r.lay.context)).SpanID()
}

func (r *reading) name() string {
	if r.at == nil {
		return r.span.Name()
	}
	return *(*string)(unsafe.Add(r.at, r.lay.name))
}

func (r *reading) scope() string {
	if r.at == nil {
		return r.span.InstrumentationScope().Name
	}
	return (*instrumentation.Scope)(unsafe.Add(r.at, r.lay.scope)).Name
}

func (r *reading) end() int64 {
	if r.at == nil {
		return r.span.EndTime().UnixMicro()
	}
	return (*time.Time)(unsafe.Add(r.at, r.lay.end)).UnixMicro()
}

func (r *reading) attributes() []attribute.KeyValue {
	if r.at == nil {
		return r.span.Attributes()
	}
	return *(*[]attribute.KeyValue)(unsafe.Add(r.at, r.lay.attrs))
}

func (r *reading) events() []sdktrace.Event {
	if r.at == nil {
		return r.span.Events()
	}
	return *(*[]sdktrace.Event)(unsafe.Add(r.at, r.lay.events))
}

func (r *reading) links() []sdktrace.Link {
	if r.at == nil {
		return r.span.Links()
	}
	return *(*[]sdktrace.Link)(unsafe.Add(r.at, r.lay.links))
}

func (r *reading) status() sdktrace.Status {
	if r.at == nil {
		return r.span.Status()
	}
	return *(*sdktrace.Status)(unsafe.Add(r.at, r.lay.status))
}

func (r *reading) droppedAttributes() int {
	if r.at == nil {
		return r.span.DroppedAttributes()
	}
	return *(*int)(unsafe.Add(r.at, r.lay.lostAttrs))
}

func (r *reading) droppedEvents() int {
	if r.at == nil {
		return r.span.DroppedEvents()
	}
	return *(*int)(unsafe.Add(r.at, r.lay.lostEvents))
}

func (r *reading) droppedLinks() int {
	if r.at == nil {
		return r.span.DroppedLinks()
	}
	return *(*int)(unsafe.Add(r.at, r.lay.lostLinks))
}

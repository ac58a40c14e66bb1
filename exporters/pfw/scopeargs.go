package pfw

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/internal/direct"
)

// maxExtra bounds the arguments of one scope, as those of a span are.
const maxExtra = 512

// set sets arguments of this use of the scope.
func (s *scopeEntry) set(attrs []attribute.KeyValue) {
	if len(attrs) == 0 || s.ended() {
		return
	}
	for {
		old := s.extra.Load()
		all, over := attrs[:1:1], 0 // a single attribute cannot repeat a key
		if old != nil || len(attrs) > 1 {
			all, over = merged(old, attrs)
		}
		if all == nil || s.extra.CompareAndSwap(old, &all) {
			if over > 0 {
				s.over.Add(int32(over))
			}
			return
		}
	}
}

// merged returns arguments of which some are new, nil where none of them can be
// taken, and how many are left out.
func merged(old *[]attribute.KeyValue, attrs []attribute.KeyValue) (all []attribute.KeyValue, over int) {
	var have []attribute.KeyValue
	if old != nil {
		have = *old
	}
	for _, kv := range attrs {
		now := all
		if all == nil {
			now = have
		}
		if len(now) >= maxExtra && !has(now, kv.Key) {
			over++
			continue
		}
		if all == nil {
			all = append(make([]attribute.KeyValue, 0, min(len(have)+len(attrs), maxExtra)), have...)
		}
		all = upsert(all, kv)
	}
	return all, over
}

// upsert sets an attribute of a slice that nobody else has.
func upsert(attrs []attribute.KeyValue, kv attribute.KeyValue) []attribute.KeyValue {
	for i := range attrs {
		if attrs[i].Key == kv.Key {
			attrs[i] = kv
			return attrs
		}
	}
	return append(attrs, kv)
}

// current are the arguments that the scope shares with others of its kind.
func (s *scopeEntry) current() *direct.ScopeArgs {
	if s.args == nil {
		return nil
	}
	return s.args.Load()
}

// arguments are those of this use of the scope and those of its kind.
func (s *scopeEntry) arguments(d *desk) (extra, shared []attribute.KeyValue, epoch, step int64) {
	args := s.current()
	epoch, step = d.standing(args)
	if args != nil {
		shared = args.Attrs
	}
	if own := s.extra.Load(); own != nil {
		extra = *own
	}
	epoch, step = missingProgress(epoch, step, extra)
	epoch, step = missingProgress(epoch, step, shared)
	return extra, shared, epoch, step
}

// appendText is appendArgs as text; ok is false where the keys do not allow that.
func (s *scopeEntry) appendText(d *desk, dst []byte) (text []byte, ok bool) {
	if s.over.Load() > 0 {
		return nil, false
	}
	names := &d.args
	extra, shared, epoch, step := s.arguments(d)
	dst = appendProgressText(dst, epoch, step)
	if s.count > 0 && !has(extra, argCount) {
		dst = appendInt(dst, argCount, s.count)
	}
	for i := range shared {
		kv := &shared[i]
		if has(extra, kv.Key) || s.count > 0 && kv.Key == argCount {
			continue
		}
		if dst, ok = names.appendPlain(dst, kv); !ok {
			return nil, false
		}
	}
	for i := range extra {
		if dst, ok = names.appendPlain(dst, &extra[i]); !ok {
			return nil, false
		}
	}
	return dst, true
}

// appendArgs adds the arguments of the scope; those of this one use win over
// those of its kind.
func (s *scopeEntry) appendArgs(d *desk, dst []dftracer.Arg) []dftracer.Arg {
	extra, shared, epoch, step := s.arguments(d)
	if epoch >= 0 {
		dst = append(dst, dftracer.Int(attributes.Epoch, epoch))
	}
	if step >= 0 {
		dst = append(dst, dftracer.Int(attributes.Step, step))
	}
	if s.count > 0 && !has(extra, argCount) {
		dst = append(dst, dftracer.Int(argCount, s.count))
	}
	for i := range shared {
		kv := &shared[i]
		if !has(extra, kv.Key) && !(s.count > 0 && kv.Key == argCount) {
			dst = appendArg(dst, kv)
		}
	}
	for i := range extra {
		dst = appendArg(dst, &extra[i])
	}
	if n := s.over.Load(); n > 0 {
		dst = append(dst, dftracer.Int(assemble.ArgDroppedAttributes, int64(n)))
	}
	return dst
}

package ai

import (
	"slices"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"go.opentelemetry.io/otel/attribute"
)

// Epoch returns the argument epoch, for Update and for single scopes.
func Epoch(n int) attribute.KeyValue { return attribute.Int(attributes.Epoch, n) }

// Step returns the argument step, for Update and for single scopes.
func Step(n int) attribute.KeyValue { return attribute.Int(attributes.Step, n) }

// ImageIndex returns the argument image_idx, the number of a sample.
func ImageIndex(n int) attribute.KeyValue { return attribute.Int("image_idx", n) }

// Update sets arguments of the scopes of the node and of all nodes below it,
// until they are set again or [Node.Reset]. A scope has the arguments at its
// end, as in DFTracer: an update in the body of a loop applies to the block
// that it is in. Disabled nodes are left out.
//
// A node keeps at most 128 arguments. Later updates change their values;
// further keys are left out, and one warning is logged.
//
// An epoch or a step of a node takes precedence over the provider's. An update
// of the root also sets the provider's, for the spans of package telemetry.
func (n *Node) Update(attrs ...attribute.KeyValue) {
	if n == nil || len(attrs) == 0 {
		return
	}
	m := merged{attrs: attrs}
	n.tree.mu.Lock()
	n.walk(m.apply)
	root, on := n == n.tree.Root, !n.off.Load()
	n.tree.mu.Unlock()
	if m.full {
		warnArgs(n)
	}
	if !root || !on {
		return
	}
	progress := n.tree.provider().Progress()
	for _, kv := range attrs {
		if kv.Value.Type() != attribute.INT64 {
			continue
		}
		switch kv.Key {
		case attributes.Epoch:
			progress.SetEpoch(kv.Value.AsInt64())
		case attributes.Step:
			progress.SetStep(kv.Value.AsInt64())
		}
	}
}

// merged is the result of an update of arguments. Most nodes have the same
// arguments and share the result.
type merged struct {
	attrs        []attribute.KeyValue
	before, then *dispatch.ScopeArgs
	full         bool // some arguments were left out
}

func (m *merged) apply(n *Node) {
	if !n.off.Load() {
		if before := n.args.Load(); m.then == nil || before != m.before {
			var full bool
			m.before = before
			m.then, full = merge(before, m.attrs)
			m.full = m.full || full
		}
		n.args.Store(m.then)
	}
}

// merge returns new arguments; before is not changed, because running scopes
// use it. full reports that some were left out.
func merge(before *dispatch.ScopeArgs, attrs []attribute.KeyValue) (next *dispatch.ScopeArgs, full bool) {
	next = &dispatch.ScopeArgs{}
	if before != nil {
		next.Epoch, next.Step = before.Epoch, before.Step
		next.Attrs = before.Attrs
	}
	own := false // next.Attrs are a copy
	for _, kv := range attrs {
		isInt := kv.Value.Type() == attribute.INT64
		switch {
		case isInt && kv.Key == attributes.Epoch:
			next.Epoch = nonNegative(kv.Value.AsInt64())
		case isInt && kv.Key == attributes.Step:
			next.Step = nonNegative(kv.Value.AsInt64())
		default:
			at := slices.IndexFunc(next.Attrs, func(a attribute.KeyValue) bool { return a.Key == kv.Key })
			if at < 0 && len(next.Attrs) >= maxArgs {
				full = true
				continue
			}
			if !own {
				next.Attrs, own = slices.Clone(next.Attrs), true
			}
			if at < 0 {
				next.Attrs = append(next.Attrs, kv)
			} else {
				next.Attrs[at] = kv
			}
		}
	}
	return next, full
}

// nonNegative returns n, or an unset value for a negative number.
func nonNegative(n int64) attributes.Opt[int64] {
	if n < 0 {
		return attributes.Opt[int64]{}
	}
	return attributes.Some(n)
}

// Reset removes the arguments that Update set on the node and on all nodes
// below it.
func (n *Node) Reset() { n.change(func(n *Node) { n.args.Store(nil) }) }

// Enable switches the node and all nodes below it on. The node may be below a
// disabled one.
func (n *Node) Enable() { n.change(func(n *Node) { n.off.Store(false) }) }

// Disable switches the node and all nodes below it off. Open scopes are still
// recorded.
func (n *Node) Disable() { n.change(func(n *Node) { n.off.Store(true) }) }

func (n *Node) change(f func(*Node)) {
	if n == nil {
		return
	}
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	n.walk(f)
}

func (n *Node) walk(f func(*Node)) {
	f(n)
	for _, c := range n.children {
		c.walk(f)
	}
}

// ForceOn returns a copy of the node that is not part of the tree: it records
// even if the node or its category is disabled, and later calls of Update,
// Enable and Disable on the tree do not affect it. Make it once and keep it.
func (n *Node) ForceOn() *Node { return n.detach(func(d *Node) { d.off.Store(false) }) }

// ForceOff returns a copy of the node that is not part of the tree and never
// records anything.
func (n *Node) ForceOff() *Node { return n.detach(func(d *Node) { d.off.Store(true) }) }

// With returns a copy of the node that is not part of the tree, with additional
// arguments. The node itself does not change.
func (n *Node) With(attrs ...attribute.KeyValue) *Node {
	return n.detach(func(d *Node) {
		args, full := merge(d.args.Load(), attrs)
		d.args.Store(args)
		if full {
			warnArgs(d)
		}
	})
}

func (n *Node) detach(f func(*Node)) *Node {
	if n == nil {
		return nil
	}
	d := &Node{tree: n.tree, label: label{category: n.category, name: n.name}}
	d.off.Store(n.off.Load())
	d.args.Store(n.args.Load())
	f(d)
	return d
}

// Derive returns the node "<name>.<suffix>" below this one, in the same
// category; the same one every time, see [Tree.NewNode]. A new one starts in
// the state of this node. Keep it if it is used often.
func (n *Node) Derive(suffix string) *Node {
	if n == nil {
		return nil
	}
	d, kept := n.tree.derive(n, suffix)
	if !kept {
		warnNodes(d)
	}
	return d
}

// Init returns Derive("init"), such as the node "checkpoint.init" of the
// category checkpoint.
func (n *Node) Init() *Node { return n.Derive("init") }

// Update calls [Node.Update] on the root of the tree of the default provider.
func Update(attrs ...attribute.KeyValue) { Root.Update(attrs...) }

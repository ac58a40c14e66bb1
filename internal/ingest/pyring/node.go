package pyring

import (
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
)

// node is a name of spans, and a node in the tree of DFTracer's AI logging if
// the program sets the node above it.
type node struct {
	key   dftracer.Key
	above *node
	below []*node
	depth int // in the tree
	off   bool

	// Set by update. Epoch and step are -1 if unknown.
	epoch, step int64
	args        []dftracer.Arg // immutable, replaced as a whole

	numbers   [3]string           // argument names for the numbers of a file call
	samples   bool                // the value of a span is its number of samples
	group     string              // the group of its collectives; the value is the number within it, from 1
	calls     bool                // its spans are those of callbacks
	iteration bool                // and training iterations, for which the end of the span replaces the callback
	asked     uint8               // whether its spans are sent: 0 unknown, 1 no, 2 yes
	sender    dispatch.Sender     // the sender
	sentBy    *telemetry.Provider // and its provider

	ended [cellThreads]int64 // start of the last ended span, by thread
}

// Arguments of a collective: its group, and its number within the group.
const (
	argGroup  = "pg"
	argNumber = "seq"
)

// cellThreads is the number of threads whose latest starts a ring buffer has.
const cellThreads = 16

// nodeTree holds the nodes of a process.
type nodeTree struct {
	src   *source
	byID  map[uint32]*node
	below int // nodes that are below another one
}

// nodeOf returns the node with a name, and creates those above it.
func (t *nodeTree) nodeOf(n *ring.Name) *node { return t.ofBelow(n, 0) }

// Bounds of the tree of nodes, and of their arguments.
const (
	maxTree     = 64 // levels
	maxNodes    = 1024
	maxNodeArgs = 128
	maxNodeText = 16 << 10
)

func (t *nodeTree) ofBelow(n *ring.Name, depth int) *node {
	if d := t.byID[n.ID]; d != nil {
		return d
	}
	d := &node{key: tracefile.WithType(dftracer.NewKey(n.Cat, n.Name), tracefile.TypePython), epoch: -1, step: -1, calls: n.Calls, numbers: n.Numbers}
	if n.Numbers != ([3]string{}) {
		d.key = tracefile.WithType(d.key, tracefile.TypeLibcIO)
	}
	meaning := vocab.Of(n.Cat, n.Name)
	switch meaning.Name {
	case spans.TrainingIteration, spans.ValidationIteration, spans.TestingIteration:
		d.samples = true
	}
	d.iteration = d.calls && meaning.Name == spans.TrainingIteration
	d.args = appendObject(nil, n.Args)
	if i := slices.IndexFunc(d.args, func(a dftracer.Arg) bool { return a.Key == argGroup }); i >= 0 && meaning.Class == vocab.ClassCollective {
		d.group = d.args[i].Text()
	}
	t.byID[n.ID] = d // before those above it, because ids may form a cycle
	if above := t.src.ring.Name(n.Above); above != nil && depth < maxTree {
		switch a := t.ofBelow(above, depth+1); {
		case a.depth >= maxTree || t.below >= maxNodes:
			t.src.limit("the tree of ai nodes of a Python process is too large: further nodes do not inherit from their parents")
		case !a.isBelow(d):
			t.below++
			d.above, d.depth = a, a.depth+1
			a.below = append(a.below, d)
			d.off, d.epoch, d.step = a.off, a.epoch, a.step
			d.args, _ = withArgs(d.args, a.args)
		}
	}
	return d
}

func (d *node) isBelow(o *node) bool {
	for ; d != nil; d = d.above {
		if d == o {
			return true
		}
	}
	return false
}

// eachNode calls f for the node and all nodes below it.
func (d *node) eachNode(f func(*node)) {
	f(d)
	for _, b := range d.below {
		b.eachNode(f)
	}
}

// update sets arguments of the node and the nodes below it that are switched
// on. A negative number does not change the value, except for -2, which makes
// it unknown. It reports whether there was room for all arguments.
func (d *node) update(epoch, step int64, args []dftracer.Arg) (whole bool) {
	var was, next []dftracer.Arg // most nodes have the same ones
	whole = true
	d.eachNode(func(d *node) {
		if d.off {
			return
		}
		d.epoch, d.step = changed(d.epoch, epoch), changed(d.step, step)
		if len(args) == 0 {
			return
		}
		if next == nil || len(was) != len(d.args) || len(was) > 0 && &was[0] != &d.args[0] {
			was = d.args
			var all bool
			next, all = withArgs(was, args)
			whole = whole && all
		}
		d.args = next
	})
	return whole
}

// withArgs returns have with more arguments, as far as there is room. Existing
// keys get new values; have is not changed.
func withArgs(have, more []dftracer.Arg) (next []dftracer.Arg, whole bool) {
	next, whole = have, true
	size := 0
	for _, a := range have {
		size += textOf(a)
	}
	for _, a := range more {
		at := slices.IndexFunc(next, func(b dftracer.Arg) bool { return b.Key == a.Key })
		larger := size + textOf(a)
		if at >= 0 {
			larger -= textOf(next[at])
		}
		if at < 0 && len(next) >= maxNodeArgs || larger > max(maxNodeText, size) {
			whole = false
			continue
		}
		if len(next) == len(have) && (len(next) == 0 || &next[0] == &have[0]) {
			next = slices.Clone(have)
		}
		next, size = upsert(next, a), larger
	}
	return next, whole
}

// textOf returns the size of an argument in a line.
func textOf(a dftracer.Arg) int { return len(a.Key) + len(a.Text()) }

func changed(was, to int64) int64 {
	switch {
	case to >= 0:
		return to
	case to == -1:
		return was
	}
	return -1
}

// maxArgs bounds the arguments of one span.
const maxArgs = 64

// appendObject appends the first members of a JSON object in order.
func appendObject(dst []dftracer.Arg, text []byte) []dftracer.Arg {
	if len(text) == 0 {
		return dst
	}
	var few [8]dftracer.Arg
	all, _ := tracefile.AppendObject(few[:0], text) // of an invalid object, the members before the error
	for _, a := range all[:min(len(all), maxArgs)] {
		dst = upsert(dst, a)
	}
	return dst
}

// upsert sets an argument; an existing key keeps its place.
func upsert(args []dftracer.Arg, a dftracer.Arg) []dftracer.Arg {
	for i := range args {
		if args[i].Key == a.Key {
			args[i] = a
			return args
		}
	}
	return append(args, a)
}

// take removes an integer argument and returns it, or was.
func take(args []dftracer.Arg, key string, was int64) ([]dftracer.Arg, int64) {
	for i := range args {
		if args[i].Key != key {
			continue
		}
		if n, ok := tracefile.Whole(args[i]); ok {
			return append(args[:i:i], args[i+1:]...), n
		}
	}
	return args, was
}

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

// node is a name of spans, and a node of the tree of DFTracer's AI logging if
// the program says what is above it.
type node struct {
	key   dftracer.Key
	above *node
	below []*node
	depth int // of it in the tree
	off   bool

	// What update gave. Epoch and step are -1 when they are not known.
	epoch, step int64
	args        []dftracer.Arg // not changed, replaced

	numbers   [3]string           // what those of a call on a file are called
	samples   bool                // the value of a span is how many samples it had
	group     string              // whose collectives they are: the value is the number in it, from 1
	calls     bool                // its spans are those of callbacks
	iteration bool                // and iterations of training, whose callback at the end is the end of the span
	asked     uint8               // whether they are sent: 0 is not known, 1 no, 2 yes
	sender    dispatch.Sender     // by which
	sentBy    *telemetry.Provider // and of which

	ended [cellThreads]int64 // start of the last span that ended, by thread
}

// Arguments of a collective: its group, and which one of it.
const (
	argGroup  = "pg"
	argNumber = "seq"
)

// cellThreads is for how many threads a ring tells what they started last.
const cellThreads = 16

// nodeTree holds the nodes of a process.
type nodeTree struct {
	src   *source
	byID  map[uint32]*node
	below int // nodes that are below another one
}

// nodeOf returns the node of a name, with those above it.
func (t *nodeTree) nodeOf(n *ring.Name) *node { return t.ofBelow(n, 0) }

// Bounds of the tree of nodes, and of what the nodes in it were given.
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
	t.byID[n.ID] = d // before those above it: ids may go round in circles
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

// eachNode calls f for the node and what is below it.
func (d *node) eachNode(f func(*node)) {
	f(d)
	for _, b := range d.below {
		b.eachNode(f)
	}
}

// update returns arguments to the node and what is below it, as far as that is
// switched on. A negative number is left as it is, but for -2: not known. It
// reports whether there was place for all arguments.
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

// withArgs returns the arguments that a node has with more of them, as far as there is
// place. Those that it has get their new values; have stays as it is.
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

// textOf is what an argument takes in a line.
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

// appendObject appends the first members of a JSON object in their order.
func appendObject(dst []dftracer.Arg, text []byte) []dftracer.Arg {
	if len(text) == 0 {
		return dst
	}
	var few [8]dftracer.Arg
	all, _ := tracefile.AppendObject(few[:0], text) // of a damaged one what is before
	for _, a := range all[:min(len(all), maxArgs)] {
		dst = upsert(dst, a)
	}
	return dst
}

// upsert sets an argument: that of a known key in its place.
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

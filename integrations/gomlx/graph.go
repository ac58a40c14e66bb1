package gomlxspan

import (
	"context"
	"hash/maphash"
	"strings"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
)

// CompileSpan is the name of the spans in which graphs are built and compiled. The
// goodput ledger counts them as warm-up.
const CompileSpan = spans.GraphCompile

// current is the context of what lies below the latest callback, whichever that is.
// One that carries the application would put it below that.
var current = context.Background()

// role is what a dataset is for.
type role uint8

const (
	forTraining role = iota
	forValidation
	forTesting
)

// graphKey says which graphs share an executor.
type graphKey struct {
	kind train.GraphType
	spec any
}

// graphUse is an executor and the shapes that it has a graph for.
type graphUse struct {
	exec *model.Exec
	seen map[uint64]bool
}

var seed = maphash.MakeSeed()

// graphs knows which graphs the trainer has, and builds what is missing inside of a span
// of its own.
type graphs struct {
	tel     *telemetry.Provider
	trainer *train.Trainer
	known   map[graphKey]*graphUse
	shapes  []shapes.Shape // of the batch in work
	spec    any            // of the batch in work
}

// take notes what the batch that is handed over looks like: the trainer takes its
// tensors away. It reports whether that is known.
func (g *graphs) take(b train.Batch) bool {
	g.shapes, g.spec = g.shapes[:0], b.Spec
	for _, list := range [2][]*tensors.Tensor{b.Inputs, b.Labels} {
		for _, t := range list {
			if t == nil {
				g.takeNone()
				return false
			}
			g.shapes = append(g.shapes, t.Shape())
		}
	}
	return true
}

// takeNone notes that nothing is known of the batch.
func (g *graphs) takeNone() { g.shapes, g.spec = g.shapes[:0], nil }

// signature returns a hash of the shapes of the batch.
func (g *graphs) signature() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for i := range g.shapes {
		maphash.WriteComparable(&h, g.shapes[i].DType)
		for _, d := range g.shapes[i].Dimensions {
			maphash.WriteComparable(&h, d)
		}
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// created is called when the trainer has made an executor, right before it calls
// it with the batch in work.
func (g *graphs) created(exec *model.Exec, kind train.GraphType) {
	use := &graphUse{exec: exec, seen: make(map[uint64]bool)}
	g.known[graphKey{kind, g.spec}] = use
	g.build(use, kind)
}

// compile builds the graph for a batch whose shapes its executor has not had yet.
func (g *graphs) compile(as role) {
	kind := train.EvalType
	if as == forTraining {
		kind = train.TrainType
	}
	if use := g.known[graphKey{kind, g.spec}]; use != nil && !use.seen[g.signature()] {
		g.build(use, kind)
	}
}

// build does what the executor would do next, inside a span of its own. An error
// is left to the executor to find again; a panic goes on as it would there. With
// accumulated gradients the trainer has two executors of a kind, of which the
// one is known that was made last: what it builds may never be used, so it builds
// only when it is made.
func (g *graphs) build(use *graphUse, kind train.GraphType) {
	if len(g.shapes) == 0 || len(use.seen) > 0 && g.trainer.NumAccumulatingSteps() > 1 {
		return
	}
	use.seen[g.signature()] = true
	of := "train"
	if kind != train.TrainType {
		of = "evaluate"
	}
	_, span := g.tel.StartSpan(current, CompileSpan, attribute.String(spans.AttrCategory, spans.CategoryCompile),
		attribute.String("graph", of), attribute.String("shapes", texts(g.shapes)))
	var err error
	defer span.EndErr(&err)
	_, err = use.exec.Compile(g.shapes...)
}

func texts(list []shapes.Shape) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteString(" ")
		}
		b.WriteString(s.String())
	}
	return b.String()
}

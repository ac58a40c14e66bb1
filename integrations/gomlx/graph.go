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

// CompileSpan is the name of the spans of building and compiling graphs.
// Goodput accounting counts them as warm-up.
const CompileSpan = spans.GraphCompile

// current is a context without a span, so that spans nest below the latest open
// span of any callback. A context with the application span would put them
// directly below the application.
var current = context.Background()

// role is the use of a dataset.
type role uint8

const (
	forTraining role = iota
	forValidation
	forTesting
)

// graphKey identifies the graphs that share an executor.
type graphKey struct {
	kind train.GraphType
	spec any
}

// graphUse is an executor and the shapes for which it has a graph.
type graphUse struct {
	exec *model.Exec
	seen map[uint64]bool
}

var seed = maphash.MakeSeed()

// graphs tracks the graphs of the trainer, and builds missing ones inside a
// separate span.
type graphs struct {
	tel     *telemetry.Provider
	trainer *train.Trainer
	known   map[graphKey]*graphUse
	shapes  []shapes.Shape // of the current batch
	spec    any            // of the current batch
}

// take stores the shapes of the batch that the loop receives, because the
// trainer consumes its tensors. It reports whether they are known.
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

// takeNone records that the batch is unknown.
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

// created records that the trainer has created an executor. The trainer calls
// it directly before it runs the executor on the current batch, which is unknown if its
// dataset is not wrapped.
func (g *graphs) created(exec *model.Exec, kind train.GraphType) {
	use := &graphUse{exec: exec, seen: make(map[uint64]bool)}
	g.known[graphKey{kind, g.spec}] = use
	g.build(use, kind)
}

// compile builds the graph for a batch whose shapes are new to its executor.
func (g *graphs) compile(as role) {
	kind := train.EvalType
	if as == forTraining {
		kind = train.TrainType
	}
	if use := g.known[graphKey{kind, g.spec}]; use != nil && !use.seen[g.signature()] {
		g.build(use, kind)
	}
}

// build does what the executor would do next, inside a separate span. It
// ignores an error, because the executor will return it again; a panic
// propagates as it would in the executor. With accumulated gradients the
// trainer has two executors of a kind, and only the last one created is known.
// Its graph may never be used for these shapes, so build builds it only when
// the executor is created.
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

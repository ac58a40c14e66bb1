package gomlxspan

import (
	"hash/maphash"
	"strings"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/spans"
)

// CompileSpan is the name of the spans in which graphs are built and compiled. The
// goodput ledger counts them as warm-up.
const CompileSpan = spans.GraphCompile

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

// take notes what the batch that is handed over looks like: the trainer takes its
// tensors away. It gives the number of its samples, 0 for unknown.
func (r *Run) take(b train.Batch) int64 {
	r.shapes, r.spec = r.shapes[:0], b.Spec
	for _, list := range [2][]*tensors.Tensor{b.Inputs, b.Labels} {
		for _, t := range list {
			if t == nil {
				return r.takeNone()
			}
			r.shapes = append(r.shapes, t.Shape())
		}
	}
	if r.opts.Samples != nil {
		return r.opts.Samples(b)
	}
	if !r.alone || len(b.Inputs) == 0 || b.Inputs[0].Shape().Rank() == 0 {
		return 0
	}
	return int64(b.Inputs[0].Shape().Dimensions[0])
}

// takeNone notes that nothing is known of the batch.
func (r *Run) takeNone() int64 {
	r.shapes, r.spec = r.shapes[:0], nil
	return 0
}

// signature is a hash of the shapes of the batch.
func (r *Run) signature() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for i := range r.shapes {
		maphash.WriteComparable(&h, r.shapes[i].DType)
		for _, d := range r.shapes[i].Dimensions {
			maphash.WriteComparable(&h, d)
		}
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// created is called when the trainer has made an executor, right before it calls
// it with the batch in work.
func (r *Run) created(exec *model.Exec, kind train.GraphType) {
	use := &graphUse{exec: exec, seen: make(map[uint64]bool)}
	r.known[graphKey{kind, r.spec}] = use
	r.build(use, kind)
	if r.step != nil {
		r.state.stepStart = r.step.Now() // the step begins when its graph is there
	}
}

// compile builds the graph for a batch whose shapes its executor has not had yet.
func (r *Run) compile(as role) {
	kind := train.EvalType
	if as == forTraining {
		kind = train.TrainType
	}
	if use := r.known[graphKey{kind, r.spec}]; use != nil && !use.seen[r.signature()] {
		r.build(use, kind)
	}
}

// build does what the executor would do next, inside a span of its own. An error
// is left to the executor to find again; a panic goes on as it would there. With
// accumulated gradients the trainer has two executors of a kind, of which the
// one is known that was made last: what it builds may never be used, so it builds
// only when it is made.
func (r *Run) build(use *graphUse, kind train.GraphType) {
	if len(r.shapes) == 0 || len(use.seen) > 0 && r.trainer.NumAccumulatingSteps() > 1 {
		return
	}
	use.seen[r.signature()] = true
	of := "train"
	if kind != train.TrainType {
		of = "evaluate"
	}
	_, span := r.tel.StartSpan(current, CompileSpan, attribute.String(spans.AttrCategory, spans.CategoryCompile),
		attribute.String("graph", of), attribute.String("shapes", texts(r.shapes)))
	var err error
	defer span.EndErr(&err)
	_, err = use.exec.Compile(r.shapes...)
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

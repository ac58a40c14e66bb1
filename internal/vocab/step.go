package vocab

import (
	"slices"
	"strconv"
	"strings"
)

// StepRule says by which of its spans the training steps of a process are known.
// A process has those of the first rule that it has spans for.
type StepRule uint8

// The rules, in the order in which they apply.
const (
	StepNone      StepRule = iota // there is no training step, or it cannot be known which spans are one
	StepIteration                 // spans that are called an iteration of training
	StepProfiler                  // PyTorch's ProfilerStep#N
	StepNamed                     // spans with a common name for a step of training, in any category
	StepUpdate                    // no spans: updates of the metrics of the training say how many there were, and how long they took
	StepCompute                   // what a benchmark computes for a batch, and calls computing
	StepBody                      // the body of the loop over a data loader
	StepOptimizer                 // from the end of one optimizer step to the end of the next
	StepArgument                  // from the begin to the end of the spans of a thread that say they are of one step

	// StepRules is how many there are.
	StepRules = int(StepArgument) + 1
)

var stepNames = [StepRules]string{"none", "iteration", "profiler_step", "named_step", "metrics_update", "compute", "loader_body", "optimizer_step", "step_argument"}

// String returns the word for it: loader_body.
func (r StepRule) String() string {
	if int(r) < len(stepNames) {
		return stepNames[r]
	}
	return stepNames[StepNone]
}

// Between reports whether no span stands for a step: it is a stretch of time.
func (r StepRule) Between() bool { return r == StepOptimizer || r == StepArgument }

// tailPart is how much of the usual step the last one of a profile must at least last.
const tailPart = 50

// IsTail reports whether the last step of PyTorch's profiler is none, by how long it and
// the steps before it lasted: the profiler opens a step behind the last call of step(), and
// closes it when it is stopped, some microseconds later.
func IsTail(last int64, before []int64) bool {
	if len(before) == 0 {
		return false
	}
	before = slices.Sorted(slices.Values(before))
	return last < before[len(before)/2]/tailPart
}

// ProfilerStepNumber returns the number of a step of PyTorch's profiler by the name
// of its span: 12 for ProfilerStep#12.
func ProfilerStepNumber(name string) (n int64, ok bool) {
	rest, ok := strings.CutPrefix(name, "ProfilerStep#")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	return n, err == nil && n >= 0
}

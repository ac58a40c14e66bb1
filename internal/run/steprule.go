package run

import (
	"cmp"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/vocab"
)

// StepRules returns by which rules the steps of some processes are known, as words
// with ", " between them, empty without any; and what has to be said of them: what
// the steps are where no span is called one, and where they cannot be known. Helpers of
// training processes have none to begin with and are not meant to be among them.
func StepRules(procs []*Process) (rules string, remarks []string) {
	var list []vocab.StepRule
	contradiction := false
	for _, p := range procs {
		contradiction = contradiction || p.Steps.Contradiction
		if r := p.Steps.Rule; r != vocab.StepNone && !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, cmp.Compare[vocab.StepRule])
	var words []string
	for _, r := range list {
		words = append(words, r.String())
		switch r {
		case vocab.StepUpdate:
			remarks = append(remarks, "the iterations were not exported: their number and time are those of the last update of the metrics, single steps are means, and what came after it is not counted")
		case vocab.StepNamed:
			remarks = append(remarks, "no span has this vocabulary's name for an iteration: the steps are the spans that are called a step of training")
		case vocab.StepArgument:
			remarks = append(remarks, "no span is called an iteration: a step is the spans of a thread that have its number")
		case vocab.StepCompute:
			remarks = append(remarks, "no span is called an iteration: the steps are the calls that compute for a batch")
		case vocab.StepBody:
			remarks = append(remarks, "no span is called an iteration: the steps are the bodies of the loop over the data loader")
		case vocab.StepOptimizer:
			remarks = append(remarks, "no span is called an iteration: a step ends with that of the optimizer")
		}
	}
	if contradiction {
		remarks = append(remarks, "which spans are training steps cannot be known: what is recorded of loaders and optimizers contradicts itself")
	}
	return strings.Join(words, ", "), remarks
}

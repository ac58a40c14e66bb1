package spanstats

import (
	"slices"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Class is what kind of work a category stands for.
type Class uint8

// The classes. Other is everything that is none of the others, such as the
// spans that frame a run. Copy is data on its way between host and device.
const (
	Other Class = iota
	Compute
	IO
	Comm
	Copy
	classCount
)

// Classes are lists of categories that count as a class whatever they mean by
// package spans. A list that is not nil is all of its class. Categories are compared
// without regard to case; one that ends in "*" stands for all that begin with it.
// The zero value leaves all to their meaning.
type Classes struct {
	Compute, IO, Comm, Copy []string
	// NoKernels leaves the kernels of imported profiles to their category.
	// Otherwise the computing of a process that ran kernels on a device is the
	// time of these, and not that of the host's forward and backward around
	// them: those last while a device waits for data and for other ranks, so
	// that nothing would ever stall.
	NoKernels bool
}

// classOf are the classes of this package by those of package spans. What is set
// up before the training, and what frames it, is Other.
var classOf = map[vocab.Class]Class{
	vocab.ClassForward:        Compute,
	vocab.ClassBackward:       Compute,
	vocab.ClassOptimizer:      Compute,
	vocab.ClassCompute:        Compute,
	vocab.ClassInputWait:      IO,
	vocab.ClassInputWork:      IO,
	vocab.ClassCheckpointSave: IO,
	vocab.ClassCheckpointLoad: IO,
	vocab.ClassIO:             IO,
	vocab.ClassCollective:     Comm,
	vocab.ClassTransfer:       Copy,
}

// classOf returns the class of spans of a category that mean m.
func (c *Classes) classOf(category string, m *vocab.Meaning) Class {
	if m.Class == vocab.ClassBody {
		return Other // what happens in there has spans of its own
	}
	category = strings.ToLower(category)
	lists := [...][]string{Compute: c.Compute, IO: c.IO, Comm: c.Comm, Copy: c.Copy}
	for class, list := range lists {
		if slices.ContainsFunc(list, func(word string) bool {
			word = strings.ToLower(word)
			if stem, ok := strings.CutSuffix(word, "*"); ok {
				return strings.HasPrefix(category, stem)
			}
			return category == word
		}) {
			return Class(class)
		}
	}
	if class := classOf[m.Class]; class != Other && lists[class] == nil {
		return class
	}
	return Other
}

// device returns the class of a row of a device in an imported profile, and
// Other for the rows of the host.
func device(ev *dftracer.Event) Class {
	m, ok := job.OnDevice(ev)
	switch {
	case !ok:
		return Other
	case m.For == vocab.ClassCollective:
		return Comm
	case m.Class == vocab.ClassTransfer:
		return Copy
	}
	return Compute
}

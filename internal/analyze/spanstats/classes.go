package spanstats

import (
	"slices"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Class is the kind of work of a category.
type Class uint8

// The classes. Other is everything outside of the other classes, such as the
// spans around a run. Copy is data on its way between host and device.
const (
	Other Class = iota
	Compute
	IO
	Comm
	Copy
	classCount
)

// Classes has lists of categories whose class differs from their meaning in
// package spans. A list that is not nil replaces its class. Categories are
// compared case-insensitively; one that ends in "*" matches all with that
// prefix. The zero value changes nothing.
type Classes struct {
	Compute, IO, Comm, Copy []string
	// NoKernels leaves the kernels of imported profiles in their category.
	// Otherwise the computing of a process with kernels on a device is the time of
	// the kernels, not that of the host's forward and backward: those last while a
	// device waits for data and for other ranks, so that there would be no stalls.
	NoKernels bool
}

// classOf has the classes of this package by those of package spans. Set-up
// before the training and spans around it are Other.
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
		return Other // its inner spans count
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
// Other for rows of the host.
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

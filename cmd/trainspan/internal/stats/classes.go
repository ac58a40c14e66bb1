package stats

import (
	"slices"
	"strings"
)

// Class is what kind of work a category stands for.
type Class uint8

// The classes. Other is everything that is neither computing, I/O nor
// communication, such as the spans that frame a run.
const (
	Other Class = iota
	Compute
	IO
	Comm
)

// Classes assigns categories to classes. Categories are compared without
// regard to case; one that ends in "*" stands for all that begin with it. The
// zero Classes means DefaultClasses.
type Classes struct {
	Compute, IO, Comm []string
}

// DefaultClasses returns a fresh copy of the assignment that follows the
// categories of the AI logging tree and of the I/O that DFTracer intercepts.
func DefaultClasses() Classes {
	return Classes{
		Compute: []string{"compute", "ai_framework"},
		IO:      []string{"dataloader", "data_loader", "data", "reader*", "checkpoint", "posix*", "stdio*", "mpiio*", "hdf5*", "storage"},
		Comm:    []string{"comm", "mpi", "nccl*"},
	}
}

// Of returns the class of a category.
func (c *Classes) Of(category string) Class {
	category = strings.ToLower(category)
	in := func(list []string) bool {
		return slices.ContainsFunc(list, func(word string) bool {
			word = strings.ToLower(word)
			if stem, ok := strings.CutSuffix(word, "*"); ok {
				return strings.HasPrefix(category, stem)
			}
			return category == word
		})
	}
	switch {
	case in(c.Compute):
		return Compute
	case in(c.IO):
		return IO
	case in(c.Comm):
		return Comm
	}
	return Other
}

func (c *Classes) empty() bool { return len(c.Compute)+len(c.IO)+len(c.Comm) == 0 }

package stats

import (
	"slices"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
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
	// NoKernels leaves the kernels of imported profiles to their category.
	// Otherwise the computing of a process that ran kernels on a device is the
	// time of these, and not that of the host's forward and backward around
	// them: those last while a device waits for data and for other ranks, so
	// that nothing would ever be unoverlapped.
	NoKernels bool
}

// kernel reports whether an event of an imported profile is a kernel that
// computes. Imports tell its class; in older ones collectives are marked or
// known by their name.
func kernel(ev *dftracer.Event) bool {
	is := false
	for i := range ev.Args {
		switch a := &ev.Args[i]; a.Key {
		case "kind":
			if is = a.Str() == "kernel"; !is {
				return false
			}
		case "collective":
			return false
		case "class":
			if a.Str() != "compute" {
				return false
			}
			return true
		}
	}
	return is && !strings.HasPrefix(ev.Name, "nccl")
}

// profileCategory is that of everything in an imported profile.
const profileCategory = "pp"

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

package summary

import (
	"slices"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
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

// Classes assigns categories to classes. Categories are compared without
// regard to case; one that ends in "*" stands for all that begin with it. The
// zero Classes means DefaultClasses.
type Classes struct {
	Compute, IO, Comm, Copy []string
	// NoKernels leaves the kernels of imported profiles to their category.
	// Otherwise the computing of a process that ran kernels on a device is the
	// time of these, and not that of the host's forward and backward around
	// them: those last while a device waits for data and for other ranks, so
	// that nothing would ever stall.
	NoKernels bool
}

// device returns the class of a row of a device in an imported profile, and
// Other for the rows of the host. Imports tell the class; in older ones
// collectives are marked or known by their name.
func device(ev *dftracer.Event) Class {
	class := Other
	for i := range ev.Args {
		switch a := &ev.Args[i]; a.Key {
		case "kind":
			switch a.Str() {
			case "kernel":
				class = max(class, Compute)
			case "gpu_memcpy", "gpu_memset":
				class = Copy
			default:
				return Other
			}
		case "collective":
			return Comm
		case "class":
			switch a.Str() {
			case "comm":
				return Comm
			case "copy":
				return Copy
			}
		}
	}
	if class == Compute && strings.HasPrefix(ev.Name, "nccl") {
		return Comm
	}
	return class
}

// body reports whether the spans of a name last as long as the body of a loop
// over an iterator: what happens in there has spans of its own, and the
// category is that of the iterator.
func body(name string) bool {
	return strings.HasSuffix(name, ".block") || strings.HasSuffix(name, ".yield")
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
		Copy:    []string{"device"},
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
	case in(c.Copy):
		return Copy
	}
	return Other
}

func (c *Classes) empty() bool { return len(c.Compute)+len(c.IO)+len(c.Comm)+len(c.Copy) == 0 }

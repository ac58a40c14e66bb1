package setup

import "golang.org/x/sys/unix"

// coreAffinity returns the processor cores that this process may run on, or nil if they
// are unknown.
func coreAffinity() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	var cores []int
	for cpu := 0; len(cores) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cores = append(cores, cpu)
		}
	}
	return cores
}

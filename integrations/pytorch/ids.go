package pytorch

import (
	"cmp"
	"slices"
)

// idRuns holds the ids of a file's tied operators in the order of their
// numbers. A sink that nobody else writes to returns ids without gaps, which
// takes one run.
type idRuns struct {
	runs []idRun
	n    int64
}

type idRun struct {
	from  int64 // number of the first
	first uint64
}

// add takes the next id.
func (r *idRuns) add(id uint64) {
	if k := len(r.runs) - 1; k < 0 || r.runs[k].first+uint64(r.n-r.runs[k].from) != id {
		r.runs = append(r.runs, idRun{from: r.n, first: id})
	}
	r.n++
}

// of returns the id of a number that was added.
func (r *idRuns) of(n int64) uint64 {
	k, found := slices.BinarySearchFunc(r.runs, n, func(x idRun, n int64) int { return cmp.Compare(x.from, n) })
	if !found {
		k--
	}
	return r.runs[k].first + uint64(n-r.runs[k].from)
}

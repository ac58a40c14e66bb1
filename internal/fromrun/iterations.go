package fromrun

import (
	"encoding/binary"
	"slices"

	"github.com/trainspan/trainspan/internal/columns"
)

const iterationBlock = 256

// packIterations adds iterations to packed ones: only those of one rank are
// shown, and which rank that is shows in the end.
func packIterations(dst []byte, list []Iteration) []byte {
	var cols [3][iterationBlock]int64
	for part := range slices.Chunk(list, iterationBlock) {
		for i, it := range part {
			cols[0][i], cols[1][i], cols[2][i] = it.Step, it.Start, it.End-it.Start
		}
		dst = binary.AppendUvarint(dst, uint64(len(part)))
		for c := range cols {
			dst = columns.Append(dst, cols[c][:len(part)])
		}
	}
	return dst
}

// readIterations calls fn with each of them.
func readIterations(r *columns.Reader, fn func(Iteration)) {
	var cols [3][iterationBlock]int64
	for r.Len() > 0 && r.Err() == nil {
		n := r.Small(iterationBlock)
		for c := range cols {
			r.Column(cols[c][:n])
		}
		for i := 0; i < n && r.Err() == nil; i++ {
			fn(Iteration{Step: cols[0][i], Start: cols[1][i], End: cols[1][i] + cols[2][i]})
		}
	}
}

func openIterations(packed []byte) (out []Iteration) {
	readIterations(columns.NewReader(packed), func(it Iteration) { out = append(out, it) })
	return out
}

// Iteration is one training iteration of one rank.
type Iteration struct {
	Step       int64 // its number, or how many came before it where none is recorded
	Start, End int64
}

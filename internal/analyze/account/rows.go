package account

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/platform/stats"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// row holds the fields of a span that the sweep needs. It contains no pointers.
type row struct {
	id, parent uint64
	start, end int64
	thread     int64
	what       what
	kind       kind
	role       role
	background bool
	nested     bool
	meet       uint16      // number of its meetKind, 0 if it is not a meeting
	pass       vocab.Class // ClassForward, ClassBackward, or else ClassOther
}

type role uint8

const (
	roleNone role = iota
	roleLoop
	rolePhase // initializations and loads, which follow each other
	roleIteration
)

const (
	rowsAtFirst  = 1 << 6
	rowsPerBlock = 1 << 13
	rowsInMemory = 1 << 17 // 7 MiB; more rows are sorted in a temporary file
	sorterMemory = 8 << 20
)

// rowStore stores rows and returns them in the order of their starts, rows with the
// same start together. If there are more rows than limit, it sorts them in a
// temporary file.
type rowStore struct {
	limit int // 0 means rowsInMemory
	rowMemory
	n      int
	sorter *extsort.Sorter[row]
	err    error
	batch  []row
}

func (s *rowStore) add(r row) {
	if s.limit == 0 {
		s.limit = rowsInMemory
	}
	if s.sorter == nil && s.n >= s.limit {
		s.sorter = extsort.New(extsort.Plain(func(r *row) extsort.Key { return extsort.Key{First: r.start} }), sorterMemory, "")
		for k, b := range s.blocks {
			for i := range b {
				s.spill(b[i])
			}
			s.blocks[k] = nil // free each block as soon as the sorter has it
		}
		s.blocks = nil
	}
	if s.sorter != nil {
		s.spill(r)
		return
	}
	if s.n%rowsPerBlock == 0 {
		// The first block is small and grows: a file may have very many processes.
		s.blocks = append(s.blocks, s.block(max(s.n, rowsAtFirst)))
	}
	last := &s.blocks[len(s.blocks)-1]
	if len(*last) == cap(*last) {
		*last = append(s.block(4*cap(*last)), *last...)
	}
	*last = append(*last, r)
	s.n++
}

// rowMemory holds the rows of a process in memory, and memory to reuse from earlier
// processes.
type rowMemory struct {
	blocks, free [][]row
	keys         []rowKey
}

var rowMemories sync.Pool

// block returns memory for n rows, at most rowsPerBlock, or a whole block of an earlier
// process.
func (m *rowMemory) block(n int) []row {
	if m.free == nil {
		if of, ok := rowMemories.Get().(*rowMemory); ok {
			m.free, m.keys = of.free, of.keys
		}
	}
	k := len(m.free)
	if k == 0 {
		return make([]row, 0, min(n, rowsPerBlock))
	}
	b := m.free[k-1]
	m.free = m.free[:k-1]
	return b
}

// rowKey is the start of a row and its index, for sorting.
type rowKey struct {
	start int64
	at    int32
}

func (s *rowStore) spill(r row) {
	if s.err == nil {
		s.err = s.sorter.Add(&r)
	}
}

// all returns a function that returns the rows of the next start on each call, and
// nil at the end. The order of rows depends only on their content, not on the order
// of add. The rows are valid until the next call.
func (s *rowStore) all() func() []row {
	next := s.inMemory()
	if s.sorter != nil {
		it := s.sorter.Iter()
		var held [2]row // the one that was returned before stays valid
		n := 0
		next = func() []row {
			r := it.Next()
			if r == nil {
				s.err = errors.Join(s.err, it.Err())
				return nil
			}
			n ^= 1
			held[n] = *r
			return held[n : n+1]
		}
	}
	ahead := next()
	return func() []row {
		if ahead == nil {
			return nil
		}
		first, start := ahead, ahead[0].start
		if ahead = next(); ahead == nil || ahead[0].start != start {
			return first
		}
		s.batch = append(s.batch[:0], first[0])
		for ; ahead != nil && ahead[0].start == start; ahead = next() {
			s.batch = append(s.batch, ahead[0])
		}
		slices.SortFunc(s.batch, func(x, y row) int { return compare(&x, &y) })
		s.batch = unite(s.batch)
		return s.batch
	}
}

// inMemory returns a function that returns the rows of the blocks one by one by start,
// and nil at the end.
func (s *rowStore) inMemory() func() []row {
	keys := slices.Grow(s.keys[:0], s.n)
	for b := range s.blocks {
		for i := range s.blocks[b] {
			keys = append(keys, rowKey{s.blocks[b][i].start, int32(len(keys))})
		}
	}
	stats.SortRuns(keys, func(a, b *rowKey) int { return cmp.Compare(a.start, b.start) })
	s.keys = keys
	i := 0
	return func() []row {
		if i == len(keys) {
			return nil
		}
		at := keys[i].at
		i++
		k := at % rowsPerBlock
		return s.blocks[at/rowsPerBlock][k : k+1]
	}
}

// close releases the memory and the temporary file. It returns the first errors of
// the store.
func (s *rowStore) close() error {
	for _, b := range s.blocks {
		if cap(b) == rowsPerBlock {
			s.free = append(s.free, b[:0])
		}
	}
	if len(s.free) > 0 {
		rowMemories.Put(&rowMemory{free: s.free, keys: s.keys})
	}
	s.rowMemory = rowMemory{}
	if s.sorter != nil {
		s.err = errors.Join(s.err, s.sorter.Close())
	}
	return s.err
}

// compare orders rows with the same start. Nested rows come from files without
// parents: the enclosing span comes first, and of equal spans the one with the
// higher id, which was written later.
func compare(a, b *row) int {
	if a.nested && b.nested {
		if c := nest.KeyOf(a.start, a.end, 0).Compare(nest.KeyOf(b.start, b.end, 0)); c != 0 || a.id != b.id {
			return cmp.Or(c, cmp.Compare(b.id, a.id))
		}
	}
	if c := cmp.Compare(a.id, b.id); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.parent, b.parent),
		cmp.Compare(a.end, b.end), cmp.Compare(a.meet, b.meet))
}

// unite merges rows with the same id: a span and the record of its begin, or a span
// that was read twice.
func unite(rows []row) []row {
	out := rows[:0]
	for i := range rows {
		r := &rows[i]
		if n := len(out); n > 0 && r.id != 0 && out[n-1].id == r.id {
			last := &out[n-1]
			last.end = min(last.end, r.end) // prefers a known end to job.NoEnd
			last.thread = max(last.thread, r.thread)
			last.background = last.background || r.background
			if last.parent == 0 || r.parent != 0 && r.parent < last.parent {
				last.parent = r.parent
			}
			continue
		}
		out = append(out, *r)
	}
	return out
}

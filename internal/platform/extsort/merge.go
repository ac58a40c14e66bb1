package extsort

import (
	"cmp"
	"slices"
)

// entry represents a row in memory while it is sorted.
type entry struct {
	first, second int64
	group         uint32
	at            place
}

const (
	// keyBytes is what a row takes in addition to its data: its entry, and its
	// number for sorting and for merging.
	keyBytes = 24 + 4 + 4
	// blockBits is the number of entries per block, as a power of two. Blocks are
	// never moved.
	blockBits = 11
)

// precedes reports whether a comes before b, which was added earlier. Both are
// in the same group.
func (a *entry) precedes(b *entry) bool {
	if a.first != b.first {
		return a.first < b.first
	}
	return a.second < b.second
}

// memory holds the rows that are not written to disk.
type memory struct {
	chunks
	added [][]entry // of the rows, in the order of arrival
	held  int       // rows
	order []uint32  // their numbers in order, once sorted
	spare []uint32  // for merging
	dirty bool
}

// entry returns the entry of the i-th row that was added.
func (m *memory) entry(i uint32) *entry { return &m.added[i>>blockBits][i&(1<<blockBits-1)] }

// sort orders the numbers of the rows. Traces have long runs that are already
// in order: a stable split by group exposes them, and merging them compares
// little more than once per row.
func (m *memory) sort() {
	if !m.dirty {
		return
	}
	m.dirty = false
	m.order = sized(m.order, m.held)
	ends := m.split()
	from := 0
	for _, to := range ends {
		m.mergeRuns(m.order[from:to])
		from = to
	}
}

// sized returns n uninitialized numbers, in o if it has room.
func sized(o []uint32, n int) []uint32 {
	if cap(o) < n {
		return make([]uint32, n)
	}
	return o[:n]
}

// split fills order group by group, keeps the order inside each group, and
// returns where each ends.
func (m *memory) split() (ends []int) {
	top, sorted := uint32(0), true
	for i := range m.order {
		g := m.entry(uint32(i)).group
		sorted = sorted && g >= top
		top = max(top, g)
	}
	if sorted || int64(top) > int64(m.held)+1024 {
		for i := range m.order {
			m.order[i] = uint32(i)
		}
		if !sorted {
			slices.SortStableFunc(m.order, func(a, b uint32) int { return cmp.Compare(m.entry(a).group, m.entry(b).group) })
		}
		for i := 1; i < len(m.order); i++ {
			if m.entry(m.order[i]).group != m.entry(m.order[i-1]).group {
				ends = append(ends, i)
			}
		}
		return append(ends, len(m.order))
	}
	at := make([]int, top+2)
	for i := range m.order {
		at[m.entry(uint32(i)).group+1]++
	}
	for g := range top {
		at[g+1] += at[g]
	}
	for i := range m.order {
		g := m.entry(uint32(i)).group
		m.order[at[g]] = uint32(i)
		at[g]++
	}
	return at[:top+1] // each group was filled up to the start of the next
}

// mergeRuns sorts the rows of one group: it finds the runs that are in order
// and merges neighbours until one is left.
func (m *memory) mergeRuns(rows []uint32) {
	ends := make([]int, 0, 64)
	for i := 1; i < len(rows); i++ {
		if m.entry(rows[i]).precedes(m.entry(rows[i-1])) {
			ends = append(ends, i)
		}
	}
	if len(ends) == 0 {
		return
	}
	ends = append(ends, len(rows))
	m.spare = sized(m.spare, len(rows))
	from, to := rows, m.spare
	for len(ends) > 1 {
		kept := ends[:0]
		start := 0
		for i := 0; i < len(ends); i += 2 {
			if i+1 == len(ends) {
				copy(to[start:ends[i]], from[start:ends[i]])
				kept = append(kept, ends[i])
				break
			}
			mid, end := ends[i], ends[i+1]
			m.merge(to[start:end], from[start:mid], from[mid:end])
			kept = append(kept, end)
			start = end
		}
		ends = kept
		from, to = to, from
	}
	if &from[0] != &rows[0] {
		copy(rows, from)
	}
}

// merge merges a and b, each in order, into dst.
func (m *memory) merge(dst, a, b []uint32) {
	n := 0
	x, y := m.entry(a[0]), m.entry(b[0])
	for {
		if y.precedes(x) {
			dst[n] = b[0]
			n++
			if b = b[1:]; len(b) == 0 {
				break
			}
			y = m.entry(b[0])
		} else {
			dst[n] = a[0]
			n++
			if a = a[1:]; len(a) == 0 {
				break
			}
			x = m.entry(a[0])
		}
	}
	copy(dst[n:], a)
	copy(dst[n+len(a):], b)
}

package spill

import (
	"cmp"
	"slices"
)

// entry stands for a row in memory while it is sorted.
type entry struct {
	first, second int64
	group         uint32
	at            place
}

const (
	// keyBytes is what an entry takes: where it was added, where it is sorted
	// and where it is merged.
	keyBytes = 3 * 24
	// blockBits is how many entries, as a power of two, are added without
	// moving any.
	blockBits = 11
)

// before reports whether a comes before b of the same group.
func (a *entry) before(b *entry) bool {
	if a.first != b.first {
		return a.first < b.first
	}
	return a.second < b.second
}

// sort puts the keys into the order of their rows. Traces come in long
// stretches that are in order already: a stable split by group lets these
// appear, and merging them compares little more than once per row.
func (s *Sorter[T]) sort() {
	if !s.dirty {
		return
	}
	s.dirty = false
	s.keys = sized(s.keys, s.held)
	s.split()
	for from := 0; from < len(s.keys); {
		to := from + 1
		for to < len(s.keys) && s.keys[to].group == s.keys[from].group {
			to++
		}
		s.mergeRuns(s.keys[from:to])
		from = to
	}
}

// sized returns n entries of whatever contents, e itself if it has room.
func sized(e []entry, n int) []entry {
	if cap(e) < n {
		return make([]entry, n)
	}
	return e[:n]
}

// each calls fn with the entries as they were added.
func (s *Sorter[T]) each(fn func(block []entry)) {
	for left, i := s.held, 0; left > 0; i++ {
		n := min(left, 1<<blockBits)
		fn(s.added[i][:n])
		left -= n
	}
}

// split fills keys, group by group, and keeps the order inside each.
func (s *Sorter[T]) split() {
	top, sorted := uint32(0), true
	s.each(func(block []entry) {
		for i := range block {
			g := block[i].group
			sorted = sorted && g >= top
			top = max(top, g)
		}
	})
	if sorted || int64(top) > int64(s.held)+1024 {
		n := 0
		s.each(func(block []entry) { n += copy(s.keys[n:], block) })
		if !sorted {
			slices.SortStableFunc(s.keys, func(a, b entry) int { return cmp.Compare(a.group, b.group) })
		}
		return
	}
	at := make([]uint32, top+2)
	s.each(func(block []entry) {
		for i := range block {
			at[block[i].group+1]++
		}
	})
	for g := range top {
		at[g+1] += at[g]
	}
	s.each(func(block []entry) {
		for i := range block {
			g := block[i].group
			s.keys[at[g]] = block[i]
			at[g]++
		}
	})
}

// mergeRuns sorts the keys of one group: it finds the stretches that are in
// order and merges neighbours until one is left.
func (s *Sorter[T]) mergeRuns(keys []entry) {
	ends := make([]int, 0, 64)
	for i := 1; i < len(keys); i++ {
		if keys[i].before(&keys[i-1]) {
			ends = append(ends, i)
		}
	}
	if len(ends) == 0 {
		return
	}
	ends = append(ends, len(keys))
	s.spare = sized(s.spare, len(keys))
	from, to := keys, s.spare
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
			merge(to[start:end], from[start:mid], from[mid:end])
			kept = append(kept, end)
			start = end
		}
		ends = kept
		from, to = to, from
	}
	if &from[0] != &keys[0] {
		copy(keys, from)
	}
}

// merge puts a and b, each in order, into dst.
func merge(dst, a, b []entry) {
	n := 0
	for len(a) > 0 && len(b) > 0 {
		if b[0].before(&a[0]) {
			dst[n], b = b[0], b[1:]
		} else {
			dst[n], a = a[0], a[1:]
		}
		n++
	}
	copy(dst[n:], a)
	copy(dst[n+len(a):], b)
}

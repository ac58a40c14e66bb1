package account

import (
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/platform/stats"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Row is what is kept of a span. It contains no pointers.
type Row struct {
	ID, Parent uint64
	Start, End int64 // End is job.NoEnd if the span has not ended
	Thread     int64

	// Number is the recorded step of a collective or job.Unknown, when the host asked for the
	// work of a device, or how long a device worked for another span without collectives.
	Number int64

	what   what
	Op     uint16      // number of its [Op], 0 if it is no communication
	meet   uint16      // number of its meetKind, 0 if it is not a meeting
	Class  vocab.Class // of the work of a device: what it is for
	kind   kind
	role   role
	nested bool

	Background bool
	OfDevice   bool // the work of a device, with the time of its launch
	Outside    bool // of steps, although its class has a part in them: a launch, or the end of a save
	Long       bool // its begin was also recorded
}

// pass returns ClassForward or ClassBackward for a pass through the model, else ClassOther.
func (r *Row) pass() vocab.Class {
	if (r.Class == vocab.ClassForward || r.Class == vocab.ClassBackward) && !r.OfDevice {
		return r.Class
	}
	return vocab.ClassOther
}

// Reader reads the rows of a process: once, in the order of their starts.
// Begin is called before the first row, when the records of the process are complete. Rows must
// not be changed.
type Reader interface {
	Begin(all *Spans)
	Row(r *Row)
	End() error
}

// Spans is what all rows of a process have in common.
type Spans struct {
	Ops    []Op       // by number, from 1
	Role   string     // distinguishes ranks that do different work
	Loader job.Loader // how it loads data
}

// add takes what does not depend on the order of spans.
func (a *Spans) add(s *job.Span) {
	if s.Role != "" {
		a.Role = max(a.Role, s.Role)
	}
	a.Loader = max(a.Loader, s.Loader)
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
	rowsInMemory = 1 << 17 // 8 MiB; more rows are sorted in a temporary file
	sorterMemory = 8 << 20
)

// rowStore stores rows and returns them in the order of their starts, rows with the
// same start together. If there are more rows than limit, it sorts them in a
// temporary file.
type rowStore struct {
	limit int // 0 means rowsInMemory
	rowMemory
	n      int
	sorter *extsort.Sorter[Row]
	err    error
	batch  []Row
}

func (s *rowStore) add(r Row) {
	if s.limit == 0 {
		s.limit = rowsInMemory
	}
	if s.sorter == nil && s.n >= s.limit {
		s.sorter = extsort.New(extsort.Plain(func(r *Row) extsort.Key { return extsort.Key{First: r.Start} }), sorterMemory, "")
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
	blocks, free [][]Row
	keys         []rowKey
	runs         stats.Runs[rowKey]
}

var rowMemories sync.Pool

// block returns memory for n rows, at most rowsPerBlock, or a whole block of an earlier
// process.
func (m *rowMemory) block(n int) []Row {
	if m.free == nil {
		if of, ok := rowMemories.Get().(*rowMemory); ok {
			m.free, m.keys, m.runs = of.free, of.keys, of.runs
		}
	}
	k := len(m.free)
	if k == 0 {
		return make([]Row, 0, min(n, rowsPerBlock))
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

func (s *rowStore) spill(r Row) {
	if s.err == nil {
		s.err = s.sorter.Add(&r)
	}
}

// all returns a function that returns the rows of the next start on each call, and
// nil at the end. The order of rows depends only on their content, not on the order
// of add. The rows are valid until the next call.
func (s *rowStore) all() func() []Row {
	if s.sorter == nil {
		return s.inMemory()
	}
	it := s.sorter.Iter()
	var ahead *Row
	read := func() {
		if ahead = it.Next(); ahead == nil {
			s.err = errors.Join(s.err, it.Err())
		}
	}
	read()
	return func() []Row {
		if ahead == nil {
			return nil
		}
		s.batch = append(s.batch[:0], *ahead)
		for read(); ahead != nil && ahead.Start == s.batch[0].Start; read() {
			s.batch = append(s.batch, *ahead)
		}
		s.batch = order(s.batch)
		return s.batch
	}
}

// inMemory is all for the rows of the blocks.
func (s *rowStore) inMemory() func() []Row {
	keys := slices.Grow(s.keys[:0], s.n)
	for b := range s.blocks {
		for i := range s.blocks[b] {
			keys = append(keys, rowKey{s.blocks[b][i].Start, int32(len(keys))})
		}
	}
	s.runs.Sort(keys, func(a, b *rowKey) int { return cmp.Compare(a.start, b.start) })
	s.keys = keys
	row := func(at int32) []Row {
		k := at % rowsPerBlock
		return s.blocks[at/rowsPerBlock][k : k+1]
	}
	return func() []Row {
		if len(keys) == 0 {
			return nil
		}
		n, start := 1, keys[0].start
		for n < len(keys) && keys[n].start == start {
			n++
		}
		same := keys[:n]
		if keys = keys[n:]; n == 1 {
			return row(same[0].at)
		}
		s.batch = s.batch[:0]
		for _, k := range same {
			s.batch = append(s.batch, row(k.at)...)
		}
		s.batch = order(s.batch)
		return s.batch
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
		rowMemories.Put(&rowMemory{free: s.free, keys: s.keys, runs: s.runs})
	}
	s.rowMemory = rowMemory{}
	if s.sorter != nil {
		s.err = errors.Join(s.err, s.sorter.Close())
	}
	return s.err
}

// order unites and sorts rows with the same start, in place: by id, or those from files without
// parents the enclosing one first, and of equal ones the one with the higher id, which was
// written later.
func order(rows []Row) []Row {
	slices.SortFunc(rows, compare)
	rows = unite(rows)
	if slices.ContainsFunc(rows, func(r Row) bool { return r.nested }) {
		slices.SortStableFunc(rows, func(a, b Row) int {
			if !a.nested || !b.nested {
				return cmp.Compare(a.ID, b.ID)
			}
			return cmp.Or(nest.KeyOf(a.Start, a.End, 0).Compare(nest.KeyOf(b.Start, b.End, 0)), cmp.Compare(b.ID, a.ID))
		})
	}
	return rows
}

// compare orders rows with the same start by id, and the records of one span by its end.
func compare(a, b Row) int {
	if c := cmp.Compare(a.ID, b.ID); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(a.what, b.what), cmp.Compare(a.Parent, b.Parent),
		cmp.Compare(a.Op, b.Op), cmp.Compare(a.Number, b.Number))
}

// unite merges rows with the same id: a span and the record of its begin, or a span that was
// read twice. Of two ends the known one counts.
func unite(rows []Row) []Row {
	out := rows[:0]
	for i := range rows {
		r := &rows[i]
		if n := len(out); n > 0 && r.ID != 0 && out[n-1].ID == r.ID {
			last := &out[n-1]
			last.Long = last.Long || r.End == job.NoEnd && last.End != job.NoEnd
			last.Thread = max(last.Thread, r.Thread)
			last.Background = last.Background || r.Background
			if last.Parent == 0 || r.Parent != 0 && r.Parent < last.Parent {
				last.Parent = r.Parent
			}
			continue
		}
		out = append(out, *r)
	}
	return out
}

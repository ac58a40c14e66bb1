package account

import (
	"encoding/binary"
	"iter"
	"slices"
	"sync"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/columns"
	"github.com/trainspan/trainspan/internal/platform/extsort"
)

// packed holds the large lists of an attempt as compressed columns: 15 to 35 bytes
// per iteration. Intervals and overlaps are read block by block; iterations are
// unpacked for one rank at a time.
type packed struct {
	segs       rows // intervals without gaps from the start of the attempt to its stop
	overlaps   rows
	iterations rows  // by start
	inside     rows  // meetings inside of iterations
	outside    rows  // meetings outside of iterations
	messages   rows  // messages received in iterations
	shift      int64 // added to all times: see attempt.move
}

// rows holds packed rows of integers, in parts of whole blocks.
type rows struct {
	parts []extsort.Block
	n     int
}

const (
	packBlock = 256      // rows that share a unit and a width
	partBytes = 16 << 10 // size of a part: larger parts need too much memory if a job has many ranks
)

// The columns of each kind of row.
const (
	segColumns       = 3
	overlapColumns   = 4
	iterationColumns = 10
	mostColumns      = 10
)

// rowPacker packs rows one by one.
type rowPacker struct {
	rows
	spill *extsort.Blocks
	packMemory
	held int
}

type packMemory struct {
	data []byte // of the last part
	cols [][packBlock]int64
}

var packMemories sync.Pool

func (p *rowPacker) add(values ...int64) {
	if p.cols == nil {
		if of, ok := packMemories.Get().(*packMemory); ok {
			p.data, p.cols = of.data, of.cols[:len(values)]
		} else {
			p.cols = make([][packBlock]int64, len(values), mostColumns)
		}
	}
	for c, v := range values {
		p.cols[c][p.held] = v
	}
	p.n++
	if p.held++; p.held == packBlock {
		p.flush()
	}
}

func (p *rowPacker) flush() {
	for c := range p.cols {
		p.data = columns.Append(p.data, p.cols[c][:p.held])
	}
	if p.held = 0; len(p.data) >= partBytes {
		p.endPart()
	}
}

func (p *rowPacker) endPart() {
	if len(p.data) > 0 {
		p.parts, p.data = append(p.parts, p.spill.Put(p.data)), p.data[:0]
	}
}

func (p *rowPacker) done() rows {
	p.flush()
	p.endPart()
	if p.cols != nil {
		of := p.packMemory
		packMemories.Put(&of)
		p.packMemory = packMemory{}
	}
	return p.rows
}

// append appends the rows to dst and returns it.
func (r *rows) append(dst []byte) []byte {
	size := 0
	for i := range r.parts {
		size += r.parts[i].Size()
	}
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(r.n)), uint64(size))
	var buf []byte
	for i := range r.parts {
		dst = append(dst, r.parts[i].Read(&buf)...)
	}
	return dst
}

// blocks returns an iterator over the columns of each block and its number of
// rows. Damaged data ends the iteration early.
func (r *rows) blocks(columnCount int) iter.Seq2[[][packBlock]int64, int] {
	return func(yield func([][packBlock]int64, int) bool) {
		cols := make([][packBlock]int64, columnCount)
		left := r.n
		var buf []byte
		for i := range r.parts {
			for src := columns.NewReader(r.parts[i].Read(&buf)); left > 0 && src.Len() > 0; {
				n := min(left, packBlock)
				for c := range cols {
					src.Column(cols[c][:n])
				}
				if src.Err() != nil || !yield(cols, n) {
					return
				}
				left -= n
			}
		}
	}
}

// timeline packs the intervals of an attempt in order.
type timeline struct {
	segs, overlaps rowPacker
	iterations     []iteration
	sketches       []sketch // of each iteration, nil without windows
	last           seg      // not packed yet: it ends at the start of the next one
	any            bool
	hash           hash // of the intervals
	names          []Category
	met            meetings
	messages       messages
	hides          hiddenSum
	devices        bool     // in a step the host only launches work on a device
	joins          bool     // waits for collectives are meetings
	number         [2]int64 // the last iteration in segs and in overlaps
}

func newTimeline(names []Category, spill *extsort.Blocks) *timeline {
	to := rowPacker{spill: spill}
	return &timeline{names: names, hash: newHash(), segs: to, overlaps: to, met: meetings{inside: to, outside: to}, messages: messages{rows: to}}
}

// extend adds an interval that begins at from and lasts until the next one.
func (t *timeline) extend(from int64, w what) {
	if w == gap {
		w = whatOther
	}
	if t.any && t.last.what == w {
		return
	}
	t.close(from)
	t.last, t.any = seg{from, w}, true
}

// close ends the last interval.
func (t *timeline) close(at int64) {
	if !t.any {
		return
	}
	n, isIteration := t.last.what.iteration()
	t.hash.add(t.last.start)
	if isIteration {
		t.iterations[n].own += at - t.last.start
		t.hash.add(int64(n))
	} else {
		t.hash.text(string(t.names[t.last.what]))
	}
	kind, number := t.last.what.split(&t.number[0])
	t.segs.add(kind, number, t.last.start)
}

// divide adds time to a part of an iteration.
func (t *timeline) divide(w what, p part, took int64) {
	n, ok := w.iteration()
	switch {
	case !ok || p == partOther || t.devices:
	case p == partCompute:
		t.iterations[n].compute += took
	default:
		t.iterations[n].meets += took
	}
}

// mostHidden is the number of overlaps of an iteration that are stored separately. The rest are
// added up to one overlap, which begins at the start of the first of them.
const mostHidden = 24

func (t *timeline) overlap(o overlapped) {
	if o.what >= firstIteration {
		if o.what != t.hides.what {
			t.foldHidden()
			t.hides.what = o.what
		}
		if t.hides.n++; t.hides.n > mostHidden {
			if t.hides.took == 0 {
				t.hides.from = o.from
			}
			t.hides.took += o.to - o.from
			return
		}
	}
	t.addOverlap(o)
}

// hiddenSum adds up the overlaps of an iteration beyond mostHidden.
type hiddenSum struct {
	what       what
	n          int
	from, took int64
}

func (t *timeline) foldHidden() {
	if h := &t.hides; h.took > 0 {
		t.addOverlap(overlapped{h.from, h.from + h.took, h.what})
	}
	t.hides = hiddenSum{}
}

func (t *timeline) addOverlap(o overlapped) {
	kind, number := o.what.split(&t.number[1])
	t.overlaps.add(kind, number, o.from, o.to-o.from)
}

// split returns two columns for w: 0 for an iteration, or the category plus one;
// and the index of the iteration, or that of the row before outside of iterations.
func (w what) split(last *int64) (kind, number int64) {
	if n, ok := w.iteration(); ok {
		*last = int64(n)
		return 0, *last
	}
	return int64(w) + 1, *last
}

func joined(kind, number int64) what {
	if kind == 0 {
		return firstIteration + what(number)
	}
	return what(kind - 1)
}

// pack returns the packed timeline. No intervals may be added afterwards.
func (t *timeline) pack() packed {
	its := rowPacker{spill: t.segs.spill}
	for i := range t.iterations {
		it := &t.iterations[i]
		var mid, least int64
		if it.more > 0 {
			mid, least = t.sketches[i].mid, t.sketches[i].mid-t.sketches[i].least
		}
		// The own time is the length minus the data loading and saves inside. The
		// difference is usually 0.
		its.add(it.number, it.start, it.length(), it.length()-it.own, int64(it.loop), int64(it.more), mid, least, it.compute, it.meets)
	}
	t.met.fold()
	t.foldHidden()
	t.messages.end()
	return packed{messages: t.messages.rows.done(), segs: t.segs.done(), overlaps: t.overlaps.done(), iterations: its.done(), inside: t.met.inside.done(), outside: t.met.outside.done()}
}

// length returns the length of the iteration, or -1 if it has no end.
func (it *iteration) length() int64 {
	if it.end == job.NoEnd {
		return -1
	}
	return it.end - it.start
}

// stretches returns an iterator over the intervals in order, each with its end.
// The last one ends at stop.
func (p *packed) stretches(stop int64) iter.Seq2[seg, int64] {
	return func(yield func(seg, int64) bool) {
		var last seg
		any := false
		for cols, n := range p.segs.blocks(segColumns) {
			for i := range n {
				s := seg{start: cols[2][i] + p.shift, what: joined(cols[0][i], cols[1][i])}
				if any && !yield(last, s.start) {
					return
				}
				last, any = s, true
			}
		}
		if any {
			yield(last, stop)
		}
	}
}

// hidden returns an iterator over the overlaps.
func (p *packed) hidden() iter.Seq[overlapped] {
	return func(yield func(overlapped) bool) {
		for cols, n := range p.overlaps.blocks(overlapColumns) {
			for i := range n {
				if !yield(overlapped{from: cols[2][i] + p.shift, to: cols[2][i] + p.shift + cols[3][i], what: joined(cols[0][i], cols[1][i])}) {
					return
				}
			}
		}
	}
}

// open appends the iterations to dst and returns it. The sketches are nil if no
// iteration is a window.
func (p *packed) open(dst []iteration) (its []iteration, sketches []sketch) {
	dst = slices.Grow(dst, p.iterations.n)
	for cols, n := range p.iterations.blocks(iterationColumns) {
		for i := range n {
			it := iteration{number: cols[0][i], start: cols[1][i] + p.shift, own: cols[2][i] - cols[3][i], loop: int32(cols[4][i]), compute: cols[8][i], meets: cols[9][i]}
			if it.end = it.start + cols[2][i]; cols[2][i] < 0 {
				it.end = job.NoEnd
			}
			if it.more = int32(cols[5][i]); it.more > 0 && sketches == nil {
				sketches = make([]sketch, 0, p.iterations.n)
				for _, before := range dst {
					sketches = append(sketches, sketch{before.own, before.own})
				}
			}
			if sketches != nil {
				sk := sketch{it.own, it.own}
				if it.more > 0 {
					sk = sketch{cols[6][i], cols[6][i] - cols[7][i]}
				}
				sketches = append(sketches, sk)
			}
			dst = append(dst, it)
		}
	}
	return dst, sketches
}

// all returns the rows in the order of a file.
func (p *packed) all() [6]*rows {
	return [...]*rows{&p.segs, &p.overlaps, &p.iterations, &p.inside, &p.outside, &p.messages}
}

// sound reports whether rows from a file are complete and refer only to existing
// categories, loops, iterations and meetings.
func (p *packed) sound(names, loops, meets int) bool {
	good := func(kind, number int64) bool {
		return kind == 0 && number >= 0 && number < int64(p.iterations.n) || kind > 0 && kind <= int64(names)
	}
	seen := 0
	for cols, n := range p.segs.blocks(segColumns) {
		for i := range n {
			if good(cols[0][i], cols[1][i]) {
				seen++
			}
		}
	}
	for cols, n := range p.overlaps.blocks(overlapColumns) {
		for i := range n {
			if good(cols[0][i], cols[1][i]) {
				seen++
			}
		}
	}
	for cols, n := range p.iterations.blocks(iterationColumns) {
		for i := range n {
			if cols[4][i] >= 0 && cols[4][i] < int64(loops) && cols[5][i] >= 0 && cols[5][i] < windowSteps {
				seen++
			}
		}
	}
	known := func(kind, took int64) bool { return kind > 0 && kind <= int64(meets) && took >= 0 }
	for cols, n := range p.inside.blocks(insideColumns) {
		for i := range n {
			if known(cols[2][i], cols[4][i]) && cols[0][i] >= 0 && cols[0][i] < int64(p.iterations.n) {
				seen++
			}
		}
	}
	for cols, n := range p.outside.blocks(outsideColumns) {
		for i := range n {
			if known(cols[1][i], cols[4][i]) {
				seen++
			}
		}
	}
	p.received(func(r *received) {
		if r.iteration >= 0 && r.iteration < p.iterations.n && min(r.count, r.took, r.least) >= 0 && r.from >= fromUnknown {
			seen++
		}
	})
	return seen == p.segs.n+p.overlaps.n+p.iterations.n+p.inside.n+p.outside.n+p.messages.n
}

package goodput

import (
	"bytes"
	"slices"

	"github.com/trainspan/trainspan/analysis/run"
	"github.com/trainspan/trainspan/internal/columns"
)

// timeline is what an attempt has very many of. It is kept packed, about 25
// bytes an iteration, and opened for one rank at a time.
type timeline struct {
	segs       []seg // without gaps from the start of the attempt to its stop
	overlaps   []overlapped
	iterations []iteration // by start
}

// packed is a timeline as columns.
type packed struct {
	data                       []byte
	segs, overlaps, iterations int
}

// packBlock is how many values share a unit and a width.
const packBlock = 256

// pack keeps what is in t.
func (t *timeline) pack() packed {
	var p packer
	for part := range slices.Chunk(t.segs, packBlock) {
		for i := range part {
			p.what(i, part[i].what)
			p.cols[2][i] = part[i].start
		}
		p.append(3, len(part))
	}
	p.last = 0
	for part := range slices.Chunk(t.overlaps, packBlock) {
		for i := range part {
			p.what(i, part[i].what)
			p.cols[2][i], p.cols[3][i] = part[i].from, part[i].to-part[i].from
		}
		p.append(4, len(part))
	}
	for part := range slices.Chunk(t.iterations, packBlock) {
		for i := range part {
			it := &part[i]
			p.cols[0][i], p.cols[1][i], p.cols[2][i], p.cols[4][i] = it.number, it.start, it.length(), int64(it.loop)
			// The own time is the length less the data and saves inside, mostly nothing.
			p.cols[3][i] = it.length() - it.own
			if p.cols[5][i], p.cols[6][i], p.cols[7][i] = int64(it.more), 0, 0; it.more > 0 {
				p.cols[6][i], p.cols[7][i] = it.mid, it.mid-it.least
			}
		}
		p.append(iterationColumns, len(part))
	}
	return packed{data: bytes.Clone(p.out), segs: len(t.segs), overlaps: len(t.overlaps), iterations: len(t.iterations)}
}

// length is that of the iteration, -1 without an end.
func (it *iteration) length() int64 {
	if it.end == run.NoEnd {
		return -1
	}
	return it.end - it.start
}

// iterationColumns is how many numbers an iteration has.
const iterationColumns = 8

type packer struct {
	cols [iterationColumns][packBlock]int64
	last int64 // the iteration of the stretch before
	out  []byte
}

// what splits what a stretch is in two columns: 0 for an iteration or its
// category and one, and the iteration, which is that of the stretch before where
// there is none.
func (p *packer) what(i int, w what) {
	if n, ok := w.iteration(); ok {
		p.last = int64(n)
		p.cols[0][i] = 0
	} else {
		p.cols[0][i] = int64(w) + 1
	}
	p.cols[1][i] = p.last
}

func (p *packer) append(columnCount, n int) {
	for c := range columnCount {
		p.out = columns.Append(p.out, p.cols[c][:n])
	}
}

// opener unpacks timelines into buffers that it uses again.
type opener struct {
	cols [iterationColumns][packBlock]int64
}

// open fills t, which is empty or was opened before. An error means that the
// bytes are damaged, which only those of a file can be.
func (o *opener) open(p *packed, names, loops int, t *timeline) error {
	r := columns.NewReader(p.data)
	t.segs, t.overlaps, t.iterations = t.segs[:0], t.overlaps[:0], t.iterations[:0]
	for left := p.segs; left > 0 && r.Err() == nil; {
		n := o.read(r, 3, &left)
		for i := range n {
			t.segs = append(t.segs, seg{start: o.cols[2][i], what: o.what(r, i, names, p.iterations)})
		}
	}
	for left := p.overlaps; left > 0 && r.Err() == nil; {
		n := o.read(r, 4, &left)
		for i := range n {
			from := o.cols[2][i]
			t.overlaps = append(t.overlaps, overlapped{from: from, to: from + o.cols[3][i], what: o.what(r, i, names, p.iterations)})
		}
	}
	for left := p.iterations; left > 0 && r.Err() == nil; {
		n := o.read(r, iterationColumns, &left)
		for i := range n {
			it := iteration{number: o.cols[0][i], start: o.cols[1][i], own: o.cols[2][i] - o.cols[3][i], loop: int32(o.cols[4][i])}
			if it.end = it.start + o.cols[2][i]; o.cols[2][i] < 0 {
				it.end = run.NoEnd
			}
			it.mid, it.least = it.own, it.own
			if more := o.cols[5][i]; more != 0 {
				it.more, it.mid, it.least = int32(more), o.cols[6][i], o.cols[6][i]-o.cols[7][i]
				if more < 0 || more >= WindowSteps {
					r.Fail()
					break
				}
			}
			if it.loop < 0 || o.cols[4][i] >= int64(loops) {
				r.Fail()
				break
			}
			t.iterations = append(t.iterations, it)
		}
	}
	return r.Err()
}

func (o *opener) read(r *columns.Reader, columnCount int, left *int) int {
	n := min(*left, packBlock)
	for c := range columnCount {
		r.Column(o.cols[c][:n])
	}
	*left -= n
	if r.Err() != nil {
		return 0
	}
	return n
}

func (o *opener) what(r *columns.Reader, i, names, iterations int) what {
	kind, n := o.cols[0][i], o.cols[1][i]
	switch {
	case kind == 0 && n >= 0 && n < int64(iterations):
		return firstIteration + what(n)
	case kind > 0 && kind <= int64(names):
		return what(kind - 1)
	}
	r.Fail()
	return whatOther
}

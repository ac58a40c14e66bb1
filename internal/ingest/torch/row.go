package torch

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/platform/extsort"
)

// row is what is kept of one event between the passes. Times are nanoseconds as
// in the file; the base is added when the event is written.
type row struct {
	seq        int64 // order in the file
	start, end int64
	lane       uint32
	name       uint32 // in names; 0 means the field text
	kind       kineto.Kind
	flags      uint8
	step       int32 // index of the step, -1 outside
	corr       int64 // correlation, 0 if none
	ord        int64 // ordinal of the host row it belongs to, -1 if none

	// Host rows: elements, bytes of the inputs, sequence number + 1. Instants:
	// bytes, device type, device id. Device rows: bytes, device, stream. Links, whose
	// start and end are those of the launch: bytes of the call.
	a, b, c int64

	// What a device row gets from its launch.
	launch, launchEnd int64
	op, region, graph uint32

	text  string // name that did not fit the table
	extra string // raw args, or an encoded collective
}

const (
	flagLink     = 1 << iota // a launch, in the join
	flagLinked               // a device row whose launch was found
	flagBackward             // under a compiled backward
	flagBare                 // launched directly from a compiled container
)

// works reports whether a device row is work, and not an interval around work
// or a wait for it.
func (r *row) works() bool {
	switch r.kind {
	case kineto.KindKernel, kineto.KindMemcpy, kineto.KindMemset, kineto.KindDevice:
		return true
	}
	return false
}

// timeOrder orders by start, longer rows first, over all lanes.
func timeOrder(r *row) extsort.Key { return extsort.Key{First: r.start, Second: -r.end} }

// rowOrder is one of the orders in which rows are sorted.
type rowOrder func(r *row) extsort.Key

// laneOrder orders by nesting: lane by lane, parents before children.
func laneOrder(r *row) extsort.Key {
	return extsort.Key{Group: r.lane, First: r.start, Second: -r.end}
}

// correlationOrder orders every launch directly before the device rows it
// started.
func correlationOrder(r *row) extsort.Key {
	if r.flags&flagLink != 0 {
		return extsort.Key{First: r.corr, Second: r.seq}
	}
	return extsort.Key{First: r.corr, Second: math.MaxInt64}
}

// bySequence orders the forward operators of a sequence number by their start,
// before the backward operators for it.
func bySequence(r *row) extsort.Key {
	if r.flags&flagBackward != 0 {
		return extsort.Key{First: r.c, Second: math.MaxInt64}
	}
	return extsort.Key{First: r.c, Second: r.start}
}

func ordinalOrder(r *row) extsort.Key { return extsort.Key{First: r.ord} }

func rowCodec(o rowOrder) extsort.Codec[row] {
	return extsort.Codec[row]{Key: o, Append: appendRow, Decode: decodeRow}
}

// Bits of the word with the fields of a stored row that are not zero.
const (
	hasLane = 1 << iota
	hasName
	hasSeq
	hasDur
	hasA
	hasB
	hasC
	hasCorr
	hasOrd
	hasStep
	hasOp
	hasRegion
	hasGraph
	hasLaunch
	hasLaunchDur
	hasText
	hasExtra
)

// appendRow appends the fields of a row that are not zero, after a word that
// has their bits. Most fields are zero.
func appendRow(dst []byte, r *row) []byte {
	dst = append(dst, byte(r.kind), r.flags, 0, 0, 0)
	at := len(dst) - 3
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.start))
	w := rowWriter{dst: dst}
	w.put(hasLane, uint64(r.lane))
	w.put(hasName, uint64(r.name))
	w.put(hasSeq, uint64(r.seq))
	w.put(hasDur, uint64(r.end-r.start))
	w.put(hasA, uint64(r.a+1)) // often -1
	w.put(hasB, uint64(r.b))
	w.put(hasC, uint64(r.c))
	w.put(hasCorr, uint64(r.corr))
	w.put(hasOrd, uint64(r.ord+1))
	w.put(hasStep, uint64(r.step+1))
	w.put(hasOp, uint64(r.op))
	w.put(hasRegion, uint64(r.region))
	w.put(hasGraph, uint64(r.graph))
	launch := r.launch
	if r.flags&flagLinked != 0 { // a short time before
		launch = r.start - launch
	}
	w.put(hasLaunch, uint64(launch))
	w.put(hasLaunchDur, uint64(r.launchEnd-r.launch))
	w.text(hasText, r.text)
	w.text(hasExtra, r.extra)
	w.dst[at], w.dst[at+1], w.dst[at+2] = byte(w.has), byte(w.has>>8), byte(w.has>>16)
	return w.dst
}

// rowWriter adds fields to a stored row and remembers which.
type rowWriter struct {
	dst []byte
	has uint32
}

func (w *rowWriter) put(bit uint32, v uint64) {
	if v == 0 {
		return
	}
	w.has |= bit
	for v >= 0x80 {
		w.dst = append(w.dst, byte(v)|0x80)
		v >>= 7
	}
	w.dst = append(w.dst, byte(v))
}

func (w *rowWriter) text(bit uint32, s string) {
	if s != "" {
		w.put(bit, uint64(len(s)))
		w.dst = append(w.dst, s...)
	}
}

var errRow = errors.New("a row is damaged")

// rowReader reads varints from a row; it keeps its first error.
type rowReader struct {
	b   []byte
	bad bool
}

func (d *rowReader) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *rowReader) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *rowReader) str() string {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.bad = true
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

// field reads a value of a stored row, 0 if it was left out.
func (d *rowReader) field(has, bit uint32) int64 {
	if has&bit == 0 {
		return 0
	}
	return d.value()
}

// value reads an integer of a stored row.
func (d *rowReader) value() int64 {
	// Most fit into one byte, nearly all others into three.
	if len(d.b) >= 3 {
		if v := uint64(d.b[0]); v < 0x80 {
			d.b = d.b[1:]
			return int64(v)
		}
		v := uint64(d.b[0])&0x7f | uint64(d.b[1])&0x7f<<7
		if d.b[1] < 0x80 {
			d.b = d.b[2:]
			return int64(v)
		}
		if d.b[2] < 0x80 {
			v |= uint64(d.b[2]) << 14
			d.b = d.b[3:]
			return int64(v)
		}
	}
	return int64(d.uint())
}

func (d *rowReader) field32(has, bit uint32) uint32 {
	v := d.field(has, bit)
	d.bad = d.bad || uint64(v) > math.MaxUint32
	return uint32(v)
}

func decodeRow(src []byte, r *row) error {
	if len(src) < 13 {
		return errRow
	}
	has := uint32(src[2]) | uint32(src[3])<<8 | uint32(src[4])<<16
	d := rowReader{b: src[13:]}
	*r = row{kind: kineto.Kind(src[0]), flags: src[1], start: int64(binary.LittleEndian.Uint64(src[5:])), ord: -1, step: -1}
	r.lane, r.name = d.field32(has, hasLane), d.field32(has, hasName)
	r.seq = d.field(has, hasSeq)
	r.end = r.start + d.field(has, hasDur)
	r.a, r.b, r.c, r.corr = d.field(has, hasA)-1, d.field(has, hasB), d.field(has, hasC), d.field(has, hasCorr)
	if has >= hasOrd {
		r.ord, r.step = d.field(has, hasOrd)-1, int32(d.field(has, hasStep)-1)
		r.op, r.region, r.graph = d.field32(has, hasOp), d.field32(has, hasRegion), d.field32(has, hasGraph)
		if r.launch = d.field(has, hasLaunch); r.flags&flagLinked != 0 {
			r.launch = r.start - r.launch
		}
		r.launchEnd = r.launch + d.field(has, hasLaunchDur)
		if has&hasText != 0 {
			r.text = d.str()
		}
		if has&hasExtra != 0 {
			r.extra = d.str()
		}
	}
	if d.bad {
		return errRow
	}
	return nil
}

// rowStore holds the rows of a file between the passes, in the orders in which
// they are needed.
type rowStore struct {
	host     *extsort.Sorter[row]   // host rows and instants by lane
	join     *extsort.Sorter[row]   // launches and device rows by correlation
	device   *extsort.Sorter[row]   // device rows, resolved, by time
	onHost   *extsort.Sorter[share] // device time by ordinal of the launch
	launches *extsort.Sorter[share] // device time by launch
	pairs    *extsort.Sorter[row]   // operators of forward and backward by sequence number
	ties     *extsort.Sorter[row]   // the same, resolved, by ordinal
}

// newRowStore returns a store that holds memory bytes of rows. What is kept
// until the events are written shares one file over all ranks.
func newRowStore(shared *extsort.Store, memory int64, dir string) rowStore {
	part := func(sixteenths int64) int { return int(memory * sixteenths / 16) }
	return rowStore{
		host:     extsort.NewIn(rowCodec(laneOrder), part(7), shared),
		join:     extsort.New(rowCodec(correlationOrder), part(3), dir),
		device:   extsort.NewIn(rowCodec(timeOrder), part(2), shared),
		onHost:   extsort.NewIn(shareCodec(), part(1), shared),
		launches: extsort.NewIn(shareCodec(), part(1), shared),
		pairs:    extsort.New(rowCodec(bySequence), part(1), dir),
		ties:     extsort.NewIn(rowCodec(ordinalOrder), part(1), shared),
	}
}

// sorter is the interface of all sorters.
type sorter interface {
	Flush() error
	Close() error
	Spilled() int64
}

func (s *rowStore) all() []sorter {
	return []sorter{s.host, s.join, s.device, s.onHost, s.pairs, s.ties, s.launches}
}

func (s *rowStore) close() {
	for _, x := range s.all() {
		_ = x.Close() // temporary files
	}
}

// flush releases the memory of the rows while other files are read.
func (s *rowStore) flush() error {
	for _, x := range s.all() {
		if err := x.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// spilled returns the number of bytes that went through a temporary file.
func (s *rowStore) spilled() (n int64) {
	for _, x := range s.all() {
		n += x.Spilled()
	}
	return n
}

// idRuns holds the ids of a file's tied operators in the order of their
// numbers. If a sink has only one writer it assigns ids without gaps, which
// take one run.
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

// idOf returns the id of a number.
func (r *idRuns) idOf(n int64) uint64 {
	k, found := slices.BinarySearchFunc(r.runs, n, func(x idRun, n int64) int { return cmp.Compare(x.from, n) })
	if !found {
		k--
	}
	return r.runs[k].first + uint64(n-r.runs[k].from)
}

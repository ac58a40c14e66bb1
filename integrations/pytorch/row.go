package pytorch

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"

	"github.com/trainspan/trainspan/integrations/pytorch/internal/spill"
	"github.com/trainspan/trainspan/integrations/pytorch/kineto"
)

// row is what is kept of one event between the passes. Times are nanoseconds
// as written in the file; the base is added when the event is emitted.
type row struct {
	seq        int64 // order in the file
	start, end int64
	lane       uint32
	name       uint32 // in names; 0 means text
	kind       kineto.Kind
	flags      uint8
	step       int32 // index of the step, -1 outside
	corr       int64 // correlation, 0 without
	ord        int64 // ordinal of the host row it belongs to, -1 without

	// Host rows: elements, bytes of the inputs, sequence number + 1.
	// Instants: bytes, device type, device id.
	// Device rows: bytes, device, stream. Links: bytes of the call.
	a, b, c int64

	// What a device row learns from its launch.
	launch, launchEnd int64
	op, region, graph uint32

	text  string // name that did not fit the table
	extra string // raw args, or an encoded collective
}

const (
	flagLink     = 1 << iota // a launch, in the join
	flagLinked               // a device row whose launch was found
	flagBackward             // under a compiled backward
	flagBare                 // launched straight from a compiled container
	flagExtern               // an extern kernel of a compiled graph
)

func rowCodec(compare func(a, b *row) int) spill.Codec[row] {
	return spill.Codec[row]{Compare: compare, Append: appendRow, Decode: decodeRow}
}

// byLane puts rows into nesting order: lane by lane, parents before children.
func byLane(a, b *row) int {
	if a.lane != b.lane {
		return cmp.Compare(a.lane, b.lane)
	}
	if a.start != b.start {
		return cmp.Compare(a.start, b.start)
	}
	if a.end != b.end {
		return cmp.Compare(b.end, a.end)
	}
	return cmp.Compare(a.seq, b.seq)
}

// byCorrelation puts every launch right before the device rows it started.
func byCorrelation(a, b *row) int {
	if a.corr != b.corr {
		return cmp.Compare(a.corr, b.corr)
	}
	if la, lb := a.flags&flagLink, b.flags&flagLink; la != lb {
		return cmp.Compare(lb, la)
	}
	return cmp.Compare(a.seq, b.seq)
}

func byOrdinal(a, b *row) int {
	return cmp.Or(cmp.Compare(a.ord, b.ord), cmp.Compare(a.seq, b.seq))
}

func appendRow(dst []byte, r *row) []byte {
	dst = append(dst, byte(r.kind), r.flags)
	dst = binary.AppendUvarint(dst, uint64(r.lane))
	dst = binary.AppendUvarint(dst, uint64(r.name))
	dst = binary.AppendUvarint(dst, uint64(r.op))
	dst = binary.AppendUvarint(dst, uint64(r.region))
	dst = binary.AppendUvarint(dst, uint64(r.graph))
	for _, v := range [...]int64{r.seq, r.start, r.end - r.start, int64(r.step), r.corr, r.ord, r.a, r.b, r.c, r.launch, r.launchEnd - r.launch} {
		dst = binary.AppendVarint(dst, v)
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.text)))
	dst = append(dst, r.text...)
	dst = binary.AppendUvarint(dst, uint64(len(r.extra)))
	return append(dst, r.extra...)
}

var errRow = errors.New("a damaged row")

// rowReader takes varints off a row; the first failure stays.
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

func (d *rowReader) u32() uint32 {
	v := d.uint()
	d.bad = d.bad || v > math.MaxUint32
	return uint32(v)
}

func decodeRow(src []byte, r *row) error {
	if len(src) < 2 {
		return errRow
	}
	d := rowReader{b: src[2:]}
	r.kind, r.flags = kineto.Kind(src[0]), src[1]
	r.lane, r.name, r.op, r.region, r.graph = d.u32(), d.u32(), d.u32(), d.u32(), d.u32()
	r.seq, r.start = d.int(), d.int()
	r.end = r.start + d.int()
	r.step = int32(d.int())
	r.corr, r.ord, r.a, r.b, r.c = d.int(), d.int(), d.int(), d.int(), d.int()
	r.launch = d.int()
	r.launchEnd = r.launch + d.int()
	r.text, r.extra = d.str(), d.str()
	if d.bad {
		return errRow
	}
	return nil
}

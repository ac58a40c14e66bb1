package report

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/hang"
	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/columns"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/platform/fsread"
)

// digestVersion is that of the files that [State.WriteDigest] writes. It rises
// when an older reader would not understand a file.
const digestVersion = 18

// A digest begins with the eight bytes "trspdig\n" and an unsigned varint, the version of the
// format. A reader refuses another version. Then come parts: a byte that says what it is, the size
// as an unsigned varint, and that many bytes, a zstd frame with a checksum. The header comes first,
// then the processes, and last the end with the number of processes: a file without it is cut off.
//
// Numbers are varints as in protobuf (signed ones zigzag), texts have their length first, a truth
// value is one byte, and an identifier or hash eight bytes, the lowest first. Columns are those of
// package columns; the steps of a rank are packed as straggler's store has them. The fields of a
// part are in the order in which WriteDigest and the append methods below it write them.
//
// A reader trusts no length: what it needs of memory is a multiple of what the file holds, and a
// damaged file is an error that names it. New fields mean a new version; digests are made again
// from traces, not kept in place of them.

// The parts of a digest.
const (
	partHeader  = 'H'
	partProcess = 'P'
	partEnd     = 'E'
)

// maxPart bounds the memory of a part of a digest when it is unpacked, and
// maxInflation how many times its size that may be: the parts of digests of steps
// that are all alike have less than a tenth of it.
const (
	maxPart      = 1 << 30
	maxInflation = 1000
	smallPart    = 64 << 10 // may have any size
)

// ErrDigest is why a file is not read as a digest: it is none, damaged, cut off
// or of another version.
var ErrDigest = errors.New("cannot read the digest")

// WriteDigest writes the State to a file that [readDigest] reads.
func (s *State) WriteDigest(w io.Writer) error {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	out := bufio.NewWriterSize(w, 1<<20)
	_, _ = out.WriteString(fsread.DigestMagic) // an error stays with the writer
	_, _ = out.Write(binary.AppendUvarint(nil, digestVersion))
	var packed, head []byte
	part := func(kind byte, body []byte) error {
		packed = z.EncodeAll(body, packed[:0])
		head = binary.AppendUvarint(append(head[:0], kind), uint64(len(packed)))
		_, _ = out.Write(head)
		_, err := out.Write(packed)
		return err
	}
	if err := part(partHeader, s.appendHeader(nil)); err != nil {
		return fmt.Errorf("report: write a digest: %w", err)
	}
	var body []byte
	for _, p := range s.procs {
		if body, err = p.append(body[:0]); err != nil {
			return err
		}
		if err := part(partProcess, body); err != nil {
			return fmt.Errorf("report: write a digest: %w", err)
		}
	}
	err = part(partEnd, binary.AppendUvarint(nil, uint64(len(s.procs))))
	if err = cmp.Or(err, out.Flush()); err != nil {
		return fmt.Errorf("report: write a digest: %w", err)
	}
	return nil
}

func (s *State) appendHeader(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s.names)))
	for _, name := range s.names {
		dst = columns.AppendBytes(dst, name)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.skipped)))
	for _, f := range s.skipped {
		dst = columns.AppendBytes(columns.AppendBytes(dst, f.Path), f.Err.Error())
		dst = columns.AppendBool(dst, errors.Is(f.Err, job.ErrForeign))
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.starts)))
	for i := range s.starts {
		dst = columns.AppendBytes(dst, s.starts[i].text())
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.others)))
	for _, f := range s.others {
		text, _ := json.Marshal(f) // of what always has one
		dst = columns.AppendBytes(dst, text)
	}
	return dst
}

// binaryAppender is [encoding.BinaryAppender].
type binaryAppender interface {
	AppendBinary([]byte) ([]byte, error)
}

func (p *process) append(dst []byte) ([]byte, error) {
	for _, x := range [...]binaryAppender{p.proc, p.ledger, p.steps, p.details, p.use} {
		body, err := x.AppendBinary(nil)
		if err != nil {
			return nil, err
		}
		dst = columns.AppendBytes(dst, body)
	}
	return dst, nil
}

// readDigest reads what [State.WriteDigest] has written. It trusts nothing: of a
// damaged file it says so, and needs no more memory than a multiple of what it
// holds.
func readDigest(r io.Reader, spill *extsort.Blocks) (*State, error) {
	in := bufio.NewReaderSize(r, 1<<20)
	magic := make([]byte, len(fsread.DigestMagic))
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != fsread.DigestMagic {
		return nil, errNoDigest
	}
	version, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, errCut
	}
	if version != digestVersion {
		return nil, fmt.Errorf("%w: it has version %d, but this trainspan reads version %d: create it again from the traces: trainspan trace digest FOLDER -o FILE", ErrDigest, version, digestVersion)
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxPart), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	small, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(smallPart), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer small.Close()
	s := &State{spill: spill}
	var packed bytes.Buffer
	var body []byte
	for first := true; ; first = false {
		kind, err := in.ReadByte()
		if err != nil {
			return nil, cut(err)
		}
		size, err := binary.ReadUvarint(in)
		if err != nil {
			return nil, cut(err)
		}
		packed.Reset()
		if n, err := io.Copy(&packed, io.LimitReader(in, int64(min(size, 1<<62)))); err != nil || uint64(n) != size {
			return nil, cut(err)
		}
		unpack := z
		if unknown, much := inflates(packed.Bytes()); much {
			return nil, errDamagedDigest
		} else if unknown {
			unpack = small
		}
		if body, err = unpack.DecodeAll(packed.Bytes(), body[:0]); err != nil {
			return nil, fmt.Errorf("%w: %w", errDamagedDigest, err)
		}
		b := columns.NewReader(body)
		switch {
		case first != (kind == partHeader):
			return nil, errDamagedDigest
		case kind == partHeader:
			if !s.readHeader(b) {
				return nil, errDamagedDigest
			}
		case kind == partProcess:
			p, err := readProcess(b, s.spill)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errDamagedDigest, err)
			}
			s.procs = append(s.procs, p)
		case kind == partEnd:
			if n := b.Uint(); b.Err() != nil || n != uint64(len(s.procs)) {
				return nil, errDamagedDigest
			}
			return s, s.spill.Err()
		default:
			return nil, errDamagedDigest
		}
	}
}

// inflates says whether a part does not tell its size, as those below 256 bytes
// do not, and whether it is larger than one is, when it is unpacked.
func inflates(packed []byte) (unknown, much bool) {
	var h zstd.Header
	if h.Decode(packed) != nil {
		return false, true
	}
	return !h.HasFCS, h.FrameContentSize > uint64(maxInflation*len(packed)+smallPart)
}

var (
	errNoDigest      = fmt.Errorf("%w: the file is not a digest; create it again, or give it another name", ErrDigest)
	errCut           = fmt.Errorf("%w: it is truncated; create it again, or copy the whole file", ErrDigest)
	errDamagedDigest = fmt.Errorf("%w: it is damaged; create it again", ErrDigest)
)

// cut tells an end that comes too early from other failures.
func cut(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	return err
}

func (s *State) readHeader(r *columns.Reader) bool {
	for range r.Count(1) {
		s.names = append(s.names, r.String())
	}
	slices.Sort(s.names)
	for range r.Count(3) {
		f := &job.FileError{Path: r.String(), Err: errors.New(r.String())}
		if r.Bool() {
			f.Err = fmt.Errorf("%w%s", job.ErrForeign, strings.TrimPrefix(f.Err.Error(), job.ErrForeign.Error()))
		}
		s.skipped = append(s.skipped, f)
	}
	for range r.Count(1) {
		start, err := rundir.Parse([]byte(r.String()))
		s.starts = appendStart(s.starts, start, err)
	}
	for range r.Count(1) {
		f := &hang.File{}
		if json.Unmarshal(r.Bytes(), f) != nil {
			return false
		}
		s.others = append(s.others, f)
	}
	return r.Err() == nil && r.Len() == 0
}

func readProcess(r *columns.Reader, spill *extsort.Blocks) (*process, error) {
	p := &process{proc: &job.Process{}, ledger: account.NewPacked(spill), steps: fromjob.NewSteps(spill), details: newDetailSink(nil), use: &profile.Use{}}
	for _, x := range [...]interface{ UnmarshalBinary([]byte) error }{p.proc, p.ledger, p.steps, p.details, p.use} {
		if err := x.UnmarshalBinary(r.Bytes()); err != nil {
			return nil, err
		}
	}
	if r.Err() != nil || r.Len() != 0 {
		return nil, columns.ErrDamaged
	}
	return p, nil
}

// AppendBinary implements [encoding.BinaryAppender].
func (d *detailSink) AppendBinary(dst []byte) ([]byte, error) {
	dst = binary.AppendUvarint(dst, uint64(len(d.names)))
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		n := d.names[name]
		dst = columns.AppendBytes(dst, name)
		dst = binary.AppendVarint(binary.AppendVarint(dst, n.count), n.total)
		dst = binary.AppendUvarint(dst, uint64(len(n.top)))
		for _, t := range n.top {
			dst = binary.LittleEndian.AppendUint64(dst, t.id)
			for _, v := range [...]int64{t.start, t.dur, t.step} {
				dst = binary.AppendVarint(dst, v)
			}
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(d.saves)))
	for _, id := range slices.Sorted(maps.Keys(d.saves)) {
		sv := d.saves[id]
		dst = binary.LittleEndian.AppendUint64(dst, id)
		dst = columns.AppendBool(columns.AppendBytes(dst, sv.name), sv.background)
		for _, v := range [...]int64{sv.step, sv.start, sv.end} {
			dst = binary.AppendVarint(dst, v)
		}
	}
	return dst, nil
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler].
func (d *detailSink) UnmarshalBinary(src []byte) error {
	r := columns.NewReader(src)
	*d = *newDetailSink(nil)
	for range r.Small(maxNames) {
		name := r.String()
		n := &nameStat{count: r.Int(), total: r.Int()}
		for range r.Small(topSpans) {
			n.top = append(n.top, slow{id: r.Fixed(), start: r.Int(), dur: r.Int(), step: r.Int()})
		}
		if n.count <= 0 || n.count > 1<<40 {
			r.Fail()
			break
		}
		d.names[name] = n
	}
	for range r.Small(maxSaves) {
		id := r.Fixed()
		sv := save{name: r.String(), background: r.Bool()}
		sv.step, sv.start, sv.end = r.Int(), r.Int(), r.Int()
		d.saves[id] = sv
	}
	if r.Err() != nil || r.Len() != 0 {
		return fmt.Errorf("report: the details of a process: %w", columns.ErrDamaged)
	}
	return nil
}

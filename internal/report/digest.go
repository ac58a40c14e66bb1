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

// digestVersion is the version of the files that [State.WriteDigest] writes. It is
// increased when older readers cannot read the new format.
const digestVersion = 24

// A digest begins with the eight bytes "trspdig\n" and the version of the format, an unsigned
// varint. A reader rejects other versions. Parts follow: a byte for the kind, the size as an
// unsigned varint, and that many bytes, which are a zstd frame with a checksum. The header is first,
// then the processes. The last part is the end with the number of processes: a file without it is
// truncated.
//
// Numbers are varints as in protobuf (signed ones zigzag), strings are prefixed with their length, a
// boolean is one byte, and an ID or hash is eight bytes, little-endian. Columns are encoded by
// package columns; the steps of a rank are packed as in the store of package straggler. The fields of
// a part are in the order in which WriteDigest and the append methods below write them.
//
// A reader does not trust lengths: its memory is at most a multiple of the size of the file, and
// the error for a damaged file has its path. New fields need a new version: digests are created
// again from the traces, they do not replace them.

// The parts of a digest.
const (
	partHeader  = 'H'
	partProcess = 'P'
	partEnd     = 'E'
)

// maxPart limits the unpacked size of a part of a digest, and maxInflation its
// ratio to the packed size. Even digests of identical steps reach less than a tenth
// of that ratio.
const (
	maxPart      = 1 << 30
	maxInflation = 1000
	smallPart    = 64 << 10 // unpacked parts up to this size may have any ratio
)

// ErrDigest means that a file is not a digest, or that it is damaged, truncated or
// of another version.
var ErrDigest = errors.New("cannot read the digest")

// WriteDigest writes the State in the format that [readDigest] reads. The bytes do not depend on
// the order in which its parts were merged.
func (s *State) WriteDigest(w io.Writer) error {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	out := bufio.NewWriterSize(w, 1<<20)
	_, _ = out.WriteString(fsread.DigestMagic) // the writer keeps an error for later calls
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
	for _, p := range slices.SortedFunc(slices.Values(s.procs), func(a, b *process) int { return job.ByTime(a.proc, b.proc) }) {
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
	skipped := uniqueSkipped(s.skipped)
	dst = binary.AppendUvarint(dst, uint64(len(skipped)))
	for _, f := range skipped {
		dst = columns.AppendBytes(columns.AppendBytes(dst, f.Path), f.Err.Error())
		dst = columns.AppendBool(dst, errors.Is(f.Err, job.ErrForeign))
	}
	starts := uniqueStarts(s.starts)
	dst = binary.AppendUvarint(dst, uint64(len(starts)))
	for _, r := range starts {
		dst = columns.AppendBytes(dst, (&start{*r}).text())
	}
	others := uniqueOthers(s.others)
	dst = binary.AppendUvarint(dst, uint64(len(others)))
	for _, f := range others {
		text, _ := json.Marshal(f) // cannot fail
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

// readDigest reads the output of [State.WriteDigest]. It does not trust its input: it
// returns an error for damaged data, and its memory is at most a multiple of the size
// of the input.
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

// inflates reports whether the unpacked size of a part is unknown, which is usual
// below 256 bytes, and whether it is too large.
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

// cut returns errCut for an early end of the input, and other errors unchanged.
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
	dst = binary.AppendVarint(dst, d.more)
	dst = binary.AppendUvarint(dst, uint64(len(d.saves)))
	for _, id := range slices.Sorted(maps.Keys(d.saves)) {
		sv := d.saves[id]
		dst = binary.LittleEndian.AppendUint64(dst, id)
		dst = columns.AppendBool(columns.AppendBool(columns.AppendBytes(dst, sv.name), sv.background), sv.failed)
		for _, v := range [...]int64{sv.step, sv.start, sv.end} {
			dst = binary.AppendVarint(dst, v)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(d.compiled)))
	for i := range d.compiled {
		c := &d.compiled[i]
		dst = columns.AppendBytes(binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(dst, c.Step), c.Time), c.inWarmup), c.Reason)
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
	if d.more = r.Int(); d.more < 0 || d.more > 1<<40 {
		r.Fail()
	}
	for range r.Small(maxSaves) {
		id := r.Fixed()
		sv := save{name: r.String(), background: r.Bool(), failed: r.Bool()}
		sv.step, sv.start, sv.end = r.Int(), r.Int(), r.Int()
		d.saves[id] = sv
	}
	for range r.Small(maxCompiled) {
		d.compiled = append(d.compiled, Recompilation{Step: r.Int(), Time: r.Int(), inWarmup: r.Int(), Reason: r.String()})
	}
	if r.Err() != nil || r.Len() != 0 {
		return fmt.Errorf("report: the details of a process: %w", columns.ErrDamaged)
	}
	return nil
}

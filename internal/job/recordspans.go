package job

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/platform/filetime"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// recordMemory bounds the memory for the spans of a file of JSON lines. They
// can be judged and assigned to their processes only after all are read.
const recordMemory = 8 << 20

func newRecordReader(path string) *recordReader {
	words := make(map[string]string)
	return &recordReader{
		path: path, writers: make(map[writer]*recordProcess), times: filetime.New(time.Nanosecond),
		spans: extsort.New(extsort.Codec[heldSpan]{
			Key: func(s *heldSpan) extsort.Key {
				return extsort.Key{Group: s.group, First: s.Start, Second: int64(s.ID ^ 1<<63)}
			},
			Append: appendSpan,
			Decode: func(src []byte, s *heldSpan) error { return decodeSpan(src, s, words) },
		}, recordMemory, ""),
	}
}

// done handles a span that is complete, or will never be.
func (p *recordProcess) done(s *heldSpan) {
	p.times.Has(s.Start)
	p.spanned, s.group = true, p.group
	if err := p.spans.Add(s); err != nil && p.failed == nil {
		p.failed = err
	}
}

// eachSpan calls fn with the spans that have possible times, by start, and
// returns how many have not.
func (p *recordProcess) eachSpan(fn func(*heldSpan)) (aside int) {
	it := p.spans.Merge(p.group)
	for s := it.Next(); s != nil; s = it.Next() {
		if !p.times.Near(s.Start) || s.End < s.Start || s.End != NoEnd && !p.times.Near(s.End) {
			aside++
			continue
		}
		fn(s)
	}
	if err := it.Err(); err != nil && p.failed == nil {
		p.failed = err
	}
	return aside
}

func appendSpan(dst []byte, s *heldSpan) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.group))
	dst = binary.LittleEndian.AppendUint64(dst, s.ID)
	dst = binary.LittleEndian.AppendUint64(dst, s.Parent)
	nested, background, async, failed := int64(0), int64(0), int64(0), int64(0)
	if s.Nested {
		nested = 1
	}
	if s.Background {
		background = 1
	}
	if s.Async {
		async = 1
	}
	if s.Failed {
		failed = 1
	}
	for _, n := range [...]int64{s.Start, s.End, s.Step, s.Within, s.Epoch, s.First, s.Tokens, s.Device, s.DeviceComm, s.Launch, int64(s.GroupSize), int64(s.Peer), int64(s.Class), int64(s.For), int64(s.StepRule), nested, background, async, int64(s.Loader), failed} {
		dst = binary.AppendVarint(dst, n)
	}
	for _, text := range [...]string{s.Name, s.Cat, s.Kind, s.Group, s.Role, s.Reason} {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.args)))
	for i := range s.args {
		a := &s.args[i]
		dst = append(binary.AppendUvarint(dst, uint64(len(a.Key))), a.Key...)
		value := tracefile.AppendArg(*a, nil, dftracer.V2)
		dst = append(binary.AppendUvarint(dst, uint64(len(value))), value...)
	}
	return dst
}

var errSpan = errors.New("a span is damaged")

// decodeSpan decodes a span. Its first strings are interned.
func decodeSpan(src []byte, s *heldSpan, words map[string]string) error {
	bad := false
	skip := func(n int) []byte {
		if n < 0 || n > len(src) {
			bad, n = true, 0
		}
		part := src[:n]
		src = src[n:]
		return part
	}
	unsigned := func() uint64 {
		v, n := binary.Uvarint(src)
		bad = bad || n <= 0
		skip(max(n, 0))
		return v
	}
	number := func() int64 {
		v, n := binary.Varint(src)
		bad = bad || n <= 0
		skip(max(n, 0))
		return v
	}
	word := func() string {
		part := skip(int(min(unsigned(), 1<<30)))
		if text, ok := words[string(part)]; ok {
			return text
		}
		text := string(part)
		if len(words) < 4096 && len(text) < 256 {
			words[text] = text
		}
		return text
	}
	*s = heldSpan{group: uint32(unsigned())}
	if len(src) < 16 {
		return errSpan
	}
	s.ID, s.Parent = binary.LittleEndian.Uint64(src), binary.LittleEndian.Uint64(src[8:])
	skip(16)
	s.Start, s.End, s.Step, s.Within, s.Epoch, s.First, s.Tokens, s.Device, s.DeviceComm, s.Launch =
		number(), number(), number(), number(), number(), number(), number(), number(), number(), number()
	s.GroupSize, s.Peer, s.Class, s.For, s.StepRule, s.Nested, s.Background, s.Async, s.Loader, s.Failed =
		int(number()), int(number()), vocab.Class(number()), vocab.Class(number()), vocab.StepRule(number()), number() != 0, number() != 0, number() != 0, Loader(number()), number() != 0
	s.Name, s.Cat, s.Kind, s.Group, s.Role, s.Reason = word(), word(), word(), word(), word(), word()
	for range min(unsigned(), uint64(len(src))) {
		key := word()
		if value := word(); !bad {
			s.args = append(s.args, tracefile.FromJSON(key, []byte(value)))
		}
	}
	if bad {
		return errSpan
	}
	return nil
}

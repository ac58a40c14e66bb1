package dftracer

import (
	"bytes"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

const (
	// levelSmall is used while the pump keeps up, levelFast when it does not. On
	// trace lines levelSmall makes files a quarter smaller, at half the speed.
	levelSmall = 6
	levelFast  = 1
	// backlog is how many waiting jobs mean that the pump does not keep up.
	backlog = 3
	// maxPacked is the size of the largest buffer that is kept for the next member;
	// maxKept is the same for a Writer with a Pool.
	maxPacked = 4 << 20
	maxKept   = 64 << 10
)

// pumpOptions are the pump's part of [Options].
type pumpOptions struct {
	Compression Compression
	Level       int
	MemberSize  int
	Pool        *Pool
}

// pump is the goroutine between buffers and sink. It makes gzip members. Only
// that goroutine uses the fields, except for the atomic counts.
type pump struct {
	pumpOptions
	blocks *blocks // the source of text
	sink   *fswrite.Sink

	zip      *gzip.Writer // the compressor of the open member: fast or small
	fast     *gzip.Writer
	small    *gzip.Writer
	packed   bytes.Buffer
	encoding encoding
	text     []byte                               // of the open member, if a compressor is borrowed only for its end
	member   struct{ bytes, lines, metadata int } // added to the open member so far

	bytes   atomic.Uint64 // of text
	waiting atomic.Int64  // lines in the open member
	pending atomic.Int64  // bytes of text
	members atomic.Uint64
}

func newPump(o pumpOptions, b *blocks) (*pump, error) {
	p := &pump{pumpOptions: o, blocks: b}
	if o.Compression != CompressMembers || o.Pool != nil {
		return p, nil
	}
	small, fast := o.Level, o.Level
	if o.Level == levelAdaptive {
		small, fast = levelSmall, levelFast
	}
	var err error
	if p.small, err = gzip.NewWriterLevel(&p.packed, small); err != nil {
		return nil, err
	}
	p.fast, p.zip = p.small, p.small
	if fast != small {
		p.fast, err = gzip.NewWriterLevel(&p.packed, fast)
	}
	return p, err
}

// forget releases the memory of compression.
func (p *pump) forget() {
	p.zip, p.fast, p.small, p.packed, p.text, p.encoding = nil, nil, nil, bytes.Buffer{}, nil, encoding{}
}

func (p *pump) run() {
	for j := range p.blocks.jobs {
		switch j.op {
		case opData:
			p.feed(&j.block, j.metadata)
			if j.block.text != nil {
				p.blocks.put(j.block)
			}
		case opFlush, opCheck, opClose:
			p.endMember()
			if j.op == opCheck {
				p.sink.Check()
			}
			if j.done != nil {
				close(j.done)
			}
			if j.op == opClose {
				return
			}
		}
	}
}

// feed takes whole lines. If the file has stopped and memory is full, it drops
// them before compression.
func (p *pump) feed(b *block, isMeta bool) {
	lines := b.lines
	if b.size() == 0 || !p.sink.Admit(lines) {
		return
	}
	text, metadata := p.encoding.textOf(b), 0
	if isMeta {
		metadata = lines
	}
	p.bytes.Add(uint64(len(text)))
	pooled := p.pooled()
	if p.zip == nil && !pooled {
		p.sink.Put(text, lines, metadata)
		return
	}
	hurry := len(p.blocks.jobs) >= backlog
	if pooled {
		p.text = append(p.text, text...)
		p.pending.Store(int64(len(p.text)))
	} else {
		if p.member.bytes == 0 {
			if hurry {
				p.zip = p.fast
			} else if len(p.blocks.jobs) == 0 { // the pump has caught up
				p.zip = p.small
			}
			p.zip.Reset(&p.packed)
		}
		_, _ = p.zip.Write(text) // bytes.Buffer does not fail
	}
	p.member.bytes += len(text)
	p.member.lines += lines
	p.member.metadata += metadata
	p.waiting.Store(int64(p.member.lines))
	if p.member.bytes >= p.MemberSize || hurry && p.zip != p.fast {
		p.endMember()
	}
}

// endMember passes on everything fed so far.
func (p *pump) endMember() {
	m := p.member
	if m.bytes == 0 {
		return
	}
	if p.pooled() {
		p.Pool.pack(&p.packed, p.level(), p.text)
		if spare(cap(p.text), len(p.text)) {
			p.text = nil
		}
		p.text = p.text[:0]
		p.pending.Store(0)
	} else {
		_ = p.zip.Close()
	}
	p.sink.Put(p.packed.Bytes(), m.lines, m.metadata)
	p.members.Add(1)
	p.member.bytes, p.member.lines, p.member.metadata = 0, 0, 0
	p.waiting.Store(0)
	if p.packed.Cap() > maxPacked || p.pooled() && spare(p.packed.Cap(), p.packed.Len()) {
		p.packed = bytes.Buffer{}
		return
	}
	p.packed.Reset()
}

// spare reports whether a buffer of a Writer with a Pool is much larger than
// needed now.
func spare(size, used int) bool { return size > maxKept && size > 4*used }

// pooled reports whether the compressor is borrowed from the Pool.
func (p *pump) pooled() bool {
	return p.Pool != nil && p.Compression == CompressMembers
}

// level returns the level for a member with a borrowed compressor.
func (p *pump) level() int {
	switch {
	case p.Level != levelAdaptive:
		return p.Level
	case len(p.blocks.jobs) >= backlog:
		return levelFast
	}
	return levelSmall
}

package dftracer

import (
	"bytes"
	"fmt"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"

	"github.com/trainspan/trainspan/internal/outfile"
)

type op uint8

const (
	opData  op = iota
	opFlush    // pass on what there is
	opCheck    // the same, and look after the file
	opClose
)

// job is one order to the pump.
type job struct {
	op       op
	buf      []byte
	lines    int
	metadata bool // lines are metadata
	done     chan struct{}
}

const (
	// levelSmall is used while the pump keeps up, levelFast when it does not.
	// On trace lines the former gives a quarter less, at half the speed.
	levelSmall = 6
	levelFast  = 1
	// backlog is how many waiting jobs mean that the pump does not keep up.
	backlog = 3
	// maxPacked is the largest buffer that is kept for the next member, and
	// maxKept that of a Writer that is one of many.
	maxPacked = 4 << 20
	maxKept   = 64 << 10
)

// pump is the goroutine between buffers and sink: it makes gzip members.
// Everything but the atomic counts belongs to that goroutine.
type pump struct {
	w    *Writer
	jobs chan job
	sink *outfile.Sink

	zip    *gzip.Writer // of the open member: fast or small
	fast   *gzip.Writer
	small  *gzip.Writer
	packed bytes.Buffer
	text   []byte                               // of the open member, where the compressor is lent for its end alone
	member struct{ bytes, lines, metadata int } // put into the open member so far

	bytes   atomic.Uint64 // of text
	waiting atomic.Int64  // lines in the open member
	pending atomic.Int64  // bytes of text
	members atomic.Uint64
}

func newPump(w *Writer, sink func(outfile.Options) (*outfile.Sink, error), buffers int) (*pump, error) {
	p := &pump{w: w, jobs: make(chan job, buffers+16)}
	if w.opts.Compression == CompressMembers && w.opts.Pool == nil {
		small, fast := w.opts.Level, w.opts.Level
		if w.opts.Level == LevelAdaptive {
			small, fast = levelSmall, levelFast
		}
		var err error
		if p.small, err = gzip.NewWriterLevel(&p.packed, small); err != nil {
			return nil, err
		}
		p.fast, p.zip = p.small, p.small
		if fast != small {
			if p.fast, err = gzip.NewWriterLevel(&p.packed, fast); err != nil {
				return nil, err
			}
		}
	}
	format, err := newFramer(w, p)
	if err != nil {
		return nil, err
	}
	o := outfile.Options{
		Format: format, Hold: w.opts.StallMemory, Wait: w.opts.StallWait, Sync: outfile.SyncPolicy(w.opts.Sync),
		Rotate: w.opts.RotateSize, Pause: format.Pause, OnPath: w.opts.OnPath, Now: w.opts.Now,
	}
	if on := w.opts.OnError; on != nil {
		o.OnError = func(err error) { on(fmt.Errorf("dftracer: %w", err)) }
	}
	if w.opts.RemoveEmpty {
		o.Unwanted = func(last outfile.Part) bool {
			return last.Number == 0 && last.Lost == 0 && last.Lines-last.Metadata < minEvents
		}
	}
	// The start of the file is written here, so that even a process that dies
	// at once leaves a trace.
	p.sink, err = sink(o)
	return p, err
}

func (p *pump) run() {
	for j := range p.jobs {
		switch j.op {
		case opData:
			p.feed(j.buf, j.lines, j.metadata)
			if j.buf != nil {
				p.w.putFree(j.buf)
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

// feed takes whole lines. When the file has stopped and memory is full they are
// dropped here, before they are compressed.
func (p *pump) feed(text []byte, lines int, isMeta bool) {
	if len(text) == 0 || !p.sink.Admit(lines) {
		return
	}
	metadata := 0
	if isMeta {
		metadata = lines
	}
	p.bytes.Add(uint64(len(text)))
	pooled := p.pooled()
	if p.zip == nil && !pooled {
		p.sink.Put(text, lines, metadata)
		return
	}
	hurry := len(p.jobs) >= backlog
	if pooled {
		p.text = append(p.text, text...)
		p.pending.Store(int64(len(p.text)))
	} else {
		if p.member.bytes == 0 {
			p.zip = p.small
			if hurry {
				p.zip = p.fast
			}
			p.zip.Reset(&p.packed)
		}
		_, _ = p.zip.Write(text) // into memory
	}
	p.member.bytes += len(text)
	p.member.lines += lines
	p.member.metadata += metadata
	p.waiting.Store(int64(p.member.lines))
	if p.member.bytes >= p.w.opts.MemberSize || hurry && p.zip != p.fast {
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
		p.w.opts.Pool.pack(&p.packed, p.level(), p.text)
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

// spare reports whether a buffer is larger than its Writer, one of many, needs now.
func spare(size, used int) bool { return size > maxKept && size > 4*used }

// pooled reports whether the compressor is lent.
func (p *pump) pooled() bool {
	return p.w.opts.Pool != nil && p.w.opts.Compression == CompressMembers
}

// level is that of a member whose compressor is lent.
func (p *pump) level() int {
	switch {
	case p.w.opts.Level != LevelAdaptive:
		return p.w.opts.Level
	case len(p.jobs) >= backlog:
		return levelFast
	}
	return levelSmall
}

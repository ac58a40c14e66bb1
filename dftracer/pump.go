package dftracer

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/gzip"
)

type op uint8

const (
	opData op = iota
	opFlush
	opClose
)

// job is one order to the pump.
type job struct {
	op    op
	buf   []byte
	lines int
	facts bool // lines are metadata
	sync  bool
	end   []Arg
	done  chan error
}

// maxPending bounds the bytes kept for an output that fails. Beyond it lines
// are dropped before they are compressed, so a gzip stream is never broken.
const maxPending = 4 << 20

const (
	// levelSmall is used while the pump keeps up, levelFast when it does not.
	// On trace lines the former gives a quarter less, at half the speed.
	levelSmall = 6
	levelFast  = 1
	// backlog is how many waiting jobs mean that the pump does not keep up.
	backlog = 3
)

// pump is the goroutine between buffers and file. Everything but counts
// belongs to that goroutine.
type pump struct {
	w     *Writer
	jobs  chan job
	out   output
	clock clock
	text  []byte // scratch for the pump's own lines

	zip    *gzip.Writer // of the open member: fast or small
	fast   *gzip.Writer
	small  *gzip.Writer
	packed bytes.Buffer
	member struct{ bytes, lines int } // put into the open member so far
	stream bool                       // CompressSingle: the member has begun
	part   struct{ lines, facts int } // put into this file so far

	rotating bool // a part is being ended and the next one begun
	counts   counts
	outage   outage
	err      error // the first that lost events
}

func newPump(w *Writer, out output, buffers int) (*pump, error) {
	p := &pump{w: w, out: out, jobs: make(chan job, buffers+16)}
	if w.opts.Compression == CompressNone {
		return p, nil
	}
	small, fast := w.opts.Level, w.opts.Level
	if w.opts.Level == LevelAdaptive {
		small, fast = levelSmall, levelFast
	}
	var err error
	if p.small, err = gzip.NewWriterLevel(&p.packed, small); err != nil {
		return nil, fmt.Errorf("dftracer: %w", err)
	}
	p.fast, p.zip = p.small, p.small
	if fast != small && w.opts.Compression == CompressMembers {
		if p.fast, err = gzip.NewWriterLevel(&p.packed, fast); err != nil {
			return nil, fmt.Errorf("dftracer: %w", err)
		}
	}
	return p, nil
}

// begin writes the start of the first file before any goroutine runs, so that
// even a process that dies at once leaves a trace.
func (p *pump) begin() error {
	p.header()
	p.endMember(false)
	if p.outage.err != nil {
		return p.outage.err
	}
	return nil
}

func (p *pump) run() {
	for j := range p.jobs {
		switch j.op {
		case opData:
			p.feed(j.buf, j.lines, j.facts)
			if j.buf != nil {
				p.w.putFree(j.buf)
			}
		case opFlush:
			p.flush(j.sync)
			if j.done != nil {
				j.done <- p.state()
			}
		case opClose:
			j.done <- p.close(j.end)
			return
		}
	}
}

// feed takes whole lines.
func (p *pump) feed(text []byte, lines int, facts bool) {
	if len(text) == 0 {
		return
	}
	if p.outage.err != nil && (p.outage.waiting > maxPending || p.outage.lost > 0) && !p.retry(false) {
		p.lose(lines)
		return
	}
	p.put(text, lines, facts)
}

// put takes whole lines even during an outage.
func (p *pump) put(text []byte, lines int, facts bool) {
	p.part.lines += lines
	if facts {
		p.part.facts += lines
	}
	p.counts.lines.Add(uint64(lines))
	p.counts.bytes.Add(uint64(len(text)))
	p.member.bytes += len(text)
	p.member.lines += lines
	switch p.w.opts.Compression {
	case CompressNone:
		p.emit(text, p.member.lines)
		p.member.bytes, p.member.lines = 0, 0
		p.rotateIfLarge()
	case CompressSingle:
		p.startStream()
		_, _ = p.zip.Write(text) // into memory
		if p.packed.Len() >= blockSize {
			p.emitPacked()
		}
	default:
		hurry := len(p.jobs) >= backlog
		if p.member.bytes == len(text) {
			p.zip = p.small
			if hurry {
				p.zip = p.fast
			}
			p.zip.Reset(&p.packed)
		}
		_, _ = p.zip.Write(text)
		if p.member.bytes >= p.w.opts.MemberSize || hurry && p.zip != p.fast {
			p.endMember(false)
			p.rotateIfLarge()
		}
	}
}

func (p *pump) startStream() {
	if !p.stream {
		p.zip.Reset(&p.packed)
		p.stream = true
	}
}

// endMember makes everything fed so far readable in the file. last ends the
// stream of CompressSingle too.
func (p *pump) endMember(last bool) {
	switch p.w.opts.Compression {
	case CompressNone:
		return
	case CompressSingle:
		if !p.stream {
			return
		}
		if last {
			_ = p.zip.Close()
			p.stream = false
		} else if p.member.bytes > 0 {
			_ = p.zip.Flush()
		}
	default:
		if p.member.bytes == 0 {
			return
		}
		_ = p.zip.Close()
	}
	p.emitPacked()
}

func (p *pump) emitPacked() {
	if p.packed.Len() > 0 {
		p.emit(p.packed.Bytes(), p.member.lines)
		if p.w.opts.Compression == CompressMembers {
			p.counts.members.Add(1)
		}
	}
	p.member.bytes, p.member.lines = 0, 0
	if p.packed.Cap() > maxPending {
		p.packed = bytes.Buffer{}
		return
	}
	p.packed.Reset()
}

// emit writes bytes that hold so many lines, or keeps them for better times.
func (p *pump) emit(data []byte, lines int) {
	if p.outage.err == nil {
		rest, err := p.out.write(data)
		p.counts.packed.Add(uint64(len(data) - len(rest)))
		if err == nil {
			if p.w.opts.Sync == SyncAlways {
				p.failSync(p.out.sync())
			}
			return
		}
		p.fail(err)
		data = rest
	}
	p.outage.keep(data, lines)
}

func (p *pump) failSync(err error) {
	if err != nil {
		p.note(fmt.Errorf("dftracer: sync: %w", err))
	}
}

func (p *pump) flush(sync bool) {
	p.endMember(false)
	if p.outage.err == nil {
		if err := p.out.check(); err != nil {
			p.fail(err)
		}
	}
	if p.outage.err != nil {
		p.retry(sync)
		p.endMember(false) // the record of what is missing
	}
	if sync && p.outage.err == nil {
		p.failSync(p.out.sync())
	}
	p.rotateIfLarge()
}

func (p *pump) rotateIfLarge() {
	limit := p.w.opts.RotateSize
	if limit <= 0 || p.rotating || p.out.size() < limit || p.outage.err != nil || p.member.bytes > 0 {
		return
	}
	p.rotating = true // the footer and the header below are text as well
	defer func() { p.rotating = false }()
	p.footer([]Arg{Int("continued", 1)})
	p.endMember(true)
	if p.outage.err != nil {
		return // the next part starts once this one is complete
	}
	if p.w.opts.Sync != SyncNever {
		p.failSync(p.out.sync())
	}
	if err := p.out.next(); err != nil {
		// Going on in the finished file is better than losing events.
		p.note(fmt.Errorf("dftracer: rotate: %w", err))
		return
	}
	p.part.lines, p.part.facts = 0, 0
	p.header()
	p.continued()
	p.endMember(false)
}

func (p *pump) close(end []Arg) error {
	p.endMember(false)
	if p.outage.err == nil {
		if err := p.out.check(); err != nil {
			p.fail(err)
		}
	}
	if p.outage.err != nil {
		p.retry(true)
	}
	p.footer(end)
	p.endMember(true)
	if p.outage.err != nil && !p.retry(true) {
		if p.out.gone() {
			p.loseFile()
		}
		p.lose(p.outage.drop())
	}
	if p.outage.err != nil && p.err == nil {
		p.err = p.outage.err
	}
	if p.w.opts.Sync != SyncNever {
		p.failSync(p.out.sync())
	}
	if err := p.out.Close(); err != nil && p.err == nil {
		p.err = fmt.Errorf("dftracer: close: %w", err)
	}
	return p.err
}

// state is what Flush tells its caller.
func (p *pump) state() error {
	if p.outage.err != nil {
		return p.outage.err
	}
	return nil
}

// totalEvents is how many events the current file has. It is called after close.
func (p *pump) totalEvents() int { return p.part.lines - p.part.facts }

// note counts an error that lost nothing yet and reports it.
func (p *pump) note(err error) {
	p.counts.errors.Add(1)
	if p.err == nil && !errors.Is(err, errRemoved) {
		p.err = err
	}
	if p.w.opts.OnError != nil {
		p.w.opts.OnError(err)
	}
}

func (p *pump) now() time.Time { return p.w.opts.Now() }

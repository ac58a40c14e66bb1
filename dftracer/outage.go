package dftracer

import (
	"fmt"
	"time"
)

// outage is what the pump remembers from the first failed write until the
// output works again. A nil err means that it works.
type outage struct {
	err     error
	since   time.Time
	lastTry time.Time
	waiting int // bytes in pending
	pending []pending
	lost    int // lines
	from    time.Time
	to      time.Time
}

// pending is data whose write failed.
type pending struct {
	data  []byte
	lines int
}

func (o *outage) keep(data []byte, lines int) {
	o.pending = append(o.pending, pending{append([]byte(nil), data...), lines})
	o.waiting += len(data)
}

// drop gives up the pending data and returns how many lines were in it.
func (o *outage) drop() int {
	n := 0
	for _, c := range o.pending {
		n += c.lines
	}
	o.pending, o.waiting = nil, 0
	return n
}

// fail begins an outage and reports it, once.
func (p *pump) fail(err error) {
	if p.outage.err != nil {
		return
	}
	p.outage.err = fmt.Errorf("dftracer: write: %w", err)
	p.outage.since = p.now()
	p.outage.lastTry = time.Now()
	p.counts.outages.Add(1)
	p.counts.errors.Add(1)
	if p.w.opts.OnError != nil {
		p.w.opts.OnError(p.outage.err)
	}
}

// loseFile accounts for a file that was deleted with all that was in it.
func (p *pump) loseFile() {
	n := p.part.lines
	for _, c := range p.outage.pending {
		n -= c.lines
	}
	p.lose(n - p.member.lines)
	p.part.lines, p.part.facts = 0, 0
}

func (p *pump) lose(lines int) {
	if lines == 0 {
		return
	}
	now := p.now()
	if p.outage.lost == 0 {
		p.outage.from = p.outage.since
		if p.outage.from.IsZero() {
			p.outage.from = now
		}
	}
	p.outage.to = now
	p.outage.lost += lines
	p.counts.lost.Add(uint64(lines))
	if p.err == nil {
		p.err = fmt.Errorf("dftracer: events were lost: %w", p.outage.err)
	}
}

// retry tries to end the outage, not more often than the flush interval
// unless forced, and reports whether the output works.
func (p *pump) retry(force bool) bool {
	pause := p.w.opts.FlushInterval / 4
	if !force && time.Since(p.outage.lastTry) < pause {
		return false
	}
	p.outage.lastTry = time.Now()
	p.endMember(false) // joins what waits
	deleted := p.out.gone()
	fresh, err := p.out.resume()
	if err != nil {
		return false
	}
	if fresh {
		p.startOver(deleted)
	}
	return p.catchUp()
}

// startOver puts the start of a new file ahead of everything that waits.
func (p *pump) startOver(deleted bool) {
	if deleted {
		p.loseFile()
	}
	if p.w.opts.Compression == CompressSingle {
		// The pending bytes continue a stream whose beginning is gone.
		p.lose(p.outage.drop())
		p.packed.Reset()
		p.stream = false
	}
	waiting := p.outage.pending
	p.outage.pending = nil
	p.part.lines, p.part.facts = 0, 0
	p.header()
	p.repeatNames()
	p.endMember(false)
	for _, c := range waiting {
		p.part.lines += c.lines
	}
	p.outage.pending = append(p.outage.pending, waiting...)
}

// catchUp writes what waited and then says in the file what is missing.
func (p *pump) catchUp() bool {
	for i := range p.outage.pending {
		c := &p.outage.pending[i]
		rest, err := p.out.write(c.data)
		p.counts.packed.Add(uint64(len(c.data) - len(rest)))
		p.outage.waiting -= len(c.data) - len(rest)
		if err != nil {
			c.data = rest
			p.outage.pending = p.outage.pending[i:]
			return false
		}
	}
	lost, from, to, cause := p.outage.lost, p.outage.from, p.outage.to, p.outage.err
	p.outage = outage{}
	if lost > 0 {
		p.missing(lost, from, to, cause)
	}
	return true
}

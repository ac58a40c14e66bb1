package outfile

import (
	"errors"
	"fmt"
	"time"
)

// current is a block on its way into the file.
type current struct {
	Block
	off    int    // written
	queued bool   // it is the first of the queue
	then   func() // if not nil, called with the lock when it is written
}

// run is the goroutine that writes.
func (s *Sink) run() {
	defer s.end()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	for {
		select {
		case <-s.work:
		case <-retry.C:
		}
		s.mu.Lock()
		if s.given {
			s.mu.Unlock()
			return
		}
		closing, asked, sync := s.closing, s.asked, s.sync
		failing, check := s.err != nil, s.look
		s.look, s.sync = false, false
		s.busy = time.Now()
		s.mu.Unlock()

		s.turn(failing, check || closing, sync)
		over := closing && s.finish()

		s.mu.Lock()
		s.busy = time.Time{}
		s.answered = asked
		failing = s.err != nil
		s.changed.Broadcast()
		s.mu.Unlock()
		s.tell()
		if over {
			return
		}
		pause := time.Hour
		if failing {
			pause = retryEvery
		}
		retry.Reset(pause)
	}
}

// turn does what there is to do.
func (s *Sink) turn(failing, check, sync bool) {
	if !failing && check {
		if err := s.out.Check(); err != nil {
			s.broken(err)
			failing = true
		}
	}
	if failing && !s.resume() {
		return
	}
	for s.next() {
		if s.o.Sync == SyncAlways {
			s.force()
		}
		if !s.recovered() || !s.rotate() {
			return
		}
	}
	if !s.works() || !s.recovered() || !s.rotate() {
		return
	}
	if sync {
		s.force()
	}
}

// works reports whether the last write succeeded.
func (s *Sink) works() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil && !s.given
}

// next writes the first block of the queue.
func (s *Sink) next() bool {
	s.mu.Lock()
	if len(s.queue) == 0 || s.given {
		s.mu.Unlock()
		return false
	}
	b := s.queue[0]
	s.mu.Unlock()
	data := b.data
	if s.o.Format != nil {
		data = s.o.Format.Encode(data)
	}
	return s.write(current{Block: Block{data, b.lines, b.metadata}, queued: true})
}

// pop takes the first block off the queue. Of memory that filled up in an
// outage and is given back now, half may be used again at once: so the end of
// an outage holds nobody up, and yet the queue becomes shallow again.
func (s *Sink) pop() {
	b := s.queue[0]
	s.queue[0] = block{}
	s.queue = s.queue[1:]
	s.held -= len(b.data)
	least := min(shallow, s.o.Hold)
	s.limit = max(least, s.limit-len(b.data)/2)
	if len(s.queue) == 0 {
		s.limit = least
	}
	if len(s.free) < spares && cap(b.data) <= 4*shallow {
		s.free = append(s.free, b.data[:0])
	}
}

// write writes a block. If it fails, resume goes on with it.
func (s *Sink) write(c current) bool {
	s.current, s.writing = c, true
	return s.advance()
}

// advance writes what is left of the current block.
func (s *Sink) advance() bool {
	c := &s.current
	for c.off < len(c.Data) {
		n, err := s.out.Write(c.Data[c.off:min(len(c.Data), c.off+chunk)])
		c.off += n
		s.mu.Lock()
		if n > 0 {
			s.busy = time.Now()
			s.stats.Bytes += uint64(n)
			s.changed.Broadcast()
		}
		given := s.given
		s.mu.Unlock()
		if given {
			return false
		}
		if err != nil {
			if s.out.Undo() {
				s.rewind(c)
			}
			s.broken(err)
			return false
		}
	}
	s.out.Commit()
	s.writing = false
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given {
		return false
	}
	s.part.Lines += c.Lines
	s.part.Metadata += c.Metadata
	if c.queued {
		s.pop()
	} else {
		s.stats.Lines += uint64(c.Lines)
	}
	if c.then != nil {
		c.then()
	}
	s.changed.Broadcast()
	return true
}

func (s *Sink) rewind(c *current) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Bytes -= uint64(c.off)
	c.off = 0
}

// broken notes a failure.
func (s *Sink) broken(err error) {
	s.mu.Lock()
	s.stats.Errors++
	if !s.given {
		s.err = fmt.Errorf("write: %w", err)
		s.fail(s.err, time.Now())
	}
	s.changed.Broadcast()
	s.mu.Unlock()
	s.tell()
}

// resume makes a failed output work again and ends what was interrupted.
func (s *Sink) resume() bool {
	fresh, gone, err := s.out.Resume()
	path := s.out.Path()
	s.mu.Lock()
	if err != nil {
		s.stats.Errors++
		if s.err == nil {
			s.err = fmt.Errorf("open again: %w", err)
		}
		s.mu.Unlock()
		return false
	}
	moved := s.path != path
	s.path = path
	if fresh {
		if s.outage == nil { // it vanished while it was suspended
			s.fail(errRemoved, time.Now())
		}
		if gone {
			s.lose(s.part.Lines - s.framing)
		}
		s.writing, s.begun, s.finished, s.framing = false, false, false, 0
		s.part.Lines, s.part.Metadata, s.part.Again = 0, 0, true
	}
	s.mu.Unlock()
	if moved {
		s.onPath(path)
	}
	// The error stays until something was written after it, so that nobody
	// takes an attempt for a success.
	if s.writing && !s.advance() {
		return false
	}
	s.mu.Lock()
	s.err = nil
	s.mu.Unlock()
	if s.finished {
		return s.further()
	}
	return s.begin() == nil
}

func (s *Sink) onPath(path string) {
	if s.o.OnPath != nil {
		s.o.OnPath(path)
	}
}

// begin writes the start of a file that has none.
func (s *Sink) begin() error {
	if s.begun {
		return nil
	}
	if s.o.Format != nil {
		b := s.o.Format.Begin(s.state())
		// Set first: if writing it fails, resume goes on with it.
		s.begun, s.framing = true, b.Lines
		if !s.write(current{Block: b}) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.err
		}
	}
	s.begun = true
	return nil
}

func (s *Sink) state() Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.part
}

// few is how many bytes may wait when an outage is over. Once no more come, the
// record of what is missing is the last.
func (s *Sink) few() int {
	if s.closing {
		return 0
	}
	return min(shallow, s.o.Hold)
}

// recovered ends an outage, once the queue is shallow again: the file says what
// is missing. It reports whether the file works.
func (s *Sink) recovered() bool {
	s.mu.Lock()
	o := s.outage
	if o == nil || s.err != nil || s.held > s.few() {
		s.mu.Unlock()
		return true
	}
	gap := Gap{Lines: o.lost, From: o.from, To: o.to, Cause: o.Cause}
	s.mu.Unlock()
	if gap.Lines > 0 && s.o.Format != nil {
		told := func() { o.lost, o.from = o.lost-gap.Lines, gap.To }
		if !s.write(current{Block: s.o.Format.Gap(gap), then: told}) {
			return false
		}
	}
	s.mu.Lock()
	if o.lost == 0 || s.o.Format == nil {
		s.outage = nil
		told := o.Outage
		told.Over, told.For = true, time.Since(o.since)
		s.reports = append(s.reports, &told)
	}
	s.mu.Unlock()
	s.tell()
	return true
}

// rotate starts the next part when this one is large. It reports whether the
// file works.
func (s *Sink) rotate() bool {
	if s.o.Rotate <= 0 || s.out.Size() < s.o.Rotate {
		return true
	}
	if s.o.Format != nil {
		s.finished = true // if writing it fails, resume goes on with it
		if !s.write(current{Block: s.o.Format.End(s.state())}) {
			return false
		}
	}
	if s.o.Sync != SyncNever {
		s.force()
	}
	return s.further()
}

// further goes on in the next part.
func (s *Sink) further() bool {
	if err := s.out.Next(); err != nil {
		s.broken(fmt.Errorf("rotate: %w", err))
		return false
	}
	path := s.out.Path()
	s.mu.Lock()
	s.stats.Parts++
	s.path = path
	s.part = Part{Number: s.part.Number + 1, Lost: s.stats.Lost}
	s.mu.Unlock()
	s.begun, s.finished = false, false
	s.onPath(path)
	return s.begin() == nil
}

// force forces the file to the disk. When that fails nothing is lost yet.
func (s *Sink) force() {
	if err := s.out.Sync(); err != nil {
		err = fmt.Errorf("sync: %w", err)
		s.mu.Lock()
		s.stats.Errors++
		if s.other == nil {
			s.other = err
		}
		s.reports = append(s.reports, err)
		s.mu.Unlock()
		s.tell()
	}
}

// finish ends the file. It reports false where it is worth to try again.
func (s *Sink) finish() bool {
	s.mu.Lock()
	works := s.err == nil && len(s.queue) == 0
	again := len(s.queue) > 0 && time.Since(s.closed) < StallAfter
	leave := s.leave
	s.part.Last = !leave
	given := s.given
	s.mu.Unlock()
	if given {
		return true
	}
	if again {
		return false
	}
	if works && s.o.Format != nil {
		ended := false
		end := func() bool {
			var last Block
			if !leave {
				last = s.o.Format.End(s.state())
			} else if s.o.Pause != nil {
				last = s.o.Pause()
			}
			return s.write(current{Block: last, then: func() { ended = true }})
		}
		works = end() || s.resume() && (ended || end()) // a new file has no end yet
	}
	if works && s.o.Sync != SyncNever {
		s.force()
	}
	if !works && s.out.Gone() {
		s.mu.Lock()
		s.lose(s.part.Lines - s.framing)
		s.mu.Unlock()
	}
	return true
}

// end closes the output and settles the result.
func (s *Sink) end() {
	s.mu.Lock()
	given, leave, part := s.given, s.leave, s.part
	s.loseQueue()
	if !given {
		for _, err := range []error{s.first, s.err, s.other} {
			if s.result == nil {
				s.result = err
			}
		}
	}
	s.closing = true
	s.mu.Unlock()
	unwanted := !given && !leave && s.o.Unwanted != nil && s.o.Unwanted(part)
	// While it is locked nobody begins to append to it. Some systems remove no
	// file that is open.
	removed := unwanted && s.out.Remove() == nil
	if err := s.out.Close(); err != nil && !given {
		s.settle(fmt.Errorf("close: %w", err))
	}
	if unwanted && !removed {
		if err := s.out.Remove(); err != nil {
			s.settle(err)
		}
	}
	s.mu.Lock()
	s.busy = time.Time{}
	s.ended = true
	s.alarm.Stop()
	s.changed.Broadcast()
	s.mu.Unlock()
	s.tell()
}

func (s *Sink) settle(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.result == nil && !errors.Is(err, errRemoved) {
		s.result = err
	}
}

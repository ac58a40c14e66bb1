package fswrite

import (
	"errors"
	"fmt"
	"time"
)

// current is a block that is being written.
type current struct {
	Block
	off    int    // bytes written
	queued bool   // it is the first of the queue
	then   func() // if not nil, called with the lock when the block is written
}

// writer is the goroutine of a Sink. Only that goroutine uses its fields.
type writer struct {
	*Sink
	current  current // the block that is being written
	writing  bool    // current is in use
	begun    bool    // the current file has its start
	finished bool    // the current file has its end, and another one follows
	framing  int     // lines of the start of the file
}

// run is the main loop of the goroutine.
func (w *writer) run() {
	defer w.end()
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	for {
		select {
		case <-w.work:
		case <-retry.C:
		}
		w.mu.Lock()
		if w.closing.given {
			w.mu.Unlock()
			return
		}
		closing, asked, sync := w.closing.begun, w.ask.asked, w.ask.sync
		failing, check := w.err != nil, w.ask.look
		w.ask.look, w.ask.sync = false, false
		w.stall.busy = time.Now()
		w.mu.Unlock()

		w.turn(failing, check || closing, sync)
		over := closing && w.finish()

		w.mu.Lock()
		w.stall.busy = time.Time{}
		w.ask.answered = asked
		failing = w.err != nil
		w.changed.Broadcast()
		w.mu.Unlock()
		w.report()
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

// turn does the pending work.
func (w *writer) turn(failing, check, sync bool) {
	if !failing && check {
		if err := w.out.Check(); err != nil {
			w.broken(err)
			failing = true
		}
	}
	if failing && !w.resume() {
		return
	}
	for w.next() {
		if w.o.Sync == SyncAlways {
			w.force()
		}
		if !w.recovered() || !w.rotate() {
			return
		}
	}
	if !w.works() || !w.recovered() || !w.rotate() {
		return
	}
	if sync {
		w.force()
	}
}

// works reports whether the last write succeeded.
func (w *writer) works() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err == nil && !w.closing.given
}

// next writes the first block of the queue.
func (w *writer) next() bool {
	w.mu.Lock()
	if len(w.queue.blocks) == 0 || w.closing.given {
		w.mu.Unlock()
		return false
	}
	b := w.queue.blocks[0]
	w.mu.Unlock()
	data := b.data
	if w.o.Format != nil {
		data = w.o.Format.Encode(data)
	}
	return w.write(current{Block: Block{data, b.lines, b.metadata}, queued: true})
}

// write writes a block. If it fails, resume continues with it.
func (w *writer) write(c current) bool {
	w.current, w.writing = c, true
	return w.advance()
}

// advance writes the rest of the current block.
func (w *writer) advance() bool {
	c := &w.current
	for c.off < len(c.Data) {
		n, err := w.out.Write(c.Data[c.off:min(len(c.Data), c.off+chunk)])
		c.off += n
		w.mu.Lock()
		if n > 0 {
			w.stall.busy = time.Now()
			w.stats.Bytes += uint64(n)
			w.changed.Broadcast()
		}
		given := w.closing.given
		w.mu.Unlock()
		if given {
			return false
		}
		if err != nil {
			if w.out.Undo() {
				w.rewind(c)
			}
			w.broken(err)
			return false
		}
	}
	w.out.Commit()
	w.writing = false
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing.given {
		return false
	}
	w.part.Lines += c.Lines
	w.part.Metadata += c.Metadata
	if c.queued {
		w.queue.pop()
	} else {
		w.stats.Lines += uint64(c.Lines)
	}
	if c.then != nil {
		c.then()
	}
	w.changed.Broadcast()
	return true
}

func (w *writer) rewind(c *current) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Bytes -= uint64(c.off)
	c.off = 0
}

// broken notes a failure.
func (w *writer) broken(err error) {
	w.mu.Lock()
	w.stats.Errors++
	if !w.closing.given {
		w.err = fmt.Errorf("write: %w", err)
		w.fail(w.err, time.Now())
	}
	w.changed.Broadcast()
	w.mu.Unlock()
	w.report()
}

// resume makes a failed output usable again and completes what was interrupted.
func (w *writer) resume() bool {
	fresh, gone, err := w.out.Resume()
	path := w.out.Path()
	w.mu.Lock()
	if err != nil {
		w.stats.Errors++
		if w.err == nil {
			w.err = fmt.Errorf("open again: %w", err)
		}
		w.mu.Unlock()
		return false
	}
	moved := w.path != path
	w.path = path
	if fresh {
		if w.outage == nil { // it vanished while it was suspended
			w.fail(errRemoved, time.Now())
		}
		if gone {
			w.lose(w.part.Lines - w.framing)
		}
		w.writing, w.begun, w.finished, w.framing = false, false, false, 0
		w.part.Lines, w.part.Metadata, w.part.Again = 0, 0, true
	}
	w.mu.Unlock()
	if moved {
		w.onPath(path)
	}
	// The error stays until something was written after it, so that an attempt does
	// not look like a success.
	if w.writing && !w.advance() {
		return false
	}
	w.mu.Lock()
	w.err = nil
	w.mu.Unlock()
	if w.finished {
		return w.further()
	}
	return w.begin() == nil
}

func (w *writer) onPath(path string) {
	if w.o.OnPath != nil {
		calm(func() { w.o.OnPath(path) })
	}
}

// begin writes the start of a new file.
func (w *writer) begin() error {
	if w.begun {
		return nil
	}
	if w.o.Format != nil {
		b := w.o.Format.Begin(w.state())
		// Set first: if writing it fails, resume continues with it.
		w.begun, w.framing = true, b.Lines
		if !w.write(current{Block: b}) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.err
		}
	}
	w.begun = true
	return nil
}

func (w *writer) state() Part {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.part
}

// maxWaiting returns how many bytes may wait at the end of an outage. If no
// more lines come, the record of the loss is the last.
func (w *writer) maxWaiting() int {
	if w.closing.begun {
		return 0
	}
	return w.queue.least
}

// recovered ends an outage once the queue is shallow again: it writes the
// record of the loss. It reports whether the file works.
func (w *writer) recovered() bool {
	w.mu.Lock()
	o := w.outage
	if o == nil || w.err != nil || w.queue.held > w.maxWaiting() {
		w.mu.Unlock()
		return true
	}
	gap := Gap{Lines: o.lost, From: o.from, To: o.to, Cause: o.Cause}
	w.mu.Unlock()
	if gap.Lines > 0 && w.o.Format != nil {
		reported := func() { o.lost, o.from = o.lost-gap.Lines, gap.To }
		if !w.write(current{Block: w.o.Format.Gap(gap), then: reported}) {
			return false
		}
	}
	w.mu.Lock()
	if o.lost == 0 || w.o.Format == nil {
		w.outage = nil
		over := o.Outage
		over.Over, over.For = true, time.Since(o.since)
		w.reports = append(w.reports, &over)
	}
	w.mu.Unlock()
	w.report()
	return true
}

// rotate starts the next part if this one is large. It reports whether the file
// works.
func (w *writer) rotate() bool {
	if w.o.Rotate <= 0 || w.out.Size() < w.o.Rotate {
		return true
	}
	if w.o.Format != nil {
		w.finished = true // if writing it fails, resume continues with it
		if !w.write(current{Block: w.o.Format.End(w.state())}) {
			return false
		}
	}
	if w.o.Sync != SyncNever {
		w.force()
	}
	return w.further()
}

// further continues in the next part.
func (w *writer) further() bool {
	if err := w.out.Next(); err != nil {
		w.broken(fmt.Errorf("rotate: %w", err))
		return false
	}
	path := w.out.Path()
	w.mu.Lock()
	w.stats.Parts++
	w.path = path
	w.part = Part{Number: w.part.Number + 1, Lost: w.stats.Lost}
	w.mu.Unlock()
	w.begun, w.finished = false, false
	w.onPath(path)
	return w.begin() == nil
}

// force syncs the file to the disk. A failure loses nothing yet.
func (w *writer) force() {
	if err := w.out.Sync(); err != nil {
		err = fmt.Errorf("sync: %w", err)
		w.mu.Lock()
		w.countRetry(err)
		w.mu.Unlock()
		w.report()
	}
}

// finish ends the file. It returns false if another attempt is useful.
func (w *writer) finish() bool {
	w.mu.Lock()
	works := w.err == nil && len(w.queue.blocks) == 0
	again := len(w.queue.blocks) > 0 && time.Since(w.closing.at) < StallAfter
	leave := w.closing.leave
	w.part.Last = !leave
	given := w.closing.given
	w.mu.Unlock()
	if given {
		return true
	}
	if again {
		return false
	}
	if works && w.o.Format != nil {
		ended := false
		end := func() bool {
			var last Block
			if !leave {
				last = w.o.Format.End(w.state())
			} else if w.o.Pause != nil {
				last = w.o.Pause()
			}
			return w.write(current{Block: last, then: func() { ended = true }})
		}
		works = end() || w.resume() && (ended || end()) // a new file has no end yet
	}
	if works && w.o.Sync != SyncNever {
		w.force()
	}
	if !works && w.out.Gone() {
		w.mu.Lock()
		w.lose(w.part.Lines - w.framing)
		w.mu.Unlock()
	}
	return true
}

// end closes the output and stores the result.
func (w *writer) end() {
	w.mu.Lock()
	given, leave, part := w.closing.given, w.closing.leave, w.part
	w.lose(w.queue.drop())
	if !given {
		for _, err := range []error{w.first, w.err, w.other} {
			if w.closing.result == nil {
				w.closing.result = err
			}
		}
	}
	w.closing.begun = true
	w.mu.Unlock()
	unwanted := !given && !leave && w.o.Unwanted != nil && w.o.Unwanted(part)
	// No process appends to it while it is locked. Some systems cannot remove an
	// open file.
	removed := unwanted && w.out.Remove() == nil
	if err := w.out.Close(); err != nil && !given {
		w.settle(fmt.Errorf("close: %w", err))
	}
	if unwanted && !removed {
		if err := w.out.Remove(); err != nil {
			w.settle(err)
		}
	}
	w.mu.Lock()
	w.stall.busy = time.Time{}
	w.closing.ended = true
	w.alarm.Stop()
	w.changed.Broadcast()
	w.mu.Unlock()
	w.report()
}

func (w *writer) settle(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing.result == nil && !errors.Is(err, errRemoved) {
		w.closing.result = err
	}
}

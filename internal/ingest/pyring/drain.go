package pyring

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

const (
	// scanEvery is how often the folders are searched for new rings.
	scanEvery = 100 * time.Millisecond
	// Ring buffers are polled with these pauses, longer ones if there is less data.
	pollLeast, pollMost = time.Millisecond, 100 * time.Millisecond
	// batch is the number of slots after which the next poll comes soon.
	batch = 2048
	// aliveEvery is how often the system is asked whether a process runs.
	aliveEvery = 100 * time.Millisecond
	// opening is for how long a file may be an incomplete ring buffer.
	opening = 5 * time.Second
	// A trace that cannot be made is tried again after these pauses, each twice as
	// long as the one before.
	againFirst, againMost = time.Second, 30 * time.Second
	// grace is for how long Close waits, after its context has ended, for what the
	// context stopped.
	grace = time.Second
)

// Drain reads the ring buffers of processes while they run. Create it with New.
type Drain struct {
	o       Options
	begin   func(ctx context.Context, o *Options, r *ring.Ring, live bool) (*process, error) // newProcess
	stop    chan struct{}
	wait    sync.WaitGroup
	reading context.Context // ends when Close has no more time for reading
	enough  context.CancelFunc

	mu     sync.Mutex
	known  map[string]*found
	procs  map[*process]bool // being read
	stats  Stats
	errs   []error
	closed bool
	ctx    context.Context // the context of Close
}

// found is a file in the folders of ring buffers. Only one goroutine at a time
// uses it.
type found struct {
	since   time.Time // when it was first seen
	settled bool      // it is being read or was refused

	// If its trace could not be made:
	failed error
	next   time.Time // of the next attempt
	pause  time.Duration
}

// New watches the folders of ring buffers. One goroutine reads each process
// while it lives, and then deletes its ring buffer.
func New(o Options) (*Drain, error) {
	if !ring.Supported {
		return nil, fmt.Errorf("python: this system does not support rings: %w", errors.ErrUnsupported)
	}
	if o.Dir == "" || o.Out == "" {
		return nil, errors.New("python: Options.Dir and Options.Out are required")
	}
	d := &Drain{o: o, begin: newProcess, stop: make(chan struct{}), known: make(map[string]*found), procs: make(map[*process]bool)}
	d.reading, d.enough = context.WithCancel(context.Background())
	d.wait.Go(d.watch)
	return d, nil
}

func (d *Drain) watch() {
	t := time.NewTicker(scanEvery)
	defer t.Stop()
	for {
		d.scan()
		select {
		case <-d.stop:
			return
		case <-t.C:
		}
	}
}

// scan starts reading new ring buffers.
func (d *Drain) scan() {
	for _, dir := range filepath.SplitList(d.o.Dir) {
		paths, _ := filepath.Glob(filepath.Join(escape(dir), "*"+ring.Ext))
		for _, path := range paths {
			d.meet(path)
		}
	}
}

// meet starts reading a ring buffer that is not yet read.
func (d *Drain) meet(path string) {
	now := time.Now()
	d.mu.Lock()
	f, last := d.known[path], d.closed
	if f == nil {
		f = &found{since: now}
		d.known[path] = f
	}
	d.mu.Unlock()
	switch {
	case f.settled || now.Before(f.next) && !last:
		return
	case d.reading.Err() != nil:
		return
	}
	r, err := ring.Open(path, ring.Options{Drain: true})
	switch {
	case err == nil:
	case fswrite.MayPass(err):
		d.unmade(path, f, err)
		return
	default:
		if errors.Is(err, ring.ErrVersion) || now.Sub(f.since) > opening {
			f.settled = true
			d.failed(path, err)
		}
		return
	}
	p, err := d.begin(d.reading, &d.o, r, true)
	if err != nil {
		r.Close()
		d.unmade(path, f, err)
		return
	}
	f.settled, f.failed = true, nil
	d.mu.Lock()
	d.procs[p] = true
	d.stats.Processes++
	d.mu.Unlock()
	d.wait.Go(func() { d.follow(p) })
}

// unmade handles a trace that could not be made. Until the last attempt, the
// ring buffer has the spans, and the disk may work again.
func (d *Drain) unmade(path string, f *found, err error) {
	if f.failed == nil {
		d.o.log().Warn("cannot make the trace of a Python process: its spans wait in memory", "path", path, "error", err, "see", helptopic.File)
	}
	f.settled = !fswrite.MayPass(err)
	f.pause = min(max(2*f.pause, againFirst), againMost)
	f.failed, f.next = err, time.Now().Add(f.pause)
}

// unwritten counts the spans of processes whose traces could not be made. Their
// ring buffers stay.
func (d *Drain) unwritten(ctx context.Context) {
	for path, f := range d.known {
		if f.failed == nil {
			continue
		}
		var waiting, lost int64
		if r, err := ring.Open(path, ring.Options{}); err == nil {
			_ = r.Finish(ctx, func(rec *ring.Record) { // an error leaves a number that is too low
				if rec.Kind == ring.KindSpan {
					waiting++
				}
			})
			lost = r.Stats().Lost
			r.Close()
		}
		d.o.log().Warn("the trace of a Python process could not be made: its ring has the spans, import them with trainspan trace import",
			"spans", waiting, "path", path, "error", f.failed, "see", helptopic.File)
		d.note(f.failed)
		d.mu.Lock()
		d.stats.Processes++
		d.stats.Waiting += waiting
		d.stats.Lost += lost
		d.mu.Unlock()
	}
}

func (d *Drain) failed(path string, err error) {
	d.o.log().Warn("cannot read the ring of a Python process", "path", path, "error", err, "see", helptopic.Python)
	d.note(err)
}

func (d *Drain) note(err error) {
	d.mu.Lock()
	d.stats.Errors++
	d.errs = append(d.errs, fmt.Errorf("python: %w", err))
	d.mu.Unlock()
}

// follow reads a ring buffer until its process is gone, or the drain closes.
// While the trace takes nothing, data stays in the ring buffer.
func (d *Drain) follow(p *process) {
	pause := pollLeast
	ticked, checked, released := time.Now(), time.Now(), time.Now()
	var err error
	for running := true; running && err == nil; {
		n, full := 0, p.full()
		if !full {
			n, err = p.read()
		}
		// Waking up costs more than a few spans, and the processor is often one that
		// trains.
		if pause *= 2; n > batch {
			pause /= 4
		}
		pause = min(max(pause, pollLeast), pollMost)
		wait := pause
		if n >= 2*batch {
			wait = 0
		}
		select {
		case <-d.stop:
			running = false
		case <-time.After(wait):
		}
		now := time.Now()
		if err == nil && !full && now.Sub(ticked) > beginAfter/2 {
			ticked = now
			err = p.tick(now.UnixNano())
		}
		if held := p.ring.Held(); err == nil && held > 0 && (now.Sub(released) > releaseEvery || held >= releaseMany && !p.fails.Load()) {
			released = now
			err = p.release()
		}
		if now.Sub(checked) > aliveEvery {
			checked = now
			running = running && p.alive()
		}
	}
	d.finish(p, err)
}

// finish ends a process and deletes its ring buffer.
func (d *Drain) finish(p *process, err error) {
	d.mu.Lock()
	ctx := d.ctx
	d.mu.Unlock()
	if ctx == nil {
		ctx = context.Background()
	}
	err = errors.Join(err, p.finish(ctx, d.reading))
	p.ring.Close()
	if err == nil {
		if p.alive() {
			d.o.log().Warn("a Python process outlives the command: spans that it records from now on are lost", "pid", p.ring.PID, "see", helptopic.Python)
		}
		err = ring.Remove(p.ring.Path)
	}
	d.mu.Lock()
	delete(d.procs, p)
	d.stats.add(p)
	d.mu.Unlock()
	switch {
	case err == nil:
	case p.waitingSpans() > 0:
		d.o.log().Warn("the trace of a Python process is not complete: its ring has the other spans, import them with trainspan trace import",
			"spans", p.waitingSpans(), "path", p.ring.Path, "error", err, "see", helptopic.File)
		d.note(err)
	default:
		d.failed(p.ring.Path, err)
	}
}

// Stats returns the current counts.
func (d *Drain) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Files = append([]string(nil), s.Files...)
	s.Delivery.Causes = maps.Clone(s.Delivery.Causes)
	for p := range d.procs {
		s.add(p)
	}
	return s
}

// Close reads the rest of the ring buffers, ends what is written and deletes
// them, including those of processes that still run: what they record from then
// on is lost. The context bounds it: a ring buffer that was not read completely
// by then is left for Import, and the error names it. Later calls do nothing.
func (d *Drain) Close(ctx context.Context) error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed, d.ctx = true, ctx
	d.mu.Unlock()
	close(d.stop)
	defer context.AfterFunc(ctx, d.enough)()
	if end, ok := ctx.Deadline(); ok { // time to write what was read
		defer time.AfterFunc(time.Until(end)*3/4, d.enough).Stop()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.wait.Wait()
		d.scan() // for short-lived processes
		d.wait.Wait()
		few, cancel := context.WithTimeout(context.WithoutCancel(ctx), counting)
		defer cancel()
		d.unwritten(few)
	}()
	var late error
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done:
		case <-time.After(grace): // a disk that does not answer
			late = fmt.Errorf("python: some rings were not read to the end: %w", ctx.Err())
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(append(d.errs, late)...)
}

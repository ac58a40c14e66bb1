package dftracerexporter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/zap"

	"github.com/trainspan/trainspan/collector/dftracerexporter/internal/metadata"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/see"
)

// errStopped is what a batch gets that comes after the shutdown.
var errStopped = errors.New("dftracer exporter: shut down")

// errLeft is about a file that was put aside and for whose end there was no time.
var errLeft = errors.New("dftracer exporter: no time to complete the file")

// crowdedEvery is the least time between two warnings of too many files.
const crowdedEvery = time.Minute

// closers is how many files that were put aside are completed at once.
const closers = 8

// store has the traces by process. A trace has a slot while it may have its
// file open; there are MaxOpenFiles of them. The lock of a trace is taken
// before that of the store, never after it.
type store struct {
	cfg *Config
	log *zap.Logger
	in  *metadata.TelemetryBuilder

	mu      sync.Mutex
	traces  map[identity]*trace
	open    []*trace // those with a slot
	closed  bool
	crowded time.Time // of the last warning
}

func newStore(cfg *Config, log *zap.Logger, in *metadata.TelemetryBuilder) *store {
	return &store{cfg: cfg, log: log, in: in, traces: make(map[identity]*trace)}
}

// arrival is what comes for a process.
type arrival struct {
	res   pcommon.Resource
	start time.Time // the earliest in it; zero is unknown
	now   time.Time
}

// with calls fn with the locked trace of the process, whose file is open.
func (s *store) with(a arrival, fn func(*trace) error) error {
	id := identify(a.res.Attributes())
	for {
		t, err := s.get(id, a.now)
		if err != nil {
			return err
		}
		t.mu.Lock()
		// Its slot may be gone, or the file complete: then once more.
		if s.holds(t) && t.state != stateClosed {
			err := s.ready(t, a)
			if err == nil {
				err = fn(t)
				t.count()
			}
			t.mu.Unlock()
			return err
		}
		t.mu.Unlock()
	}
}

// get finds the trace of a process or makes it, and gives it a slot.
func (s *store) get(id identity, now time.Time) (*trace, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errStopped
	}
	var forgotten, victim *trace
	t := s.traces[id]
	if t == nil {
		if len(s.traces) >= s.cfg.MaxProcesses {
			forgotten = s.leastRecent()
			s.remove(forgotten)
		}
		t = &trace{cfg: s.cfg, in: s.in, id: id}
		s.traces[id] = t
	}
	t.used = now
	if !t.slot {
		if len(s.open) >= s.cfg.MaxOpenFiles {
			victim = s.victim(now)
			s.release(victim)
		}
		t.slot = true
		s.open = append(s.open, t)
	}
	s.mu.Unlock()
	if forgotten != nil {
		_ = s.finish(context.Background(), forgotten) // it is logged
	}
	if victim != nil {
		if err := s.putAside(victim, t); err != nil {
			return nil, fmt.Errorf("dftracer exporter: %d files are open and none can be put aside: %w", s.cfg.MaxOpenFiles, err)
		}
	}
	return t, nil
}

// silence is after how long a process counts as silent. SDKs send every few seconds.
const silence = time.Minute

// victim chooses the file that is put aside: the one used longest ago if its
// process is silent, or else any. Were it the oldest then, too, processes that
// take turns would each find their file just put aside.
func (s *store) victim(now time.Time) *trace {
	oldest := s.open[0]
	for _, t := range s.open {
		if t.used.Before(oldest.used) {
			oldest = t
		}
	}
	if now.Sub(oldest.used) > silence {
		return oldest
	}
	return s.open[rand.IntN(len(s.open))]
}

func (s *store) leastRecent() (oldest *trace) {
	for _, t := range s.traces {
		if oldest == nil || t.used.Before(oldest.used) {
			oldest = t
		}
	}
	return oldest
}

// remove takes a trace out; release takes only its slot.
func (s *store) remove(t *trace) {
	delete(s.traces, t.id)
	s.release(t)
}

func (s *store) release(t *trace) {
	t.slot = false
	for i, o := range s.open {
		if o == t {
			last := len(s.open) - 1
			s.open[i], s.open[last] = s.open[last], nil
			s.open = s.open[:last]
			return
		}
	}
}

func (s *store) holds(t *trace) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.slot
}

// putAside closes the file of a trace that lost its slot to another one, which
// gives it back if that does not work.
func (s *store) putAside(victim, heir *trace) error {
	victim.mu.Lock()
	defer victim.mu.Unlock()
	if victim.state != stateOpen || s.holds(victim) {
		return nil // there is nothing to close, or it has got another slot
	}
	err := victim.putAside(context.Background())
	if err == nil {
		s.warnCrowded()
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if victim.state == stateClosed {
		if s.traces[victim.id] == victim {
			s.remove(victim)
		}
		s.log.Error("trace file is not complete", zap.String("file", victim.w.Path()), zap.Error(err), zap.String("see", see.Damaged))
		return nil
	}
	if heir.slot {
		s.release(heir)
	}
	victim.slot = true
	s.open = append(s.open, victim)
	return err
}

func (s *store) warnCrowded() {
	s.mu.Lock()
	now := time.Now()
	again := now.Sub(s.crowded) < crowdedEvery
	if !again {
		s.crowded = now
	}
	n := len(s.traces)
	s.mu.Unlock()
	if !again {
		s.log.Warn("more processes send spans than trace files may be open: files are closed and opened again in turns",
			zap.Int("max_open_files", s.cfg.MaxOpenFiles), zap.Int("processes", n), zap.String("see", see.Collector))
	}
}

// ready opens the file of a trace that has a slot.
func (s *store) ready(t *trace, a arrival) error {
	var err error
	switch t.state {
	case stateNew:
		err = s.create(t, a)
	case stateAside:
		err = t.resume()
	}
	if err != nil {
		s.in.DftracerFileOutages.Add(context.Background(), 1)
		return fmt.Errorf("dftracer exporter: %w", err)
	}
	return nil
}

func (s *store) create(t *trace, a arrival) error {
	opts := s.cfg.options()
	opts.Process = t.id.process(a.res.Attributes())
	t.id.job(a.res.Attributes(), &opts)
	if opts.Start = a.start; a.start.IsZero() {
		opts.Start = a.now // the times of the trace are those of its job, not ours
	}
	path := t.id.path(s.cfg.Directory, s.cfg.FileName)
	opts.OnError = func(err error) {
		var o *dftracer.Outage
		if errors.As(err, &o) && o.Over {
			s.log.Info("trace file works again", zap.String("file", path), zap.Error(err))
			return
		}
		s.in.DftracerFileOutages.Add(context.Background(), 1)
		s.log.Error("trace file cannot be written, will try again", zap.String("file", path), zap.Error(err), zap.String("see", see.File))
	}
	w, number, err := create(path, &opts)
	if err != nil {
		return err
	}
	s.in.DftracerFilesCreated.Add(context.Background(), 1)
	s.in.DftracerOpenFiles.Add(context.Background(), 1)
	t.w, t.state = w, stateOpen
	t.asm = t.assembler()
	if number > 0 {
		w.CM(dftracer.KeyPart, strconv.Itoa(number))
	}
	describe(t, a.res)
	if t.id.anonymous {
		s.log.Warn("spans come without process.pid and service.instance.id: processes of the same host, service and rank share a file",
			zap.String("file", w.Path()), zap.String("see", see.Collector))
	}
	s.log.Debug("trace file made", zap.String("file", w.Path()))
	return nil
}

// tick writes what has waited long enough and completes idle files.
func (s *store) tick(ctx context.Context, now time.Time) {
	s.mu.Lock()
	var idle []*trace
	for _, t := range s.traces {
		if s.cfg.IdleTimeout > 0 && now.Sub(t.used) >= s.cfg.IdleTimeout {
			s.remove(t)
			idle = append(idle, t)
		}
	}
	busy := append([]*trace(nil), s.open...)
	s.mu.Unlock()
	for _, t := range busy {
		t.mu.Lock()
		if t.state == stateOpen {
			t.asm.WriteUntil(now.Add(-s.cfg.OrderWindow))
			t.count()
		}
		t.mu.Unlock()
	}
	for _, t := range idle {
		_ = s.finish(ctx, t) // it is logged
	}
}

// finish completes a file whose trace was removed.
func (s *store) finish(ctx context.Context, t *trace) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == stateNew || t.state == stateClosed {
		t.state = stateClosed
		return nil
	}
	if t.state == stateAside && ctx.Err() != nil {
		return errLeft
	}
	path := t.w.Path()
	if err := t.close(ctx); err != nil {
		s.log.Error("trace file is not complete", zap.String("file", path), zap.Error(err), zap.String("see", see.Damaged))
		return fmt.Errorf("dftracer exporter: %s: %w", path, err)
	}
	s.log.Debug("trace file completed", zap.String("file", path))
	return nil
}

// close completes all files and takes nothing any more. It ends with ctx; the
// files that are not complete then are in the error.
func (s *store) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	var open, aside []*trace
	for _, t := range s.traces {
		if t.slot {
			open = append(open, t)
		} else {
			aside = append(aside, t)
		}
		t.slot = false
	}
	s.traces, s.open = make(map[identity]*trace), nil
	s.mu.Unlock()

	errs := s.finishAll(ctx, open, len(open))
	return errors.Join(append(errs, s.finishAll(ctx, aside, closers)...)...)
}

// finishAll completes files, so many at once.
func (s *store) finishAll(ctx context.Context, list []*trace, workers int) (errs []error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	next, left := 0, 0
	for range min(workers, len(list)) {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < len(list) {
				t := list[next]
				next++
				mu.Unlock()
				err := s.finish(ctx, t)
				mu.Lock()
				if errors.Is(err, errLeft) {
					left++
				} else if err != nil {
					errs = append(errs, err)
				}
			}
		})
	}
	wg.Wait()
	if left > 0 {
		errs = append(errs, fmt.Errorf("dftracer exporter: %d files were left without their end, which trainspan recover writes: %w", left, ctx.Err()))
	}
	return errs
}

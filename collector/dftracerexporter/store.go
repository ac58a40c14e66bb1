package dftracerexporter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/zap"

	"github.com/trainspan/trainspan/dftracer"
)

// errStopped is what a batch gets that comes after the shutdown.
var errStopped = errors.New("dftracer exporter: shut down")

// store has the open files by process.
type store struct {
	cfg *Config
	log *zap.Logger
	in  *instruments

	mu     sync.Mutex // taken before the lock of a trace
	traces map[identity]*trace
	closed bool
}

func newStore(cfg *Config, log *zap.Logger, in *instruments) *store {
	return &store{cfg: cfg, log: log, in: in, traces: make(map[identity]*trace)}
}

// with calls fn with the locked trace of the process of a resource.
func (s *store) with(res pcommon.Resource, now time.Time, fn func(*trace)) error {
	id := identify(res.Attributes())
	for {
		t, err := s.get(id, res, now)
		if err != nil {
			return err
		}
		t.mu.Lock()
		if !t.closed {
			fn(t)
			t.rec.flush()
			t.mu.Unlock()
			return nil
		}
		t.mu.Unlock() // completed in between: there will be another file
	}
}

// get finds the trace of a process or makes it, completing another one if
// there are too many.
func (s *store) get(id identity, res pcommon.Resource, now time.Time) (*trace, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errStopped
	}
	if t := s.traces[id]; t != nil {
		t.used = now
		s.mu.Unlock()
		return t, nil
	}
	var victim *trace
	if len(s.traces) >= s.cfg.MaxOpenFiles {
		victim = s.takeOldest()
	}
	// Under the lock, so that a process never has two files.
	t, err := s.open(id, res)
	if err == nil {
		t.used = now
		s.traces[id] = t
	}
	s.mu.Unlock()
	if victim != nil {
		s.log.Warn("too many trace files are open: completed the one not used for longest",
			zap.String("file", victim.w.Path()), zap.Int("max_open_files", s.cfg.MaxOpenFiles))
		s.finish(victim)
	}
	return t, err
}

func (s *store) takeOldest() *trace {
	var oldest identity
	var found *trace
	for id, t := range s.traces {
		if found == nil || t.used.Before(found.used) {
			oldest, found = id, t
		}
	}
	delete(s.traces, oldest)
	return found
}

func (s *store) open(id identity, res pcommon.Resource) (*trace, error) {
	opts := s.cfg.options()
	opts.Process = id.process(res.Attributes())
	if id.ranked {
		opts.Rank = &id.rank
	}
	path := id.path(s.cfg.Directory, s.cfg.FileName)
	opts.OnError = func(err error) {
		s.in.outages.Add(context.Background(), 1)
		s.log.Error("trace file cannot be written, will try again", zap.String("file", path), zap.Error(err))
	}
	w, number, err := create(path, &opts)
	if err != nil {
		s.in.outages.Add(context.Background(), 1)
		return nil, fmt.Errorf("dftracer exporter: %w", err)
	}
	s.in.created.Add(context.Background(), 1)
	s.in.open.Add(context.Background(), 1)
	t := newTrace(s.cfg, w, id.pid, &recorder{to: s.in})
	if number > 0 {
		w.CM(dftracer.KeyPart, strconv.Itoa(number))
	}
	facts(t, res)
	s.log.Debug("trace file made", zap.String("file", w.Path()))
	return t, nil
}

// tick writes what has waited long enough and completes idle files.
func (s *store) tick(now time.Time) {
	s.mu.Lock()
	var busy, idle []*trace
	for id, t := range s.traces {
		if s.cfg.IdleTimeout > 0 && now.Sub(t.used) >= s.cfg.IdleTimeout {
			delete(s.traces, id)
			idle = append(idle, t)
		} else {
			busy = append(busy, t)
		}
	}
	s.mu.Unlock()
	for _, t := range busy {
		t.mu.Lock()
		if !t.closed {
			t.writeUntil(now.Add(-s.cfg.OrderWindow))
			t.rec.flush()
		}
		t.mu.Unlock()
	}
	for _, t := range idle {
		s.finish(t)
	}
}

// finish completes a file that is no longer among the open ones.
func (s *store) finish(t *trace) error {
	err := t.close()
	s.in.open.Add(context.Background(), -1)
	if err != nil {
		s.log.Error("trace file is not complete", zap.String("file", t.w.Path()), zap.Error(err))
		return fmt.Errorf("dftracer exporter: %s: %w", t.w.Path(), err)
	}
	s.log.Debug("trace file completed", zap.String("file", t.w.Path()))
	return nil
}

// close completes all files, each in its own time, and takes nothing any more.
func (s *store) close() error {
	s.mu.Lock()
	s.closed = true
	open := s.traces
	s.traces = nil
	s.mu.Unlock()
	var wg sync.WaitGroup
	errs := make([]error, len(open))
	i := 0
	for _, t := range open {
		slot := &errs[i]
		i++
		wg.Go(func() { *slot = s.finish(t) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

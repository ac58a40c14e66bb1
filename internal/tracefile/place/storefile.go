package place

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// keptAside is how many open and how many finished spans of a process are
// remembered at most while its file is not open, and fewAside at least.
const (
	keptAside = 512
	fewAside  = 16
)

// closers is how many files that were put aside are completed at once.
const closers = 8

// errLeft is about a file that was put aside and for whose end there was no time.
var errLeft = errors.New("no time to complete the file")

// suspend closes a file for now. It writes what waits: what comes later finds
// its parents all the same. After an error the file is open as before, or closed.
func (s *Store[K]) suspend(ctx context.Context, f *File[K]) error {
	f.Assembler.Shrink(s.keep())
	f.Names = Names{}
	err := f.Writer.Suspend(ctx)
	switch {
	case err == nil:
		f.state = stateAside
	case errors.Is(err, tracefile.ErrClosed):
		f.state = stateClosed
	default:
		s.count(f)
		return err
	}
	s.count(f)
	s.o.Watch.Closed()
	return err
}

// keep is how many spans of a file are remembered while it is not open: of a
// quarter of the memory each process has the same share.
func (s *Store[K]) keep() int {
	s.mu.Lock()
	known := len(s.files)
	s.mu.Unlock()
	share := s.o.MaxBytes / 4 / int64(max(known, 1)) / (2 * relativeSize)
	return min(max(int(share), fewAside), keptAside, s.o.Assembler.MaxParents)
}

// resume opens a file again.
func (s *Store[K]) resume(f *File[K]) error {
	w, err := f.Writer.Resume()
	if err != nil {
		s.o.Watch.Outage()
		return err
	}
	f.Writer, f.state = w, stateOpen
	f.Assembler.Resume(w)
	s.o.Watch.Opened(true)
	return nil
}

// count reports what was written and lost since the last time, and what the
// file holds of memory now.
func (s *Store[K]) count(f *File[K]) {
	st := f.Writer.Stats()
	c := f.Assembler.Counts()
	s.told.counted(&c, s.o.Limits)
	s.o.Watch.Counted(c, st.Lost+st.Late-f.lost)
	f.lost = st.Lost + st.Late
	var size int64
	switch f.state {
	case stateOpen:
		size = int64(f.Assembler.Size() + st.Held + st.Buffered)
	case stateAside:
		size = int64(f.Assembler.Size())
	}
	s.bytes.Add(size - f.size)
	f.size = size
}

// afford makes room in memory where there is too little, or refuses.
func (s *Store[K]) afford(now time.Time) error {
	if s.bytes.Load() <= s.o.MaxBytes {
		return nil
	}
	s.relief.Lock()
	defer s.relief.Unlock()
	s.mu.Lock()
	open := append([]*File[K](nil), s.open.files...)
	s.mu.Unlock()
	for _, f := range open {
		if s.bytes.Load() <= s.o.MaxBytes/2 {
			return nil
		}
		f.mu.Lock()
		// Where the disk takes nothing, what is written would only be lost.
		if f.state == stateOpen && f.Writer.Stats().Held == 0 {
			f.Assembler.Shrink(s.keep())
			_ = f.Writer.FlushContext(context.Background()) // it waits for no file that fails
			s.count(f)
		}
		f.mu.Unlock()
	}
	if s.bytes.Load() <= s.o.MaxBytes {
		return nil
	}
	s.forgetOne(now)
	if s.bytes.Load() <= s.o.MaxBytes {
		return nil
	}
	s.told.warnOnce(limitBytes, int(s.o.MaxBytes))
	return ErrFull
}

// forgetOne completes the file that was used longest ago, if its process is silent.
func (s *Store[K]) forgetOne(now time.Time) {
	s.mu.Lock()
	f := s.recent.last
	silent := f != nil && now.Sub(f.used) >= silence
	if silent {
		s.remove(f)
	}
	s.mu.Unlock()
	if silent {
		_ = s.finish(context.Background(), f) // it is logged
		s.ended()
	}
}

// finish completes a file that was removed.
func (s *Store[K]) finish(ctx context.Context, f *File[K]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == stateNew || f.state == stateClosed {
		f.state = stateClosed
		return nil
	}
	path := f.Writer.Path()
	err := errLeft
	if f.state == stateOpen || ctx.Err() == nil {
		err = s.complete(ctx, f)
	}
	if errors.Is(err, errLeft) {
		return err
	}
	if err != nil {
		s.o.Watch.Log(slog.LevelError, "trace file is not complete", "file", path, "error", err, "see", helptopic.Damaged)
		return fmt.Errorf("%s: %w", path, err)
	}
	s.o.Watch.Log(slog.LevelDebug, "trace file completed", "file", path)
	return nil
}

func (s *Store[K]) complete(ctx context.Context, f *File[K]) error {
	if f.state == stateAside {
		if err := s.resume(f); err != nil {
			f.state = stateClosed
			s.count(f)
			return err
		}
	}
	f.state = stateClosed
	f.Assembler.Finish()
	err := f.Writer.CloseContext(ctx)
	s.count(f)
	s.o.Watch.Closed()
	return err
}

// Close completes all files and takes nothing any more. It ends with ctx; the
// files that are not complete then are in the error.
func (s *Store[K]) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	var open, aside []*File[K]
	for _, f := range s.files {
		if f.slot {
			open = append(open, f)
		} else {
			aside = append(aside, f)
		}
		f.slot = false
	}
	s.files, s.open, s.recent, s.groups = make(map[K]*File[K]), slots[K]{}, list[K]{}, make(map[string]*group)
	s.mu.Unlock()
	errs := s.finishAll(ctx, open, len(open))
	return errors.Join(append(errs, s.finishAll(ctx, aside, closers)...)...)
}

// finishAll completes files, so many at once.
func (s *Store[K]) finishAll(ctx context.Context, list []*File[K], workers int) (errs []error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	next, left := 0, 0
	for range min(workers, len(list)) {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < len(list) {
				f := list[next]
				next++
				mu.Unlock()
				err := s.finish(ctx, f)
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
		errs = append(errs, fmt.Errorf("%d files were left without their end, which trainspan trace recover writes: %w", left, ctx.Err()))
	}
	return errs
}

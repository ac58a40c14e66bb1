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

// keptAside is the maximum number of open and of finished spans that are remembered of a
// process while its file is suspended, and fewAside the minimum.
const (
	keptAside = 512
	fewAside  = 16
)

// closers is the number of suspended files that Close completes concurrently.
const closers = 8

// errLeft is the error for a suspended file that could not be completed in time.
var errLeft = errors.New("no time to complete the file")

// suspend closes a file until its process sends more. It writes the waiting spans: later
// spans still find their parents. After an error the file is open as before, or closed
// for further spans.
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

// keep returns the number of spans to remember of a suspended file. All processes share
// a quarter of MaxBytes equally.
func (s *Store[K]) keep() int {
	s.mu.Lock()
	known := len(s.files)
	s.mu.Unlock()
	share := s.o.MaxBytes / 4 / int64(max(known, 1)) / (2 * relativeSize)
	return min(max(int(share), fewAside), keptAside, s.o.Assembler.MaxParents)
}

// resume reopens a suspended file.
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

// count reports what was written and lost since the last call, and updates the memory
// that the file uses.
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

// afford frees memory if more than MaxBytes is in use. It returns ErrFull if it cannot
// free enough.
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
		// If the writer holds data that it cannot write, more data would only be lost.
		if f.state == stateOpen && f.Writer.Stats().Held == 0 {
			f.Assembler.Shrink(s.keep())
			_ = f.Writer.FlushContext(context.Background()) // it does not wait for a failing file
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

// forgetOne completes the least recently used file if its process is silent.
func (s *Store[K]) forgetOne(now time.Time) {
	s.mu.Lock()
	f := s.recent.last
	silent := f != nil && now.Sub(f.used) >= silence
	if silent {
		s.remove(f)
	}
	s.mu.Unlock()
	if silent {
		_ = s.finish(context.Background(), f) // finish logs the error
		s.ended()
	}
}

// finish completes a removed file.
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

// Close completes all files; later calls of With return ErrClosed. It stops when ctx
// ends, and the error then includes the files that are not complete.
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

// finishAll completes files with the given number of workers.
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

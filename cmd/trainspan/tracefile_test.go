package main

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// pausing is a reader at the other end of a pipe: like less, it takes more only
// now and then.
type pausing struct {
	bytes.Buffer
	pause func() error
}

func (p *pausing) Write(b []byte) (int, error) {
	if err := p.pause(); err != nil {
		return 0, err
	}
	return p.Buffer.Write(b)
}

// writeThrough writes 2 MiB of events to a trace on standard output.
func writeThrough(ctx context.Context, t *testing.T, pause func() error) (lines int, err error) {
	t.Helper()
	out := &pausing{pause: pause}
	a := &ui.App{Stdout: display.NewWriter(out)}
	trace, err := createTrace(ctx, a, "-", false, nil, &dftracer.Options{StallMemory: 1 << 18})
	if err != nil {
		t.Fatal(err)
	}
	for i := int64(0); i < manyEvents && err == nil; i++ {
		trace.Write(&dftracer.Event{Name: "forward", Cat: "compute", TS: 1_700_000_000_000_000 + i, Dur: 1})
		if err = trace.failed(); err == nil {
			err = ctx.Err()
		}
	}
	err = trace.finish(err)
	return bytes.Count(out.Bytes(), []byte(`"forward"`)), err
}

const manyEvents = 20_000

// TestTraceWaitsForItsReader checks that no line of a trace is dropped, however
// long the reader pauses, and that an error or an interrupt still ends the
// command.
func TestTraceWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := writeThrough(t.Context(), t, func() error { time.Sleep(35 * time.Second); return nil })
		if n != manyEvents || err != nil {
			t.Errorf("a reader with pauses got %d events, %v; want %d", n, err, manyEvents)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if _, err := writeThrough(t.Context(), t, func() error { return syscall.ENOSPC }); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("writing to a full disk: %v, want %v", err, syscall.ENOSPC)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		again, writes := make(chan struct{}), 0
		_, err := writeThrough(ctx, t, func() error {
			if writes++; writes > 1 {
				<-again
			}
			return nil
		})
		close(again)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an interrupt while the reader pauses: %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

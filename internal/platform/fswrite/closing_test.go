package fswrite_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// TestDeadline closes a stalled output: at the deadline, or after half a minute
// without one. What is not in the file is lost.
func TestDeadline(t *testing.T) {
	for name, limit := range map[string]time.Duration{"deadline": 2 * time.Second, "none": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, shut := &gate{}, make(chan struct{})
				s, err := fswrite.New(fswrite.NewStream(g), fswrite.Options{Format: words{}})
				if err != nil {
					t.Fatal(err)
				}
				feed(s, 0, 10)
				_ = s.Flush(t.Context(), false)
				g.set(func(g *gate) { g.shut = shut })
				feed(s, 10, 30)
				ctx, want := context.Background(), 30*time.Second
				if limit > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, limit)
					defer cancel()
					want = limit
				}
				start := time.Now()
				err = s.Close(ctx)
				if took := time.Since(start); took < want || took > want+2*time.Second {
					t.Errorf("close took %v, want %v", took, want)
				}
				if !errors.Is(err, fswrite.ErrStalled) || limit > 0 && !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "30 lines are missing") {
					t.Errorf("close: %v", err)
				}
				if again := s.Close(context.Background()); again == nil || again.Error() != err.Error() {
					t.Errorf("second Close() = %v, want %v", again, err)
				}
				if feed(s, 50, 5) != 5 || s.Stats().Lost != 35 {
					t.Errorf("stats %+v, want 5 refused lines and 35 lost", s.Stats())
				}
				close(shut) // ends the goroutine
			})
		})
	}
}

// TestClosing checks that a closing file takes nothing more, returns an error
// for it, and counts it; and that a second Close waits exactly as long as the
// first.
func TestClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, shut := &gate{}, make(chan struct{})
		s, err := fswrite.New(fswrite.NewStream(g), fswrite.Options{Format: words{}})
		if err != nil {
			t.Fatal(err)
		}
		feed(s, 0, 10)
		_ = s.Flush(t.Context(), false)
		if !s.Ready() {
			t.Error("got an open file that is not ready, want ready")
		}
		g.set(func(g *gate) { g.shut = shut })
		feed(s, 10, 10)
		start := time.Now()
		var both sync.WaitGroup
		end := func() {
			if err := s.Close(context.Background()); !errors.Is(err, fswrite.ErrStalled) {
				t.Errorf("close: %v", err)
			}
		}
		both.Go(end)
		time.Sleep(20 * time.Second) // the file has stalled, and is not given up yet
		if st := s.Stats(); s.Ready() || st.Held == 0 {
			t.Errorf("ready while the file closes: %v, want false with lines held: %+v", s.Ready(), st)
		}
		s.Put(line(30), 1, 0)
		if st := s.Stats(); st.Lost != 1 {
			t.Errorf("stats after a line that came too late: %+v, want 1 lost", st)
		}
		both.Go(end)
		both.Wait()
		if took := time.Since(start); took > 31*time.Second {
			t.Errorf("both closes took %v, want at most %v", took, 31*time.Second)
		}
		close(shut) // ends the goroutine
	})
}

// TestShortFailures fails for 0.3 s from time to time, as some file systems do.
func TestShortFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, tell := &gate{}, &told{}
		s, err := fswrite.New(fswrite.NewStream(g), fswrite.Options{Format: words{}, OnError: tell.add})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			g.set(func(g *gate) { g.err = errors.New("input/output error") })
			feed(s, 100*i, 50)
			time.Sleep(300 * time.Millisecond)
			g.set(func(g *gate) { g.err = nil })
			feed(s, 100*i+50, 50)
			time.Sleep(time.Second)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if lines, gaps := sums(g.text()); lines != 2000 || gaps != 0 || s.Stats().Outages != 20 || len(tell.all) != 40 {
			t.Errorf("%d lines, %d in gaps, stats %+v, %d reports; want 2000, 0, 20 outages, 40", lines, gaps, s.Stats(), len(tell.all))
		}
	})
}

// TestLossesAtTheEnd closes an output that fails permanently.
func TestLossesAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, full := &gate{}, errors.New("no space left")
		s, err := fswrite.New(fswrite.NewStream(g), fswrite.Options{Format: words{}, Hold: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		feed(s, 0, 500)
		_ = s.Flush(t.Context(), false)
		g.set(func(g *gate) { g.err = full })
		feed(s, 500, 3000)
		if err := s.Close(t.Context()); !errors.Is(err, full) {
			t.Errorf("close: %v", err)
		}
		if lines, _ := sums(g.text()); lines != 500 || s.Stats().Lost != 3000 {
			t.Errorf("%d lines, stats %+v; want 500, 3000 lost", lines, s.Stats())
		}
	})
}

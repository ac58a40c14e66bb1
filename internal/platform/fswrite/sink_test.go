package fswrite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// gate is an io.Writer that stalls or fails on demand.
type gate struct {
	mu    sync.Mutex
	data  bytes.Buffer
	shut  chan struct{} // while it is open, writes wait for it to be closed
	err   error
	pause time.Duration
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	shut, err, pause := g.shut, g.err, g.pause
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
	time.Sleep(pause) // in synthetic time
	if err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.data.Write(p)
}

func (g *gate) set(f func(*gate)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(g)
}

func (g *gate) text() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.data.String()
}

// words is a format of readable lines.
type words struct{}

func (words) Begin(p fswrite.Part) fswrite.Block {
	again := ""
	if p.Again {
		again = " again"
	}
	return fswrite.Block{Data: fmt.Appendf(nil, "begin %d%s\n", p.Number, again), Lines: 1, Metadata: 1}
}
func (words) Encode(data []byte) []byte {
	if len(data) > 64<<10 {
		panic("a block is larger than what is written at a time")
	}
	return data
}
func (words) Gap(g fswrite.Gap) fswrite.Block {
	return fswrite.Block{Data: fmt.Appendf(nil, "gap %d\n", g.Lines), Lines: 1, Metadata: 1}
}
func (words) End(p fswrite.Part) fswrite.Block {
	return fswrite.Block{Data: fmt.Appendf(nil, "end lines=%d lost=%d\n", p.Lines, p.Lost), Lines: 1, Metadata: 1}
}

// line returns a line of 1 KiB.
func line(n int) []byte {
	b := fmt.Appendf(nil, "line %d ", n)
	return append(append(b, bytes.Repeat([]byte{'x'}, 1023-len(b))...), '\n')
}

// feed writes lines as a writer does and returns how many were refused.
func feed(s *fswrite.Sink, from, n int) (refused int) {
	for i := range n {
		if !s.Admit(1) {
			refused++
			continue
		}
		s.Put(line(from+i), 1, 0)
	}
	return refused
}

// sums adds up the numbers in a text.
func sums(text string) (lines, gaps int) {
	for l := range strings.Lines(text) {
		var n int
		switch {
		case strings.HasPrefix(l, "line "):
			lines++
		case strings.HasPrefix(l, "gap "):
			_, _ = fmt.Sscanf(l, "gap %d", &n)
			gaps += n
		}
	}
	return lines, gaps
}

type told struct {
	mu  sync.Mutex
	all []fswrite.Outage

	paths []string // used by the writing goroutine
}

func (t *told) add(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var o *fswrite.Outage
	if errors.As(err, &o) {
		t.all = append(t.all, *o)
	}
}

// TestStall stalls an output for half a minute: memory takes a megabyte, the
// calls wait 100 ms in all, the rest is lost, and all of that is reported.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, tell := &gate{}, &told{}
		s, err := fswrite.New(fswrite.NewStream(g), fswrite.Options{Format: words{}, Hold: 1 << 20, OnError: tell.add})
		if err != nil {
			t.Fatal(err)
		}
		feed(s, 0, 100)
		if err := s.Flush(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		shut := make(chan struct{})
		g.set(func(g *gate) { g.shut = shut })
		start := time.Now()
		refused := feed(s, 100, 5000)
		if waited := time.Since(start); waited < fswrite.StallAfter || waited > fswrite.StallAfter+fswrite.DefaultWait+50*time.Millisecond {
			t.Errorf("the calls waited %v, want %v and at most %v more", waited, fswrite.StallAfter, fswrite.DefaultWait+50*time.Millisecond)
		}
		if st := s.Stats(); refused == 0 || int(st.Lost) != refused || st.Held < 1<<20 || st.Held > 1<<20+2048 || st.Outages != 1 {
			t.Errorf("%d refused, stats %+v; want as many lost, 1 MiB held, 1 outage", refused, st)
		}
		if len(tell.all) != 1 || tell.all[0].Over {
			t.Errorf("reports %+v before the outage ended, want one", tell.all)
		}
		if err := s.Flush(t.Context(), false); !errors.Is(err, fswrite.ErrStalled) {
			t.Errorf("flush: %v", err)
		}
		time.Sleep(30 * time.Second)
		g.set(func(g *gate) { g.shut = nil })
		close(shut)
		synctest.Wait()
		if err := s.Flush(t.Context(), false); err != nil {
			t.Errorf("flush after the stall: %v", err)
		}
		feed(s, 6000, 100)
		if err := s.Close(t.Context()); !errors.Is(err, fswrite.ErrStalled) {
			t.Errorf("close: %v", err)
		}
		lines, gaps := sums(g.text())
		if lines != 5200-refused || gaps != refused || !strings.HasSuffix(g.text(), fmt.Sprintf("end lines=%d lost=%d\n", lines+2, refused)) {
			t.Errorf("%d lines, %d in gaps, %d refused; want all 5200 accounted for; the end is %q", lines, gaps, refused, g.text()[len(g.text())-40:])
		}
		if len(tell.all) != 2 || tell.all[0].Over || !tell.all[1].Over || tell.all[1].Lost != refused || tell.all[1].For < 30*time.Second {
			t.Errorf("reports %+v, want a second one with %d lost after 30 s or more", tell.all, refused)
		}
	})
}

// What waits for a stopped file is bounded by Hold, however small that is and
// whatever was written before; a flush ends with its context.
func TestSmallHold(t *testing.T) {
	for _, before := range []int{0, 100} {
		synctest.Test(t, func(t *testing.T) {
			g, shut := &gate{}, make(chan struct{})
			s, err := fswrite.New(fswrite.NewStream(g), fswrite.Options{Format: words{}, Hold: 4 << 10})
			if err != nil {
				t.Fatal(err)
			}
			feed(s, 0, before)
			if err := s.Flush(t.Context(), false); err != nil {
				t.Error(err)
			}
			g.set(func(g *gate) { g.shut = shut })
			refused := feed(s, before, 10)
			if st := s.Stats(); refused < 5 || refused > 6 || int(st.Lost) != refused {
				t.Errorf("%d refused, stats %+v; want 5 or 6, as many lost", refused, st)
			}
			done, cancel := context.WithCancel(t.Context())
			cancel()
			close(shut)
			synctest.Wait()
			if err := s.Flush(done, false); !errors.Is(err, context.Canceled) {
				t.Errorf("flush: %v", err)
			}
			if err := s.Close(t.Context()); err == nil {
				t.Error("Close returned no error, want one with the lost lines")
			}
		})
	}
}

// counted is an output that counts its calls.
type counted struct {
	fswrite.Output
	syncs, checks, closes int
	err                   error // returned by Close
}

func (c *counted) Sync() error  { c.syncs++; return nil }
func (c *counted) Check() error { c.checks++; return nil }
func (c *counted) Close() error { c.closes++; return c.err }

// A file is checked and synced only when that is asked for; an error of its end
// is the result of Close. An abandoned file is closed at once, with the first
// reason.
func TestCheckAndSyncOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, first := errors.New("disk full"), errors.New("first")
		for _, abandon := range []bool{false, true} {
			c := &counted{Output: fswrite.NewStream(&gate{}), err: full}
			s, err := fswrite.New(c, fswrite.Options{Format: words{}})
			if err != nil {
				t.Fatal(err)
			}
			for n := range 5 {
				feed(s, n, 1)
				if err := s.Flush(t.Context(), n == 1); err != nil {
					t.Error(err)
				}
				if err := s.Drain(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if c.syncs != 1 || c.checks != 5 || c.closes != 0 {
				t.Errorf("file %+v, want 1 sync, 5 checks, not closed", c)
			}
			want := full
			if abandon {
				want = first
				s.Abandon(first)
				s.Abandon(errors.New("second"))
				synctest.Wait()
				if c.closes != 1 {
					t.Errorf("Abandon closed the file %d times, want once", c.closes)
				}
			}
			if err := s.Close(t.Context()); !errors.Is(err, want) || c.closes != 1 {
				t.Errorf("Close() = %v, closed %d times; want %v, once", err, c.closes, want)
			}
		}
	})
}

// refusing is an io.Writer that refuses lines with certain words.
type refusing struct{ words atomic.Pointer[[]string] }

func (r *refusing) refuse(words ...string) { r.words.Store(&words) }

func (r *refusing) Write(p []byte) (int, error) {
	for _, w := range *r.words.Load() {
		if bytes.Contains(p, []byte(w)) {
			return 0, errors.New("refused")
		}
	}
	return len(p), nil
}

// A failing file is not synced to the disk: neither while its lines fail, nor
// while the record of the loss does.
func TestNotForcedWhileItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &refusing{}
		r.refuse("line", "gap")
		c := &counted{Output: fswrite.NewStream(r)}
		s, err := fswrite.New(c, fswrite.Options{Format: words{}, Hold: 3 << 10})
		if err != nil {
			t.Fatal(err)
		}
		feed(s, 0, 3)
		for _, words := range [][]string{{"line", "gap"}, {"gap"}} {
			r.refuse(words...)
			if err := s.Flush(t.Context(), true); err == nil || s.Err() == nil || c.syncs != 0 {
				t.Errorf("%v refused: Flush() = %v, Err() = %v, %d syncs; want errors and 0", words, err, s.Err(), c.syncs)
			}
			feed(s, 3, 100) // more than it holds: lines are lost
			synctest.Wait()
		}
		r.refuse()
		if err := s.Flush(t.Context(), true); err != nil || s.Err() != nil || c.syncs != 1 {
			t.Errorf("after the repair: Flush() = %v, Err() = %v, %d syncs; want nil, nil, 1", err, s.Err(), c.syncs)
		}
		_ = s.Close(t.Context()) // lines were lost
	})
}

// TestSlow writes to an output that needs 100 ms for every 64 KiB: it blocks
// the writer, loses nothing and keeps little in memory.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{pause: 100 * time.Millisecond}
		s, err := fswrite.New(fswrite.NewStream(g), fswrite.Options{Format: words{}})
		if err != nil {
			t.Fatal(err)
		}
		most := 0
		for i := range 4000 {
			if !s.Admit(1) {
				t.Fatal("a line was refused")
			}
			s.Put(line(i), 1, 0)
			most = max(most, s.Stats().Held)
		}
		if most > 300<<10 {
			t.Errorf("%d bytes waited, want at most %d", most, 300<<10)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if lines, gaps := sums(g.text()); lines != 4000 || gaps != 0 || s.Stats().Outages != 0 {
			t.Errorf("%d lines, %d in gaps, stats %+v; want 4000, 0, no outage", lines, gaps, s.Stats())
		}
	})
}

// A busy machine may resume an operation and those who wait for it at the same
// moment, however late: that is not a stall.
func TestLateResumeIsNotAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{pause: fswrite.StallAfter}
		s, err := fswrite.New(fswrite.NewStream(g), fswrite.Options{Hold: 4 << 10})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			if refused := feed(s, 2*i, 2); refused > 0 {
				t.Errorf("%d lines are refused, want none", refused)
			}
			if err := s.Flush(t.Context(), false); err != nil {
				t.Fatalf("flush %d: %v", i, err)
			}
		}
		if err := s.Close(t.Context()); err != nil || s.Stats().Outages != 0 {
			t.Errorf("Close() = %v, stats %+v; want no outage", err, s.Stats())
		}
	})
}

// With a negative Wait no line is refused.
func TestWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, shut := &gate{}, make(chan struct{})
		s, err := fswrite.New(fswrite.NewStream(g), fswrite.Options{Format: words{}, Hold: 1 << 20, Wait: -1})
		if err != nil {
			t.Fatal(err)
		}
		g.set(func(g *gate) { g.shut = shut })
		time.AfterFunc(time.Hour, func() { g.set(func(g *gate) { g.shut = nil }); close(shut) })
		start := time.Now()
		if refused := feed(s, 0, 3000); refused > 0 || time.Since(start) < time.Hour {
			t.Errorf("%d refused after %v, want 0 after an hour or more", refused, time.Since(start))
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if lines, _ := sums(g.text()); lines != 3000 {
			t.Errorf("%d lines, want 3000", lines)
		}
	})
}

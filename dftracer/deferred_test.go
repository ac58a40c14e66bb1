package dftracer_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// content is a dftracer.Content with fixed arguments.
type content struct {
	key  *dftracer.Key
	text []byte
	args []dftracer.Arg
	made *atomic.Int64 // counts calls; nil for none
}

func (c content) AppendArgs(text []byte, args []dftracer.Arg) (*dftracer.Key, []byte, []dftracer.Arg) {
	if c.made != nil {
		c.made.Add(1)
	}
	return c.key, append(text, c.text...), append(args, c.args...)
}

// scanForward calls do with each event "forward" of a file.
func scanForward(t *testing.T, path string, do func(*dftracer.Event)) {
	t.Helper()
	_, err := dftracer.Scan(path, nil, func(ev *dftracer.Event) error {
		if ev.Name == "forward" {
			do(ev)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Lines of a lane have the order of the calls, whichever way they are written.
func TestDeferredOrder(t *testing.T) {
	key := dftracer.NewKey("compute", "forward")
	for name, o := range map[string]dftracer.Options{
		"members":      {},
		"small blocks": {MemberSize: 700},
		"plain":        {Compression: dftracer.CompressNone},
		"single":       {Compression: dftracer.CompressSingle},
		"pool":         {Pool: dftracer.NewPool()},
	} {
		path := t.TempDir() + "/trace.pfw.gz"
		w, err := dftracer.Create(path, &o)
		if err != nil {
			t.Fatal(err)
		}
		const n = 3000
		for i := range int64(n) {
			s := dftracer.Span{TID: 4, TS: 1744611912990000 + i, Level: 1, Parent: dftracer.NoParent}
			switch i % 3 {
			case 0:
				w.WriteDeferred(s, 0, content{key: &key, args: []dftracer.Arg{dftracer.Int("i", i)}})
			case 1:
				w.WriteComplete(&key, s, dftracer.Int("i", i))
			default:
				w.WriteDeferred(s, 300, content{key: &key, text: fmt.Appendf(nil, `,"i":%d`, i)})
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		next := int64(0)
		scanForward(t, w.Path(), func(ev *dftracer.Event) {
			if got := ev.TS - 1744611912990000; got != next {
				t.Fatalf("%s: line %d is of call %d", name, next, got)
			}
			next++
		})
		if next != n {
			t.Errorf("%s: %d lines of spans, want %d", name, next, n)
		}
	}
}

// A deferred span keeps its content in memory until the buffer is passed on: their sizes
// are bounded, and none is kept after a flush.
func TestDeferredMemory(t *testing.T) {
	key := dftracer.NewKey("compute", "forward")
	w, err := dftracer.NewWriter(io.Discard, &dftracer.Options{FlushInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var made atomic.Int64
	big := content{key: &key, text: []byte(`,"text":"` + strings.Repeat("x", 9000) + `"`), made: &made}
	for range 500 {
		w.WriteDeferred(dftracer.Span{TID: 4, TS: 1744611912990000}, 1<<20, big)
		if got := w.Stats().Buffered; got > 2<<20 {
			t.Fatalf("%d bytes wait, want at most one span of 1 MiB and the lines before it", got)
		}
	}
	w.WriteDeferred(dftracer.Span{TID: 4, TS: 1744611912990000}, 0, big)
	if err := w.FlushContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := made.Load(); got != 501 {
		t.Errorf("%d contents were read by the end of a flush, want 501", got)
	}
	if got := w.Stats().Buffered; got != 0 {
		t.Errorf("%d bytes wait after a flush, want 0", got)
	}
	if n := testing.AllocsPerRun(5000, func() {
		w.WriteDeferred(dftracer.Span{ID: 1, TID: 4, TS: 1744611912990000}, 0, &big)
	}); n != 0 {
		t.Errorf("WriteDeferred: %v allocations, want 0", n)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.WriteDeferred(dftracer.Span{TID: 4}, 0, big)
	if got := w.Stats().Late; got != 1 {
		t.Errorf("%d events after Close, want 1", got)
	}
	(*dftracer.Writer)(nil).WriteDeferred(dftracer.Span{}, 0, big)
}

// Concurrent callers, flushes and Close lose and repeat nothing.
func TestDeferredConcurrent(t *testing.T) {
	key := dftracer.NewKey("compute", "forward")
	path := t.TempDir() + "/trace.pfw.gz"
	w, err := dftracer.Create(path, &dftracer.Options{FlushInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	const callers, each = 8, 2000
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				w.WriteDeferred(dftracer.Span{TID: int64(c), TS: 1744611912990000 + int64(i)}, 0, content{key: &key, args: []dftracer.Arg{dftracer.Int("i", int64(i))}})
				if i%500 == 0 {
					_ = w.FlushContext(context.Background())
				}
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	seen := map[[2]int64]int{}
	scanForward(t, path, func(ev *dftracer.Event) { seen[[2]int64{ev.TID, ev.TS}]++ })
	if len(seen) != callers*each {
		t.Errorf("%d different spans, want %d", len(seen), callers*each)
	}
	for k, n := range seen {
		if n != 1 {
			t.Fatalf("span %v: %d times, want once", k, n)
		}
	}
}

package otlpreceiver

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// sent returns a request with a span of each resource; no resource has a
// process id.
func sent(services int) (list []*tracepb.ResourceSpans) {
	for i := range services {
		id := []byte{1, 2, 3, 4, 5, 6, 7, byte(i + 1)}
		list = append(list, &tracepb.ResourceSpans{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{
			{TraceId: append(id, id...), SpanId: id, Name: "n", StartTimeUnixNano: 1_700_000_000_000_000_000, EndTimeUnixNano: 1_700_000_000_000_001_000},
		}}}})
	}
	return list
}

// The sender of a request is looked up once, not for each resource; if its
// process cannot be found, it is not looked up.
func TestSenderIsAskedForOnce(t *testing.T) {
	for _, from := range []net.Addr{nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4}} {
		asked := 0
		f := NewFiles(&FilesOptions{Dir: t.TempDir(), PID: func(net.Addr) int { asked++; return 0 }})
		if err := f.Take(t.Context(), batch(t, sent(3), from)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := 0
		if from != nil {
			want = 1
		}
		if asked != want {
			t.Errorf("%v: it was asked for %d times, want %d", from, asked, want)
		}
	}
}

// Close waits for periodic work in progress, and later calls are refused.
func TestCloseOfFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFiles(&FilesOptions{Dir: t.TempDir()})
		busy, closed := make(chan struct{}), false
		f.ticking.Go(func() { <-busy })
		go func() {
			if err := f.Close(t.Context()); err != nil {
				t.Error(err)
			}
			closed = true
		}()
		synctest.Wait()
		if closed {
			t.Error("the file was closed during the write, want it open")
		}
		close(busy)
		synctest.Wait()
		if !closed {
			t.Error("the file was not closed after the write")
		}
		if err := f.Take(t.Context(), batch(t, sent(2), nil)); err == nil || f.Stats().Spans != 0 {
			t.Errorf("Take() = %v, want an error and no span", err)
		}
	})
}

// If the file of a process cannot be made, its spans are asked for again if the cause may
// pass. Otherwise they are rejected, and the other spans of the request are not.
func TestFileCannotBeMade(t *testing.T) {
	for _, c := range []struct {
		cause    error
		later    bool
		rejected int64
	}{
		{syscall.ENOSPC, true, 0}, {syscall.EMFILE, true, 0}, {syscall.EACCES, false, 5}, {errors.New("another"), false, 5},
	} {
		t.Run(c.cause.Error(), func(t *testing.T) {
			var log bytes.Buffer
			dir, full := t.TempDir(), true
			f := NewFiles(&FilesOptions{Dir: dir, Journal: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			f.open = func(path string, o *dftracer.Options) (*dftracer.Writer, error) {
				if full && strings.Contains(path, "-8.pfw") {
					return nil, &fs.PathError{Op: "open", Path: path, Err: c.cause}
				}
				return place.Create(path, o)
			}
			r := &Receiver{sink: f.Take, rate: rate{perSecond: 1e6, tokens: 1e6}}
			body := batch(t, slices.Concat(numbered(7, 1, 11, flat), numbered(8, 11, 16, flat), numbered(9, 16, 21, flat)), nil)
			for range 3 {
				answer, err := r.take(t.Context(), body)
				if got := answer.GetPartialSuccess().GetRejectedSpans(); errors.Is(err, errUnsaved) != c.later || got != c.rejected {
					t.Errorf("take() = %v, %v; want to be asked again: %v, %d rejected", answer, err, c.later, c.rejected)
				}
			}
			if n := strings.Count(log.String(), "cannot make a trace file"); n != 1 {
				t.Errorf("the log has the cause %d times, want once: %s", n, log.String())
			}
			full = false
			if answer, err := r.take(t.Context(), body); err != nil || answer.GetPartialSuccess() != nil {
				t.Errorf("take() = %v, %v when there is room; want all spans taken", answer, err)
			}
			if err := f.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			once(t, counted(t, dir), 20)
		})
	}
}

// A panic while a gRPC request is read ends the request, not the process.
func TestPanicInGRPC(t *testing.T) {
	var log bytes.Buffer
	r := &Receiver{o: Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	answer, err := export(grpcService{r}, t.Context(), func(any) error { panic("a bad number") }, nil)
	if answer != nil || status.Code(err) != codes.Internal || r.Stats().Refused != 1 || !strings.Contains(log.String(), "a bad number") {
		t.Errorf("export() = %v, %v; counts %+v, log %q; want the status Internal, 1 refused, logged", answer, err, r.Stats(), log.String())
	}
}

// A receiver reports an unexpected end, and only that.
func TestEndOfAReceiver(t *testing.T) {
	for _, asked := range []bool{true, false} {
		var log bytes.Buffer
		r, err := Listen(func(context.Context, *Batch) error { return nil }, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if !asked {
			if err := r.listen.Close(); err != nil {
				t.Error(err)
			}
			<-r.served
		}
		_ = r.Shutdown(t.Context()) // returns an error if it is closed already
		if told := strings.Contains(log.String(), "has ended"); told == asked {
			t.Errorf(`Shutdown was called: %v, log %q; want "has ended" only if it was not`, asked, log.String())
		}
	}
}

// A span is a root if its sender sets no parent, a zero parent, or one of
// another process.
func TestParentOfASpan(t *testing.T) {
	const says, remote = uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK), uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	dir := t.TempDir()
	f := NewFiles(&FilesOptions{Dir: dir})
	request := sent(1)
	above := request[0].ScopeSpans[0].Spans[0]
	above.Name = "above"
	want := map[string]bool{"above": false}
	for i, c := range []struct {
		name   string
		parent []byte
		flags  uint32
		below  bool
	}{
		{"none", nil, 0, false}, {"zeros", make([]byte, 8), says, false}, {"remote", above.SpanId, says | remote, false},
		{"local", above.SpanId, says, true}, {"not said", above.SpanId, 0, true}, {"a flag that means nothing", above.SpanId, remote, true},
	} {
		id := []byte{9, 9, 9, 9, 9, 9, 9, byte(i)}
		request[0].ScopeSpans[0].Spans = append(request[0].ScopeSpans[0].Spans, &tracepb.Span{
			TraceId: above.TraceId, SpanId: id, ParentSpanId: c.parent, Flags: c.flags, Name: c.name,
			StartTimeUnixNano: above.StartTimeUnixNano, EndTimeUnixNano: above.EndTimeUnixNano,
		})
		want[c.name] = c.below
	}
	if err := errors.Join(f.Take(t.Context(), batch(t, request, nil)), f.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(paths) != 1 {
		t.Fatalf("files %q, want one", paths)
	}
	dftest.Check(t, paths[0])
	events := map[string]dftracer.Event{}
	for _, ev := range dftest.Events(t, paths[0]) {
		if ev.Phase == dftracer.PhaseComplete && ev.Cat != dftracer.CatDFTracer {
			events[ev.Name] = ev
		}
	}
	if len(events) != len(want) {
		t.Errorf("%d spans, want %d: %v", len(events), len(want), events)
	}
	for name, below := range want {
		parent := dftracer.NoParent
		if below {
			parent = int64(events["above"].ID)
		}
		if ev := events[name]; ev.Parent != parent {
			t.Errorf("%s is below %d, want %d", name, ev.Parent, parent)
		}
	}
}

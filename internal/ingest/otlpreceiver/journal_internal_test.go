package otlpreceiver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/otlpspan"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// numbered returns spans from..to-1 of a process, with their numbers as names.
// parent returns the number of a span's parent, 0 for none.
func numbered(pid, from, to int, parent func(int) int) []*tracepb.ResourceSpans {
	var list []*tracepb.Span
	for n := from; n < to; n++ {
		at := uint64(1_700_000_000_000_000_000 + 1000_000*n)
		s := &tracepb.Span{TraceId: bytes.Repeat([]byte{1}, 16), SpanId: spanID(n), Name: fmt.Sprintf("n%d", n), StartTimeUnixNano: at, EndTimeUnixNano: at + 900_000}
		if p := parent(n); p != 0 {
			s.ParentSpanId = spanID(p)
		}
		list = append(list, s)
	}
	res := &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
		{Key: "process.pid", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(pid)}}},
	}}
	return []*tracepb.ResourceSpans{{Resource: res, ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "x"}, Spans: list}}}}
}

func spanID(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func flat(int) int { return 0 }

// journaled returns Files with a journal. The ticker does not run: the test
// makes each step.
func journaled(t *testing.T, dir string) *Files {
	t.Helper()
	f := NewFiles(&FilesOptions{Dir: dir, Journal: true, SessionTag: "job", Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = f.Close(context.Background()) })
	return f
}

func deliver(t *testing.T, f *Files, spans []*tracepb.ResourceSpans) {
	t.Helper()
	if err := f.Take(t.Context(), batch(t, spans, nil)); err != nil {
		t.Fatal(err)
	}
}

// batch returns a batch with spans.
func batch(t testing.TB, spans []*tracepb.ResourceSpans, from net.Addr) *Batch {
	t.Helper()
	body, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: spans})
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewBatch(body, from)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// killed copies the files of a directory, as a kill of its writer would leave
// them: what gets into a file after its journal was copied was acknowledged
// later.
func killed(t *testing.T, dir string) (left string) {
	t.Helper()
	left = t.TempDir()
	for _, pattern := range []string{"*.journal", "*.pfw.gz"} {
		paths, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(filepath.Join(left, filepath.Base(path)), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return left
}

// replayed replays the journals in a directory.
func replayed(t *testing.T, dir string) ReplayStats {
	t.Helper()
	left, busy := FindJournals(dir)
	var paths []string
	for _, j := range left {
		paths = append(paths, j.Path)
	}
	st, err := Replay(t.Context(), paths, &ReplayOptions{Logger: slog.New(slog.DiscardHandler)})
	if err != nil || len(busy) > 0 {
		t.Fatalf("Replay() = %v, in use %v; want no error and no file in use", err, busy)
	}
	return st
}

// counted returns the number of spans in a directory's traces by name, without
// unfinished ones.
func counted(t *testing.T, dir string) map[string]int {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(dir, "*.pfw.gz"))
	n := make(map[string]int)
	for _, path := range paths {
		_, err := dftracer.Scan(path, nil, func(ev *dftracer.Event) error {
			if _, open := ev.Arg("truncated"); ev.Phase == dftracer.PhaseComplete && strings.HasPrefix(ev.Name, "n") && !open {
				n[ev.Name]++
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	return n
}

// once reports the spans 1..n that do not exist exactly once.
func once(t *testing.T, n map[string]int, spans int) {
	t.Helper()
	lost, doubled := 0, 0
	for i := 1; i <= spans; i++ {
		switch c := n[fmt.Sprintf("n%d", i)]; {
		case c == 0:
			lost++
		case c > 1:
			doubled++
		}
	}
	if lost > 0 || doubled > 0 || len(n) != spans {
		t.Errorf("of %d spans %d are lost and %d doubled, %d names are there; want each once", spans, lost, doubled, len(n))
	}
}

// A receiver that is killed at any point loses nothing that it acknowledged,
// and a replay writes nothing twice.
func TestReplay(t *testing.T) {
	later := func(f *Files) { f.store.Tick(context.Background(), time.Now().Add(time.Hour)) }
	flush := func(t *testing.T, f *Files) {
		t.Helper()
		if !f.store.Settle(t.Context(), time.Now()) {
			t.Fatal("the files are still changing")
		}
	}
	for name, c := range map[string]struct {
		do            func(t *testing.T, f *Files)
		spans, placed int64 // spans that the replay adds, and that it finds
	}{
		"nothing is in the files": {func(t *testing.T, f *Files) {
			deliver(t, f, numbered(7, 1, 101, flat))
		}, 100, 0},
		"all is in the files": {func(t *testing.T, f *Files) {
			deliver(t, f, numbered(7, 1, 101, flat))
			later(f)
			flush(t, f)
		}, 0, 100},
		"a part is in the files": {func(t *testing.T, f *Files) {
			deliver(t, f, numbered(7, 1, 61, flat))
			later(f)
			flush(t, f)
			deliver(t, f, numbered(7, 61, 101, flat))
		}, 40, 60},
		"a part is in the files, and was sent again": {func(t *testing.T, f *Files) {
			deliver(t, f, numbered(7, 1, 61, flat))
			later(f)
			flush(t, f)
			deliver(t, f, numbered(7, 31, 101, flat))
		}, 40, 90},
		"what waits was sent again": {func(t *testing.T, f *Files) {
			deliver(t, f, numbered(7, 1, 61, flat))
			deliver(t, f, numbered(7, 1, 101, flat))
		}, 100, 60},
		"children are in the files before their parents": {func(t *testing.T, f *Files) {
			for n := 1; n < 101; n += 10 {
				deliver(t, f, numbered(7, n, n+9, func(int) int { return n + 9 }))
				later(f)
				flush(t, f)
				deliver(t, f, numbered(7, n+9, n+10, flat))
			}
		}, 1, 99},
		"the files of several processes": {func(t *testing.T, f *Files) {
			for n := 1; n < 101; n += 10 {
				deliver(t, f, numbered(n, n, n+10, flat))
				if n == 41 {
					later(f)
					flush(t, f)
				}
			}
		}, 50, 50},
		"the journal was emptied meanwhile": {func(t *testing.T, f *Files) {
			deliver(t, f, numbered(7, 1, 61, flat))
			later(f)
			f.journal.tick(time.Now().Add(segmentAge), func(time.Time) bool { return f.store.Settle(t.Context(), time.Now()) })
			deliver(t, f, numbered(7, 61, 101, flat))
		}, 40, 0},
		"a file was put aside": {func(t *testing.T, f *Files) {
			deliver(t, f, numbered(7, 1, 61, flat))
			f.store.Tick(t.Context(), time.Now().Add(time.Hour)) // its process is silent
			deliver(t, f, numbered(7, 61, 101, flat))
		}, 40, 60},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := journaled(t, dir)
			c.do(t, f)
			left := killed(t, dir)
			st := replayed(t, left)
			if st.Spans != c.spans || st.Placed != c.placed || st.Damaged != 0 {
				t.Errorf("Replay = %+v, want %d spans and %d that were in the files", st, c.spans, c.placed)
			}
			once(t, counted(t, left), 100)
			if j, _ := filepath.Glob(filepath.Join(left, "*.journal")); len(j) > 0 {
				t.Errorf("%v are left, want none", j)
			}
			paths, _ := filepath.Glob(filepath.Join(left, "*.1.pfw.gz"))
			for _, path := range paths {
				dftest.Check(t, path)
			}
			if err := f.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			once(t, counted(t, dir), 100) // in the directory that was not killed
			if j, _ := filepath.Glob(filepath.Join(dir, "*.journal")); len(j) > 0 {
				t.Errorf("%v are left at the end, want none", j)
			}
		})
	}
}

// A killed replay can be repeated, and adds nothing twice: its own journal has
// what it has written, beside the one that it reads.
func TestReplayIsKilled(t *testing.T) {
	dir := t.TempDir()
	deliver(t, journaled(t, dir), numbered(7, 1, 101, flat))
	left := killed(t, dir)
	f := newFiles(&FilesOptions{Dir: left, Journal: true, SessionTag: "job", Logger: slog.New(slog.DiscardHandler), replay: true}, identity.HostName())
	t.Cleanup(func() { _ = f.Close(context.Background()) })
	deliver(t, f, numbered(7, 1, 51, flat))
	f.store.Tick(t.Context(), time.Now().Add(time.Hour))
	f.journal.tick(time.Now().Add(segmentAge), func(time.Time) bool { return f.store.Settle(t.Context(), time.Now()) })
	deliver(t, f, numbered(7, 51, 81, flat))
	again := killed(t, left)
	if st := replayed(t, again); st.Spans != 50 {
		t.Errorf("Replay = %+v, want 50 spans", st)
	}
	once(t, counted(t, again), 100)
}

// failing is a context that fails after some calls of Err, once or for good.
type failing struct {
	context.Context //nolint:containedctx // it is one
	left            *atomic.Int64
	once            bool
}

func (c failing) Err() error {
	if left := c.left.Add(-1); left == -1 || left < 0 && !c.once {
		return context.Canceled
	}
	return nil
}

// A replay that fails can be repeated, into the folder of the journals and into another
// one: it loses nothing and adds nothing twice.
func TestReplayFails(t *testing.T) {
	dir := t.TempDir()
	f := journaled(t, dir)
	list := numbered(7, 1, 11, flat)
	for _, s := range list[0].GetScopeSpans()[0].GetSpans() { // the file gets the spans without their events
		s.Events = append(s.Events, &tracepb.Span_Event{Name: "lost" + s.GetName(), TimeUnixNano: s.GetStartTimeUnixNano()})
	}
	deliver(t, f, list)
	f.store.Tick(t.Context(), time.Now().Add(time.Hour))
	deliver(t, f, numbered(7, 11, 21, flat))
	deliver(t, f, numbered(8, 21, 31, flat))
	g := journaled(t, dir) // the journal has two files
	deliver(t, g, numbered(7, 31, 41, flat))
	deliver(t, g, numbered(9, 41, 51, flat))
	dir = killed(t, dir)
	first, _ := filepath.Glob(filepath.Join(dir, "*-7.pfw.gz"))
	without(t, strings.Join(first, ""), `"lostn`)
	for _, elsewhere := range []bool{false, true} {
		for _, once := range []bool{false, true} {
			failed := true
			for calls := int64(0); failed; calls++ {
				t.Run(fmt.Sprintf("elsewhere %v once %v calls %d", elsewhere, once, calls), func(t *testing.T) { failed = replayTwice(t, killed(t, dir), elsewhere, once, calls) })
			}
		}
	}
}

// replayTwice replays after a replay that failed, and reports whether it did.
func replayTwice(t *testing.T, dir string, elsewhere, flaky bool, calls int64) bool {
	o := &ReplayOptions{Logger: slog.New(slog.DiscardHandler)}
	dirs := []string{dir}
	if elsewhere {
		o.Out = t.TempDir()
		dirs = append(dirs, o.Out)
	}
	replay := func(ctx context.Context) error {
		left, _ := FindJournals(dir)
		var paths []string
		for _, j := range left {
			paths = append(paths, j.Path)
		}
		_, err := Replay(ctx, paths, o)
		return err
	}
	ctx := failing{t.Context(), new(atomic.Int64), flaky}
	ctx.left.Store(calls)
	failed := replay(ctx)
	if failed != nil && !errors.Is(failed, context.Canceled) {
		t.Fatal(failed)
	}
	if err := replay(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans, events := make(map[string]int), make(map[string]int)
	for _, dir := range dirs {
		for name, n := range counted(t, dir) {
			spans[name] += n
		}
		for name, n := range eventsIn(t, dir) {
			events[name] += n
		}
		if j, _ := filepath.Glob(filepath.Join(dir, "*.journal")); len(j) > 0 {
			t.Errorf("%v are left, want none", j)
		}
	}
	once(t, spans, 50)
	want := make(map[string]int)
	for n := range 10 {
		want[fmt.Sprintf("lostn%d", n+1)] = 1
	}
	if !maps.Equal(events, want) {
		t.Errorf("the events are %v, want each of the first ten spans once", events)
	}
	return failed != nil
}

// Events are in the file as separate records beside the record of their span:
// if only the span's record was written, a replay adds them.
func TestReplayOfEvents(t *testing.T) {
	dir := t.TempDir()
	f := journaled(t, dir)
	list := numbered(7, 1, 2, flat)
	s := list[0].GetScopeSpans()[0].GetSpans()[0]
	for i := range 3 {
		s.Events = append(s.Events, &tracepb.Span_Event{Name: fmt.Sprintf("e%d", i), TimeUnixNano: s.StartTimeUnixNano + uint64(i)*1000})
	}
	deliver(t, f, list)
	f.store.Tick(t.Context(), time.Now().Add(time.Hour))
	left := killed(t, dir)
	path := filepath.Join(left, fileNameOf(t, left))
	without(t, path, `"e1"`)
	st := replayed(t, left)
	if st.Spans != 0 || st.Placed != 1 {
		t.Errorf("Replay() = %+v, want 1 placed event, no span", st)
	}
	if n, want := eventsIn(t, left), map[string]int{"e0": 1, "e1": 1, "e2": 1}; !maps.Equal(n, want) {
		t.Errorf("the events are %v, want %v", n, want)
	}
}

// eventsIn returns the number of events in a directory's traces by name.
func eventsIn(t *testing.T, dir string) map[string]int {
	t.Helper()
	n := make(map[string]int)
	paths, _ := filepath.Glob(filepath.Join(dir, "*.pfw.gz"))
	for _, path := range paths {
		_, err := dftracer.Scan(path, nil, func(ev *dftracer.Event) error {
			name, _ := ev.Arg("name")
			if _, of := ev.Arg("span"); of && ev.Name == tracefile.NameCustom {
				n[name.Text()]++
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	return n
}

func fileNameOf(t *testing.T, dir string) string {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(dir, "*.pfw.gz"))
	if len(paths) != 1 {
		t.Fatalf("the files are %v, want one", paths)
	}
	return filepath.Base(paths[0])
}

// without removes the lines with a text from a trace.
func without(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	z, err := fsread.Text(bufio.NewReader(f))
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(z)
	if err != nil && !fsread.Torn(err) {
		t.Fatal(err)
	}
	var keep []byte
	for line := range bytes.Lines(all) {
		if !bytes.Contains(line, []byte(text)) {
			keep = append(keep, line...)
		}
	}
	if len(keep) == len(all) {
		t.Fatalf("no line of %s has %s, want one to take away", path, text)
	}
	if err := os.WriteFile(path, keep, 0o600); err != nil { // plain text is read as well
		t.Fatal(err)
	}
}

// Damage costs only the damaged entries, and their bytes are counted. A
// truncated entry was not acknowledged.
func TestDamagedJournal(t *testing.T) {
	dir := t.TempDir()
	f := journaled(t, dir)
	for n := 1; n < 101; n += 10 {
		deliver(t, f, numbered(7, n, n+10, flat))
	}
	path := filepath.Join(killed(t, dir), "otlp.0.journal")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var starts []int // of entries, the header first
	for at := 0; ; {
		i := bytes.Index(whole[at:], entryMagic)
		if i < 0 {
			break
		}
		starts = append(starts, at+i)
		at += i + 1
	}
	if len(starts) != 11 {
		t.Fatalf("%d entries, want 11", len(starts))
	}
	edit := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(whole)) }
	entry := int64(starts[6] - starts[5])
	for name, c := range map[string]struct {
		text    []byte
		spans   int64
		damaged int64
	}{
		"whole":                        {whole, 100, 0},
		"the last entry is cut off":    {whole[:len(whole)-3], 90, 0},
		"its head is":                  {whole[:starts[10]+5], 90, 0},
		"its first byte is all":        {whole[:starts[10]+1], 90, 0},
		"a bit of an entry":            {edit(func(b []byte) []byte { b[starts[5]+40] ^= 1; return b }), 90, entry},
		"a bit of a size":              {edit(func(b []byte) []byte { b[starts[5]+4] ^= 1; return b }), 90, entry},
		"a size that is far too large": {edit(func(b []byte) []byte { b[starts[5]+7] = 0xff; return b }), 90, entry},
		"a bit of the last entry":      {edit(func(b []byte) []byte { b[starts[10]+40] ^= 1; return b }), 90, int64(len(whole) - starts[10])},
		"a bit of the header":          {edit(func(b []byte) []byte { b[20] ^= 1; return b }), 100, int64(starts[1])},
		"zeros behind it":              {append(bytes.Clone(whole), make([]byte, 100)...), 100, 100},
		"another file behind it":       {append(bytes.Clone(whole), "text"...), 100, 4},
		"nothing":                      {nil, 0, 0},
		"only its name":                {[]byte("no journal at all"), 0, 17},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "otlp.0.journal")
			if err := os.WriteFile(path, c.text, 0o600); err != nil {
				t.Fatal(err)
			}
			st := replayed(t, dir)
			if st.Spans != c.spans || st.Damaged != c.damaged {
				t.Errorf("Replay = %+v, want %d spans and %d damaged bytes", st, c.spans, c.damaged)
			}
		})
	}
}

// faulty is a journal file that accepts a limited number of bytes.
type faulty struct {
	*os.File
	room *int
	cut  bool // it can be truncated
}

func (f *faulty) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p[:min(len(p), max(*f.room, 0))], at)
	if *f.room -= n; err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

func (f *faulty) Truncate(size int64) error {
	if !f.cut {
		return syscall.EIO
	}
	return f.File.Truncate(size)
}

// If a journal cannot be written, spans are refused and sent again, with each
// protocol. When it works again they are accepted, and each is in the files
// once.
func TestJournalThatFails(t *testing.T) {
	for name, cut := range map[string]bool{"what was written of an entry is taken back": true, "it stays": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := journaled(t, dir)
			room := 0
			f.journal.create = func(path string) (segmentFile, error) {
				file, err := os.Create(path)
				return &faulty{file, &room, cut}, err
			}
			r, err := Listen(f.Take, &Options{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Shutdown(context.Background()) //nolint:errcheck // it ends with the test
			conn, err := grpc.NewClient(r.listen.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close() //nolint:errcheck // as above
			post := func(n int) *http.Response {
				body, _ := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: numbered(7, n, n+10, flat)})
				req := httptest.NewRequest(http.MethodPost, "http://localhost"+Path, bytes.NewReader(body))
				req.Header.Set("Content-Type", mediaProtobuf)
				w := httptest.NewRecorder()
				r.ServeHTTP(w, req)
				return w.Result()
			}
			call := func(n int) error {
				_, err := collectorpb.NewTraceServiceClient(conn).Export(t.Context(), &collectorpb.ExportTraceServiceRequest{ResourceSpans: numbered(7, n, n+10, flat)})
				return err
			}
			for _, room = range []int{0, 50, 300} {
				if a := post(1); a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
					t.Errorf("HTTP: %d, Retry-After %q; want 503 with one", a.StatusCode, a.Header.Get("Retry-After"))
				}
			}
			room = 0
			if s := status.Convert(call(11)); s.Code() != codes.Unavailable || len(s.Details()) != 1 {
				t.Errorf("gRPC: %v, %v; want Unavailable with a detail", s.Code(), s.Details())
			}
			room = 1 << 20
			for n := 1; n < 101; n += 20 {
				if a := post(n); a.StatusCode != http.StatusOK {
					t.Errorf("HTTP: %d when there is room, want %d", a.StatusCode, http.StatusOK)
				}
				if err := call(n + 10); err != nil {
					t.Errorf("gRPC: %v when there is room", err)
				}
			}
			left := killed(t, dir)
			if st := replayed(t, left); st.Spans != 100 {
				t.Errorf("Replay = %+v, want 100 spans", st)
			}
			once(t, counted(t, left), 100)
			if err := f.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			once(t, counted(t, dir), 100)
		})
	}
}

// Neither a disk that takes nothing nor a foreign file blocks senders.
func TestInvalidJournal(t *testing.T) {
	stuck := make(chan struct{})
	defer close(stuck)
	for name, create := range map[string]func(string) (segmentFile, error){
		"permission": func(path string) (segmentFile, error) {
			return nil, &os.PathError{Op: "open", Path: path, Err: syscall.EACCES}
		},
		"a stall": func(string) (segmentFile, error) { return &stalled{until: stuck}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFiles(&FilesOptions{Dir: t.TempDir(), Journal: true, Logger: slog.New(slog.DiscardHandler)})
			f.journal.create = create
			for range 2 {
				if err := f.Take(t.Context(), batch(t, numbered(7, 1, 11, flat), &net.TCPAddr{})); !errors.Is(err, ErrUnsaved) || !errors.Is(err, ErrLater) {
					t.Errorf("Take = %v, want ErrUnsaved", err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if name == "a stall" {
				time.AfterFunc(0, cancel) // the write is waited for until then
			}
			_ = f.Close(ctx)
		})
	}
}

// stalled is a file that takes nothing.
type stalled struct{ until chan struct{} }

func (s *stalled) WriteAt([]byte, int64) (int, error) { <-s.until; return 0, io.ErrClosedPipe }
func (*stalled) Truncate(int64) error                 { return nil }
func (*stalled) Close() error                         { return nil }

// The size of a journal is bounded. Spans in the files make room, and until
// then senders are asked to retry later.
func TestSizeOfAJournal(t *testing.T) {
	dir := t.TempDir()
	f := NewFiles(&FilesOptions{Dir: dir, Journal: true, MaxJournal: 20_000, Logger: slog.New(slog.DiscardHandler)})
	defer f.Close(t.Context()) //nolint:errcheck // it ends with the test
	refused := 0
	for n := 1; n < 1001; n += 10 {
		err := f.Take(t.Context(), batch(t, numbered(7, n, n+10, flat), nil))
		for errors.Is(err, ErrLater) {
			refused++
			f.store.Tick(t.Context(), time.Now().Add(orderWindow))
			f.journal.tick(time.Now().Add(segmentAge), func(at time.Time) bool { return f.store.Settle(t.Context(), at) })
			err = f.Take(t.Context(), batch(t, numbered(7, n, n+10, flat), nil))
		}
		if err != nil {
			t.Fatal(err)
		}
		paths, _ := filepath.Glob(filepath.Join(dir, "*.journal"))
		size := int64(0)
		for _, path := range paths {
			if info, err := os.Stat(path); err == nil {
				size += info.Size()
			}
		}
		if size > 20_000 {
			t.Fatalf("the journal takes %d bytes of 20,000, want at most 20,000", size)
		}
	}
	if refused == 0 {
		t.Error("the journal never reached its limit")
	}
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	once(t, counted(t, dir), 1000)
}

// A journal that is being written is not replayed, and foreign files are not
// changed.
func TestJournalInUse(t *testing.T) {
	dir := t.TempDir()
	f := journaled(t, dir)
	deliver(t, f, numbered(7, 1, 11, flat))
	other := filepath.Join(dir, "otlp.x.journal")
	if err := os.WriteFile(other, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "otlp.0.journal")
	if left, busy := FindJournals(dir); len(left) != 0 || !slices.Equal(busy, []string{path}) {
		t.Errorf("FindJournals = %v, %v; want %v in use", left, busy, path)
	}
	if _, err := Replay(t.Context(), []string{path}, &ReplayOptions{}); !errors.Is(err, ErrInUse) {
		t.Errorf("Replay = %v, want ErrInUse", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 != 0o044 {
		t.Errorf("%v, %v; want 0644", info.Mode(), err)
	}
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// TestCloseWithoutTime checks that Close does not leave journals in use if its time has
// ended before.
func TestCloseWithoutTime(t *testing.T) {
	for range 8 {
		dir := t.TempDir()
		f := journaled(t, dir)
		deliver(t, f, numbered(7, 1, 100, flat))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = f.Close(ctx) // the trace may be incomplete
		if _, busy := FindJournals(dir); len(busy) != 0 {
			t.Fatalf("in use after Close: %v, want none", busy)
		}
		left := killed(t, dir)
		replayed(t, left)
		once(t, counted(t, left), 99)
	}
}

// A segment is kept if a line was lost while the spans of one of its entries were taken,
// also if another entry was written before.
func TestLineLostWhileSpansAreTaken(t *testing.T) {
	for name, c := range map[string]struct {
		lost []int64 // before the spans of each entry were taken
		kept int
	}{"of the first entry": {[]int64{0}, 1}, "of the second entry": {[]int64{1, 0}, 1}, "before": {[]int64{1, 1}, 0}} {
		t.Run(name, func(t *testing.T) {
			f := journaled(t, t.TempDir())
			f.watch.lost.Store(1)
			for n, lost := range c.lost {
				if err := f.journal.append(&request{lost: lost}, uint64(n)+1); err != nil {
					t.Fatal(err)
				}
			}
			f.journal.tick(time.Now().Add(segmentAge), func(time.Time) bool { return true })
			if got := len(f.journal.kept); got != c.kept {
				t.Errorf("%d segments are kept, want %d", got, c.kept)
			}
		})
	}
}

// Looking for journals at the same time does not make them look in use.
func TestFindJournalsTogether(t *testing.T) {
	dir := t.TempDir()
	deliver(t, journaled(t, dir), numbered(7, 1, 11, flat))
	dir = killed(t, dir)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				if left, busy := FindJournals(dir); len(left) != 1 || len(busy) != 0 {
					t.Errorf("FindJournals() = %v, in use %v; want one, none in use", left, busy)
					return
				}
			}
		})
	}
	all.Wait()
}

// An entry cannot claim more spans than its request can have, or files elsewhere.
func TestImpossibleEntry(t *testing.T) {
	ids := func(n uint64) []uint64 {
		list := make([]uint64, n)
		for i := range list {
			list[i] = 7 + uint64(i)
		}
		return list
	}
	body := make([]byte, 20)
	for _, c := range []struct {
		places []recorded
		ok     bool
	}{
		{[]recorded{{"a.pfw", ids(10)}}, true},
		{[]recorded{{"a.pfw", ids(5)}, {}, {"a.pfw", ids(5)}}, true},
		{[]recorded{{"a.pfw", ids(11)}}, false},
		{[]recorded{{"a.pfw", ids(6)}, {"b.pfw", ids(5)}}, false},
		{[]recorded{{".", ids(1)}}, false},
		{[]recorded{{"..", ids(1)}}, false},
		{[]recorded{{"/", ids(1)}}, false},
		{[]recorded{{"a/b", ids(1)}}, false},
	} {
		var r record
		err := r.decode((&request{places: c.places, body: body}).encode(1)[entryHead:])
		if (err == nil) != c.ok || err == nil && (len(r.places) != len(c.places) || !bytes.Equal(r.body, body)) {
			t.Errorf("decode() of %v = %v, read %v; want it read: %v", c.places, err, r.places, c.ok)
		}
	}
}

// A journal that several paths stand for is found and replayed once.
func TestJournalOfSeveralPaths(t *testing.T) {
	dir := t.TempDir()
	f := journaled(t, dir)
	deliver(t, f, numbered(7, 1, 11, flat))
	path, to := filepath.Join(dir, "otlp.0.journal"), filepath.Join(t.TempDir(), "latest")
	if _, busy := FindJournals(dir, path); !slices.Equal(busy, []string{path}) {
		t.Errorf("in use: %v, want %v", busy, path)
	}
	dir = killed(t, dir)
	if err := os.Symlink(dir, to); err != nil {
		t.Skip(err)
	}
	path = filepath.Join(dir, "otlp.0.journal")
	left, busy := FindJournals(dir, path, to)
	if len(left) != 1 || left[0].Path != path || len(busy) != 0 {
		t.Fatalf("FindJournals() = %v, %v; want %s and none in use", left, busy, path)
	}
	if left, _ := FindJournals(to); len(left) != 1 || left[0].Path != filepath.Join(to, "otlp.0.journal") {
		t.Errorf("FindJournals() = %v, want the journal in the folder of the link", left)
	}
	if _, err := Replay(t.Context(), []string{left[0].Path}, &ReplayOptions{}); err != nil {
		t.Fatal(err)
	}
	once(t, counted(t, dir), 10)
}

// FuzzJournal bounds what a damaged journal costs.
func FuzzJournal(f *testing.F) {
	j := &journal{}
	r := request{pid: 7, places: []recorded{{"a.pfw.gz", []uint64{1, 2, 3, 9}}, {}}, body: []byte("body")}
	whole := append(seal(append(make([]byte, entryHead), `{"host":"node"}`...)), r.encode(j.number.Add(1))...)
	f.Add(whole)
	f.Add(whole[:len(whole)-2])
	f.Add(bytes.Repeat(entryMagic, 100))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, records, damaged, err := readSegment(text)
		if err != nil {
			return
		}
		ids := 0
		for i := range records {
			for _, p := range records[i].places {
				ids += len(p.ids)
			}
		}
		if damaged > int64(len(text)) || len(records) > len(text)/entryHead || ids > otlpspan.MaxParts*max(len(records), 1) {
			t.Errorf("%d records, %d IDs, %d damaged of %d bytes; want at most what the bytes can hold", len(records), ids, damaged, len(text))
		}
	})
}

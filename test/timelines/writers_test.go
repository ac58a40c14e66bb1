package timelines

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/ringtest"
	"github.com/trainspan/trainspan/internal/tracefile"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// writer writes the spans of a drawing into a trace, and returns its path.
type writer func(t *testing.T, spans []span, order []call) (path string)

// writers has the ways to write a trace file.
var writers = []struct {
	name  string
	write writer
}{
	{"tree", tree},
	{"tree, killed", killed},
	{"stack", stack},
	{"pool by ends", func(t *testing.T, spans []span, order []call) string { return pool(t, spans, ends(order), 1) }},
	{"pool by begins", func(t *testing.T, spans []span, order []call) string { return pool(t, spans, begins(order), 1) }},
	{"pool at once", func(t *testing.T, spans []span, order []call) string { return pool(t, spans, ends(order), len(spans)) }},
	{"batch", batch},
}

// tree writes them as a program with OpenTelemetry does: it begins each with a
// reference to its parent, and ends it.
func tree(t *testing.T, spans []span, order []call) string {
	path, tp := program(t, order)
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	return path
}

// killed does the same in a program that is killed, and recovers the trace. It
// is for drawings with spans that do not end.
func killed(t *testing.T, spans []span, order []call) string {
	if !slices.ContainsFunc(spans, func(s span) bool { return s.open }) {
		return ""
	}
	path, tp := program(t, order)
	if err := tp.ForceFlush(context.Background()); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "killed.pfw")
	if err := os.WriteFile(path, left, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dftracer.Recover(path, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

func program(t *testing.T, order []call) (path string, tp *sdktrace.TracerProvider) {
	path = filepath.Join(t.TempDir(), "trace.pfw")
	p, err := pfw.Create(path, &pfw.Options{NoBegin: true})
	if err != nil {
		t.Fatal(err)
	}
	tp = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
	tracer := tp.Tracer("drawn")
	open := map[string]context.Context{"": context.Background()}
	for _, c := range order {
		if !c.end {
			open[c.at.name], _ = tracer.Start(open[c.at.parent], c.at.name, trace.WithTimestamp(time.Unix(0, base+c.at.start)))
			continue
		}
		trace.SpanFromContext(open[c.at.name]).End(trace.WithTimestamp(time.Unix(0, base+c.at.end)))
	}
	return path, tp
}

// stack writes them as the Python client does: at the end, with their depth on
// the stack of a thread.
func stack(t *testing.T, spans []span, order []call) string {
	m := ringtest.New(t, 1)
	m.Side = `{"t":0,"tid":7,"thread":"MainThread"}` + "\n"
	for i, s := range spans {
		m.Side += fmt.Sprintf(`{"n":%d,"name":%q,"cat":"drawn"}`+"\n", i+1, s.name)
	}
	const clock = 2e12 // of the program, at base
	var open []*span
	slot := 0
	for _, c := range order {
		if !c.end {
			at := len(open)
			for at > 0 && open[at-1] == nil {
				at--
			}
			if at > 0 && open[at-1].name != c.at.parent || at == 0 && c.at.parent != "" {
				return "" // its parent is not the innermost span: a stack cannot represent that
			}
			open = append(open, c.at)
			if c.at.open {
				m.Put(slot, ringtest.Slot{Start: uint64(clock + c.at.start), Depth: uint32(len(open)), Word: 1<<32 | uint64(slices.Index(names(spans), c.at.name)+1)})
				slot++
			}
			continue
		}
		at := slices.Index(open, c.at)
		word := uint64(slices.Index(names(spans), c.at.name) + 1)
		if at < len(open)-1 {
			word |= 1 << 40 // crossed
			open[at] = nil
		} else {
			open = open[:at]
			for len(open) > 0 && open[len(open)-1] == nil {
				open = open[:len(open)-1]
			}
		}
		m.Put(slot, ringtest.Slot{Start: uint64(clock + c.at.start), End: uint64(clock + c.at.end), Depth: uint32(at + 1), Word: word})
		slot++
	}
	binary.LittleEndian.PutUint64(m.Head[ringtest.Ticks:], 1)
	o := pyring.Options{Out: t.TempDir(), Attempt: -1, Log: slog.New(slog.DiscardHandler)}
	st, err := pyring.Import(t.Context(), []string{m.Write()}, o)
	if err != nil || len(st.Files) != 1 {
		t.Fatalf("stats %+v, error %v; want one file", st, err)
	}
	return st.Files[0]
}

func names(spans []span) (all []string) {
	for _, s := range spans {
		all = append(all, s.name)
	}
	return all
}

func ends(order []call) (all []*span) {
	for _, c := range order {
		if c.end {
			all = append(all, c.at)
		}
	}
	return all
}

func begins(order []call) (all []*span) {
	for _, c := range order {
		if !c.end && !c.at.open {
			all = append(all, c.at)
		}
	}
	return all
}

// pool writes them in the order in which they reach an exporter, together at a
// time.
func pool(t *testing.T, spans []span, order []*span, together int) string {
	e := pfw.New(filepath.Join(t.TempDir(), "trace.pfw"), &pfw.Options{NoBegin: true})
	id := func(name string) (id trace.SpanID) {
		binary.BigEndian.PutUint64(id[:], uint64(slices.Index(names(spans), name)+1))
		return id
	}
	of := func(name string) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: id(name)})
	}
	for batch := range slices.Chunk(order, max(together, 1)) {
		var stubs tracetest.SpanStubs
		for _, s := range batch {
			stub := tracetest.SpanStub{Name: s.name, SpanContext: of(s.name), StartTime: time.Unix(0, base+s.start), EndTime: time.Unix(0, base+s.end)}
			if s.parent != "" {
				stub.Parent = of(s.parent)
			}
			stubs = append(stubs, stub)
		}
		if err := e.ExportSpans(t.Context(), stubs.Snapshots()); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e.Path()
}

// batch writes them as the importer of profiles does: rows of one thread, which
// nest by their times. It is for drawings in which spans nest by their times,
// and all end.
func batch(t *testing.T, spans []span, _ []call) string {
	return profile(t, spans, `"cat":"user_annotation"`, "")
}

// devices writes them as the importer does for one stream of a device.
func devices(t *testing.T, spans []span, _ []call) string {
	return profile(t, spans, `"cat":"kernel"`, `,"args":{"device":0,"stream":7}`)
}

func profile(t *testing.T, spans []span, head, tail string) string {
	var rows []string
	for _, s := range spans {
		if s.open {
			return ""
		}
		rows = append(rows, fmt.Sprintf(`{"ph":"X",%s,"name":%q,"pid":7,"tid":7,"ts":%d,"dur":%d%s}`, head, s.name, (base+s.start)/1000, (s.end-s.start)/1000, tail))
	}
	data := []byte(`{"schemaVersion":1,"traceEvents":[` + strings.Join(rows, ",") + `]}`)
	w, err := dftracer.Create(filepath.Join(t.TempDir(), "trace.pfw"), &dftracer.Options{Compression: dftracer.CompressNone})
	if err != nil {
		t.Fatal(err)
	}
	source := torch.Source{Name: "drawn.json", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
	if _, err := torch.Import(t.Context(), w, []torch.Source{source}, &torch.Options{NoInference: true, Rules: []torch.Rule{}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.Path()
}

// read returns the events of a trace, including begin records of spans that did
// not end.
func read(t *testing.T, path string) []dftracer.Event {
	events := dftest.Events(t, path)
	ended := map[uint64]bool{}
	for _, ev := range events {
		if ev.Phase == dftracer.PhaseComplete {
			ended[ev.ID] = true
		}
	}
	for i := range events {
		if b, ok := tracefile.BeginOf(&events[i]); ok && !ended[b.ID] {
			b.Phase, b.Cat = dftracer.PhaseComplete, "begin"
			events = append(events, b)
		}
	}
	return events
}

package otlpreceiver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/otlpreceiver"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/tracefile"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// when is the start of the spans in these tests, in nanoseconds.
const when = 1_700_000_000_000_000_000

func number(key string, n int) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(n)}}}
}

func numbers(n int) (list []*commonpb.KeyValue) {
	for i := range n {
		list = append(list, number(fmt.Sprintf("key%06d", i), i))
	}
	return list
}

// span returns a span of a trace by its number; times are microseconds.
func span(id, parent int, start, end int64) *tracepb.Span {
	s := &tracepb.Span{
		TraceId: []byte("the trace of it.")[:16], SpanId: fmt.Appendf(nil, "%08d", id), Name: "n",
		StartTimeUnixNano: uint64(when + start*1000), EndTimeUnixNano: uint64(when + end*1000),
	}
	if parent > 0 {
		s.ParentSpanId = fmt.Appendf(nil, "%08d", parent)
	}
	return s
}

// of returns a request with spans of a process.
func of(pid int, list ...*tracepb.Span) []*tracepb.ResourceSpans {
	return []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: []*commonpb.KeyValue{number("process.pid", pid)}},
		ScopeSpans: []*tracepb.ScopeSpans{{Spans: list}},
	}}
}

// batch returns a batch with spans.
func batch(t testing.TB, spans []*tracepb.ResourceSpans) *otlpreceiver.Batch {
	t.Helper()
	body, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: spans})
	if err != nil {
		t.Fatal(err)
	}
	b, err := otlpreceiver.NewBatch(body, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wide returns a span with n attributes, events and links, and an event with n
// attributes.
func wide(n int) *tracepb.Span {
	s := span(1, 0, 0, 10)
	s.DroppedAttributesCount, s.DroppedEventsCount, s.DroppedLinksCount = 5, 6, 7
	s.Attributes = numbers(n)
	for i := range n {
		s.Events = append(s.Events, &tracepb.Span_Event{Name: "e", TimeUnixNano: uint64(when + i)})
		s.Links = append(s.Links, &tracepb.Span_Link{TraceId: s.TraceId, SpanId: s.SpanId})
	}
	s.Events[0].Attributes = numbers(n)
	return s
}

func arg(t *testing.T, ev *dftracer.Event, key string) int64 {
	t.Helper()
	a, ok := ev.Arg(key)
	if !ok {
		t.Errorf("%s has no argument %s", ev.Name, key)
	}
	return a.Int64()
}

// Processes without a process id get one that no real process has, derived from
// their attributes; each trace begins with its first span.
func TestProcessesWithoutANumber(t *testing.T) {
	dir := t.TempDir()
	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	word := func(key, value string) *commonpb.KeyValue {
		return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
	}
	for round := range 2 {
		for i, service := range []string{"loader", "trainer"} {
			request := of(0, span(2*round+1, 0, int64(500-100*i), 900), span(2*round+2, 0, int64(300-100*i), 800))
			request[0].Resource.Attributes = []*commonpb.KeyValue{word("service.name", service), word("host.name", "node")}
			if err := files.Take(t.Context(), batch(t, request)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := files.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(paths) != 2 {
		t.Fatalf("files %q, %v; want two", paths, err)
	}
	begun := map[int64]int64{}
	for _, path := range paths {
		spans := 0
		for _, ev := range dftest.Events(t, path) {
			switch {
			case ev.Name == tracefile.NameStart:
				begun[ev.PID] = ev.TS - when/1000
			case ev.Name == "n":
				spans++
			}
			if ev.PID < 1<<30 {
				t.Errorf("%s: process %d, want at least %d", path, ev.PID, 1<<30)
			}
		}
		if spans != 4 {
			t.Errorf("%s has %d spans, want 4", path, spans)
		}
	}
	var starts []int64
	for _, at := range begun {
		starts = append(starts, at)
	}
	if slices.Sort(starts); !slices.Equal(starts, []int64{200, 300}) {
		t.Errorf("the traces begin at %v, want [200 300]", starts)
	}
}

// What a span has beyond the limits is counted, in the file and in the stats.
func TestLimitsOfASpan(t *testing.T) {
	const most = 100
	for name, limit := range map[string]int{"default": 0, "configured": most} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: dir, MaxAttributes: limit, MaxEvents: limit, MaxLinks: 3, Logger: slog.New(slog.DiscardHandler)})
			if err := files.Take(t.Context(), batch(t, of(7, wide(300)))); err != nil {
				t.Fatal(err)
			}
			if err := files.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			var over int64 // attributes and events above the limits
			if limit > 0 {
				over = 300 - most
			}
			st := files.Stats()
			if st.CutAttributes != 2*over || st.CutEvents != over || st.CutLinks != 297 {
				t.Errorf("counts %+v, want %d attributes, %d events, 297 links cut", st, 2*over, over)
			}
			paths, _ := filepath.Glob(filepath.Join(dir, "*"))
			events := 0
			for _, ev := range dftest.Events(t, paths[0]) {
				switch key, _ := ev.Meta(); {
				case ev.Name == "n":
					if arg(t, &ev, "otel.dropped_attributes_count") != over+5 || arg(t, &ev, "otel.dropped_events_count") != over+6 || arg(t, &ev, "otel.dropped_links_count") != 297+7 {
						t.Errorf("span has %v, want %d attributes, %d events, %d links dropped", ev.Args, over+5, over+6, 297+7)
					}
					kept := 0
					for _, a := range ev.Args {
						if strings.HasPrefix(a.Key, "key") {
							kept++
						}
					}
					if int64(kept) != 300-over {
						t.Errorf("span has %d attributes, want %d", kept, 300-over)
					}
					if links, _ := ev.Arg("otel.links"); strings.Count(links.Text(), "trace_id") != 3 {
						t.Errorf("links are %s, want 3 of them", links.Text())
					}
				case key == "e":
					if events++; events == 1 && over > 0 && arg(t, &ev, "otel.dropped_attributes_count") != over {
						t.Errorf("event has %v, want %d attributes dropped", ev.Args, over)
					}
				}
			}
			if int64(events) != 300-over {
				t.Errorf("%d events, want %d", events, 300-over)
			}
		})
	}
}

// A span that one-logger's exporter sends for an event becomes that event, even
// if the event's span never comes.
func TestEventsThatComeAsSpans(t *testing.T) {
	dir := t.TempDir()
	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: dir})
	event := span(2, 1, 5, 5)
	event.Name = "metrics_event_for_n"
	event.Attributes = []*commonpb.KeyValue{number("loss", 3)}
	list := of(7, event)
	list[0].ScopeSpans[0].Scope = &commonpb.InstrumentationScope{Name: "one_logger"}
	if err := files.Take(t.Context(), batch(t, list)); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*"))
	found := 0
	for _, ev := range dftest.Events(t, paths[0]) {
		if key, _ := ev.Meta(); key == "metrics" {
			found++
			if loss, _ := ev.Arg("loss"); loss.Int64() != 3 {
				t.Errorf("event has %v, want loss 3", ev.Args)
			}
		}
		if ev.Name == event.Name {
			t.Error("the event is a span too, want an event record only")
		}
	}
	if found != 1 {
		t.Errorf("%d events, want 1", found)
	}
}

// Arguments that analyzers look for keep their name, whatever other attributes
// have it.
func TestRenamedAttributes(t *testing.T) {
	dir := t.TempDir()
	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: dir})
	first, second := span(1, 0, 0, 10), span(2, 0, 10, 20)
	first.Attributes = []*commonpb.KeyValue{number("dl.step", 3), number("rl.step", 4), number("dl.epoch", 1)}
	second.Attributes = []*commonpb.KeyValue{number("step", 5), number("dl.step", 6)}
	if err := files.Take(t.Context(), batch(t, of(7, first, second))); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*"))
	want := []map[string]int64{{"step": 3, "rl.step": 4, "epoch": 1}, {"step": 5, "dl.step": 6}}
	for _, ev := range dftest.Events(t, paths[0]) {
		if ev.Name != "n" {
			continue
		}
		for key, n := range want[0] {
			if got := arg(t, &ev, key); got != n {
				t.Errorf("%s is %d, want %d", key, got, n)
			}
		}
		want = want[1:]
	}
	if len(want) != 0 {
		t.Errorf("%d spans are missing, want 0", len(want))
	}
}

// Every kind of value is in the file, nested lists up to a depth; a parent in
// another process is left out.
func TestValues(t *testing.T) {
	float := func(f float64) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: f}}
	}
	list := func(items ...*commonpb.AnyValue) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: items}}}
	}
	table := func(v *commonpb.AnyValue) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: &commonpb.KeyValueList{Values: []*commonpb.KeyValue{{Key: "k", Value: v}}}}}
	}
	lists, tables := list(), table(nil)
	for range 20 {
		lists, tables = list(lists), table(tables)
	}
	const most = 17 // nested lists
	s := span(1, 2, 0, 10)
	s.Flags = uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK | tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	want := map[string]struct {
		value *commonpb.AnyValue
		kind  tracefile.Kind
		text  string
	}{
		"step":   {&commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "4"}}, tracefile.KindInt, "4"},
		"text":   {&commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: "4"}}, tracefile.KindString, "4"},
		"epoch":  {float(4.5), tracefile.KindFloat, "4.5"},
		"loss":   {float(4), tracefile.KindFloat, "4.0"},
		"yes":    {&commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: true}}, tracefile.KindInt, "1"},
		"bytes":  {&commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: []byte("abc")}}, tracefile.KindString, "YWJj"},
		"none":   {nil, tracefile.KindRaw, "null"},
		"list":   {list(float(0.5), float(math.NaN()), nil), tracefile.KindRaw, `[0.5,"NaN",null]`},
		"lists":  {lists, tracefile.KindRaw, strings.Repeat("[", most) + `"..."` + strings.Repeat("]", most)},
		"tables": {tables, tracefile.KindRaw, strings.Repeat(`{"k":`, most) + `"..."` + strings.Repeat("}", most)},
	}
	for key, c := range want {
		s.Attributes = append(s.Attributes, &commonpb.KeyValue{Key: key, Value: c.value})
	}
	dir := t.TempDir()
	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: dir})
	if err := errors.Join(files.Take(t.Context(), batch(t, of(7, s))), files.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*"))
	found := false
	for _, ev := range dftest.Events(t, paths[0]) {
		if ev.Name != "n" {
			continue
		}
		found = true
		for key, c := range want {
			if a, _ := ev.Arg(key); tracefile.KindOf(a) != c.kind || a.Text() != c.text {
				t.Errorf("%s is %v %s, want %v %s", key, tracefile.KindOf(a), a.Text(), c.kind, c.text)
			}
		}
		if ev.Parent > 0 {
			t.Errorf("its parent is %d, want none", ev.Parent)
		}
	}
	if !found {
		t.Error("the span is missing")
	}
}

// inputs are the kinds of items that a request can have many of.
var inputs = []struct {
	name string
	n    int
	make func(n int) []*tracepb.ResourceSpans
}{
	{"Attributes", 20_000, func(n int) []*tracepb.ResourceSpans {
		s := span(1, 0, 0, 10)
		s.Attributes = numbers(n)
		return of(7, s)
	}},
	{"AnalyzedAttributes", 20_000, func(n int) []*tracepb.ResourceSpans {
		s := span(1, 0, 0, 10)
		for i := range n {
			s.Attributes = append(s.Attributes, number("dl.step", i))
		}
		return of(7, s)
	}},
	{"EventsAndLinks", 2_000, func(n int) []*tracepb.ResourceSpans { return of(7, wide(n)) }},
	{"FoldedEvents", 1_000, func(n int) []*tracepb.ResourceSpans {
		rs := of(7, span(1, 0, 0, 10))
		rs[0].ScopeSpans[0].Scope = &commonpb.InstrumentationScope{Name: "one_logger"}
		for i := range n {
			s := span(2+i, 1, int64(i), int64(i))
			s.Name = "x_event_for_n"
			rs[0].ScopeSpans[0].Spans = append(rs[0].ScopeSpans[0].Spans, s)
		}
		return rs
	}},
	{"OverlappingSpans", 1_000, func(n int) []*tracepb.ResourceSpans {
		var list []*tracepb.Span
		for i := range n {
			list = append(list, span(i+1, 0, int64(i), int64(n+i)))
		}
		return of(7, list...)
	}},
	{"Names", 1_000, func(n int) []*tracepb.ResourceSpans {
		var list []*tracepb.Span
		for i := range n {
			s := span(i+1, 0, int64(i), int64(i+1))
			s.Name = fmt.Sprint("name ", i)
			list = append(list, s)
		}
		return of(7, list...)
	}},
	{"ResourceAttributes", 2_000, func(n int) []*tracepb.ResourceSpans {
		rs := of(7, span(1, 0, 0, 10))
		rs[0].Resource.Attributes = append(rs[0].Resource.Attributes, numbers(n)...)
		return rs
	}},
}

// taken writes the files of a request.
func taken(t testing.TB, rs []*tracepb.ResourceSpans) {
	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err := files.Take(t.Context(), batch(t, rs)); err != nil {
		t.Error(err)
	}
	if err := files.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// BenchmarkGrowth measures for how long one request blocks all others.
func BenchmarkGrowth(b *testing.B) {
	for _, in := range inputs {
		b.Run(in.name, func(b *testing.B) {
			requests := map[int][]*tracepb.ResourceSpans{in.n: in.make(in.n), 16 * in.n: in.make(16 * in.n)}
			growth.Bench(b, in.n, func(n int) { taken(b, requests[n]) })
		})
	}
}

// A sender whose spans cannot be accepted now is asked to retry later.
func TestFullMemoryIsReportedToTheSender(t *testing.T) {
	full := true
	r := start(t, func(context.Context, *otlpreceiver.Batch) error {
		if full {
			return fmt.Errorf("%w: it is full", otlpreceiver.ErrLater)
		}
		return nil
	}, nil)
	req := &collectorpb.ExportTraceServiceRequest{ResourceSpans: of(7, span(1, 0, 0, 10))}
	body, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, text := post(t, r.Endpoint()+"/v1/traces", "application/x-protobuf", "", body)
	if answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" {
		t.Errorf("%s %v, want 429 with Retry-After: %.80s", answer.Status, answer.Header, text)
	}
	client := collectorpb.NewTraceServiceClient(dial(t, r))
	_, err = client.Export(t.Context(), req)
	if st := status.Convert(err); st.Code() != codes.ResourceExhausted || len(st.Details()) != 1 {
		t.Errorf("Export() = %v, details %v; want ResourceExhausted with one detail", err, st.Details())
	}
	if st := r.Stats(); st.Refused != 2 || st.Spans != 0 || st.Rejected != 0 {
		t.Errorf("counts %+v, want 2 refused, no span, none rejected", st)
	}
	full = false
	if got, err := client.Export(t.Context(), req); err != nil || got.GetPartialSuccess() != nil {
		t.Errorf("Export() = %v, %v; want full success", got, err)
	}
}

// Every process has its own file, even if only few can be open.
func TestMoreProcessesThanOpenFiles(t *testing.T) {
	dir := t.TempDir()
	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: dir, MaxOpenFiles: 4, Logger: slog.New(slog.DiscardHandler)})
	const processes = 600
	for round := range 1 {
		for p := range processes {
			if err := files.Take(t.Context(), batch(t, of(1000+p, span(2+round, 1, int64(10*round), int64(10*round+5))))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for p := range processes {
		if err := files.Take(t.Context(), batch(t, of(1000+p, span(1, 0, 0, 100)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	st := files.Stats()
	if st.Processes != processes || st.Spans != 2*processes || st.Reopened < processes || st.SharedFile != 0 || st.Lost != 0 {
		t.Errorf("counts %+v, want %d processes, 2 spans each, files reopened, none shared, none lost", st, processes)
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(paths) != processes {
		t.Errorf("%d files, want %d", len(paths), processes)
	}
	for _, path := range paths[:20] {
		if report := dftest.Check(t, path); report.Spans != 2 || report.Orphans != 0 {
			t.Errorf("%s: counts %v, want 2 spans, no orphan", path, report.Counts)
		}
	}
}

// The sent name is an argument if the file has another name, and only then; a
// status exists only if the sender has set it.
func TestNamesAndStatus(t *testing.T) {
	dir := t.TempDir()
	files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: dir})
	known, standard, other := span(1, 0, 0, 10), span(2, 0, 10, 20), span(3, 0, 20, 30)
	known.Name, standard.Name, other.Name = "megatron.train_step", "model_forward", "mine"
	other.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "no"}
	if err := files.Take(t.Context(), batch(t, of(7, known, standard, other))); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*"))
	got := make(map[string]string)
	for _, ev := range dftest.Events(t, paths[0]) {
		for _, a := range ev.Args {
			if a.Key == "otel.name" || strings.HasPrefix(a.Key, "otel.status") {
				got[ev.Name+" "+a.Key] = a.Text()
			}
		}
	}
	want := map[string]string{"train.iteration otel.name": "megatron.train_step", "mine otel.status_code": "ERROR", "mine otel.status_description": "no"}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func word(key, v string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}}
}

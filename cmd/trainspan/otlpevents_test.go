package main

import (
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// ts is the time of the spans in microseconds.
const ts = 1_700_000_000_000_000

// TestConvertToOTLPKeepsStatusEventsAndLinks checks that OpenTelemetry's fields
// are restored: the status of a span, links, and events from every place where
// a trace can store them.
func TestConvertToOTLPKeepsStatusEventsAndLinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	w, err := dftracer.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	event := func(span uint64, name, value string, args ...dftracer.Arg) {
		w.Write(&dftracer.Event{Phase: dftracer.PhaseMetadata, Name: tracefile.NameCustom, Cat: dftracer.CatDFTracer, Parent: int64(span),
			Args: append([]dftracer.Arg{dftracer.String("name", name), dftracer.String("value", value), dftracer.Int("span", int64(span))}, args...)})
	}
	failed, fine := w.NextID(), w.NextID()
	event(failed, "exception", "1700000000000005", dftracer.String("exception.type", "OOM"), dftracer.Int("n", 3))
	w.Write(&dftracer.Event{ID: failed, Name: "forward", Cat: "compute", TS: ts, Dur: 10, Level: 1, Args: []dftracer.Arg{
		dftracer.Int("epoch", 2), dftracer.String("otel.status_code", "ERROR"), dftracer.String("otel.status_description", "out of memory"),
		dftracer.Raw("otel.links", `[{"trace_id":"0102030405060708090a0b0c0d0e0f10","span_id":"0102030405060708","attributes":{"why":"before","k":2}}]`)}})
	event(failed, "late", "1700000000000009")
	event(failed, "otel.dropped_events_count", "7")
	w.Write(&dftracer.Event{ID: fine, Name: "step", Cat: "compute", TS: ts + 20, Dur: 10, Level: 1, Args: []dftracer.Arg{dftracer.String("otel.status_code", "OK")}})
	tracefile.WriteCustom(w, "mine", "no event")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// Rewritten traces give spans other ids.
	v2, all := filepath.Join(t.TempDir(), "v2.pfw.gz"), filepath.Join(t.TempDir(), "all.pfw.gz")
	want(t, "trace", "convert", path, "--to", "v2", "-o", v2)
	want(t, "trace", "merge", v2, path, "-o", all)
	for _, path := range []string{path, v2} {
		t.Run(filepath.Base(path), func(t *testing.T) { checkEvents(t, path) })
	}
	of := make(map[string]int)
	for _, sp := range replayed(t, all) {
		of[sp.GetName()] += len(sp.GetEvents())
	}
	if len(of) != 2 || of["forward"] != 4 || of["step"] != 0 {
		t.Errorf("the merged traces have events %v, want 4 of forward, 0 of step", of)
	}
}

// replayed returns the spans that a receiver gets.
func replayed(t *testing.T, path string) []*tracepb.Span {
	t.Helper()
	back := newReceiver(t)
	out := filepath.Join(t.TempDir(), "x.otlp.jsonl")
	want(t, "trace", "convert", path, "--to", "otlp", "-o", out)
	want(t, "trace", "replay", out, "--endpoint", back.URL)
	return back.spans
}

func checkEvents(t *testing.T, path string) {
	t.Helper()
	spans := replayed(t, path)
	byName := map[string]*tracepb.Span{}
	for _, sp := range spans {
		byName[sp.GetName()] = sp
	}
	sp := byName["forward"]
	if len(spans) != 2 || sp == nil || byName["step"].GetStatus().GetCode() != tracepb.Status_STATUS_CODE_OK {
		t.Fatalf("receiver got %v, want 2 spans, the step with status OK", spans)
	}
	if st := sp.GetStatus(); st.GetCode() != tracepb.Status_STATUS_CODE_ERROR || st.GetMessage() != "out of memory" {
		t.Errorf(`status %v, want error "out of memory"`, st)
	}
	ev := sp.GetEvents()
	if len(ev) != 2 || ev[0].GetName() != "exception" || ev[0].GetTimeUnixNano() != (ts+5)*1000 || ev[1].GetName() != "late" || len(ev[1].GetAttributes()) != 0 {
		t.Fatalf("events %v, want an exception 5 µs after the start, then late without attributes", ev)
	}
	if a := ev[0].GetAttributes(); len(a) != 2 || a[0].GetValue().GetStringValue() != "OOM" || a[1].GetValue().GetIntValue() != 3 {
		t.Errorf("attributes of the exception %v, want OOM and 3", a)
	}
	if l := sp.GetLinks(); len(l) != 1 || len(l[0].GetTraceId()) != 16 || l[0].GetSpanId()[7] != 8 || len(l[0].GetAttributes()) != 2 {
		t.Errorf("links %v, want one with a trace ID, span 8 and two attributes", l)
	}
	if sp.GetDroppedEventsCount() != 7 || len(byName["step"].GetEvents()) != 0 {
		t.Errorf("step: %d events dropped, %d kept; want 7 and 0", sp.GetDroppedEventsCount(), len(byName["step"].GetEvents()))
	}
	for _, a := range sp.GetAttributes() {
		if a.GetKey() == "otel.status_code" || a.GetKey() == "otel.links" {
			t.Errorf("attribute %s is there, want it only as a field of the span", a.GetKey())
		}
	}
}

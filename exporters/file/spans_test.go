package file_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/internal/platform/redact"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// program records some spans with an SDK of its own.
func program(t *testing.T, e *file.Exporter) (root, query trace.SpanID) {
	t.Helper()
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(e))
	tracer := tp.Tracer("example.com/server")
	at := func(ms int) trace.SpanStartEventOption {
		return trace.WithTimestamp(time.Unix(0, base).Add(time.Duration(ms) * time.Millisecond))
	}
	ctx, r := tracer.Start(context.Background(), "request", at(0), trace.WithAttributes(attribute.Int("n", 1)))
	_, q := tracer.Start(ctx, "query", at(0))
	q.AddEvent("row", at(1).(trace.EventOption), trace.WithAttributes(attribute.String("key", "k")))
	q.RecordError(errors.New("lost password=hunter2"), at(2).(trace.EventOption), trace.WithAttributes(attribute.String("exception.stacktrace", "in f(password=hunter2)")))
	q.SetStatus(codes.Error, "lost")
	q.End(at(3).(trace.SpanEndOption))
	r.SetStatus(codes.Error, "no answer of https://u:hunter2@host")
	r.End(at(3).(trace.SpanEndOption))
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	return r.SpanContext().SpanID(), q.SpanContext().SpanID()
}

// A program with an SDK of its own gets the records that telemetry would have written,
// parents first.
func TestExportSpans(t *testing.T) {
	e := file.New(filepath.Join(t.TempDir(), "telemetry.jsonl"), &file.Options{Heartbeat: -1})
	root, query := program(t, e)
	data, err := os.ReadFile(e.Path())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte("hunter2")) {
		t.Errorf("the password is in the records:\n%s", data)
	}
	type event struct {
		Name       string
		Attributes map[string]any
	}
	var got []string
	for line := range bytes.Lines(data) {
		var r struct {
			Type, ID, Name string
			SpanID         string `json:"span_id"`
			Parent         string `json:"parent_id"`
			Event          event
			Attributes     map[string]any
			Duration       int64 `json:"duration_ns"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		text := strings.Join(strings.Fields(strings.Join([]string{r.Type, r.Name, r.Event.Name}, " ")), " ")
		got = append(got, text)
		switch text {
		case "start query":
			if r.ID != query.String() || r.Parent != root.String() {
				t.Errorf("query is %s below %s, want %s below %s", r.ID, r.Parent, query, root)
			}
		case "start request":
			if r.Attributes["n"] != 1. {
				t.Errorf("request has %v, want n = 1", r.Attributes)
			}
		case "event row":
			if r.SpanID != query.String() || r.Event.Attributes["key"] != "k" {
				t.Errorf("row is %+v, want span %s with the attribute key k", r, query.String())
			}
		case "application_error error":
			want := "lost password=" + redact.Hidden
			if r.SpanID == root.String() {
				want = "no answer of https://" + redact.Hidden + "@host"
			}
			if got := r.Event.Attributes["error_message"]; got != want {
				t.Errorf("error_message = %v, want %s", got, want)
			}
		case "stop query", "stop request":
			if r.Duration != 3e6 || r.Attributes["duration_msec"] != 3. {
				t.Errorf("%s took %d, %v, want 3 ms", text, r.Duration, r.Attributes)
			}
		}
	}
	want := "start request, start query, event row, application_error error, application_error error, stop query, stop request"
	if list := strings.Join(got, ", "); list != want {
		t.Errorf("file has %s\nwant %s", list, want)
	}
}

func TestExportSpansCompat(t *testing.T) {
	e := file.New(filepath.Join(t.TempDir(), "telemetry.jsonl"), &file.Options{Compat: true})
	stub := tracetest.SpanStub{Name: "alone", StartTime: time.Unix(0, base), EndTime: time.Unix(0, base+1e6)}
	if err := e.ExportSpans(t.Context(), tracetest.SpanStubs{stub}.Snapshots()); err != nil {
		t.Fatal(err)
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(e.Path())
	if err != nil || !bytes.HasPrefix(data, []byte(`{"type":"complete","id":`)) {
		t.Errorf("file is %q, error %v; want one complete record", data, err)
	}
}

// Without spans there is no file, an unusable path is an error of each call, and after a
// Shutdown there is nothing to do until the exporter is opened again.
func TestExportSpansOpens(t *testing.T) {
	batch := tracetest.SpanStubs{{Name: "s", StartTime: time.Unix(0, base), EndTime: time.Unix(0, base)}}.Snapshots()
	path := filepath.Join(t.TempDir(), "telemetry.jsonl")
	e := file.New(path, nil)
	if err := e.ExportSpans(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := e.ExportSpans(t.Context(), batch); err != nil {
		t.Errorf("ExportSpans() after Shutdown = %v, want nil", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("Stat of the file = %v, want it not to exist", err)
	}
	if _, err := e.Open(t.Context(), &outputs.Telemetry{Identity: identity}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.ExportSpans(t.Context(), batch), e.Shutdown(t.Context())); err != nil {
		t.Error(err)
	}
	if n := e.Stats().File.Records; n != 2 {
		t.Errorf("Records = %d, want 2", n)
	}
	broken := file.New(filepath.Join(os.DevNull, "telemetry.jsonl"), nil)
	for range 2 {
		if err := broken.ExportSpans(t.Context(), batch); err == nil {
			t.Error("ExportSpans() = nil, want an error")
		}
	}
}

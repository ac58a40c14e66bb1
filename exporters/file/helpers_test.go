package file_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
)

// childVariable makes the test program a child process.
const childVariable = "TRAINSPAN_FILE_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		os.Exit(child(role, os.Args[1]))
	}
	goleak.VerifyTestMain(m)
}

var identity = outputs.Identity{Host: "node/1", PID: 4242, Ranks: config.Ranks{Rank: config.Value(3)}}

const (
	base    = int64(1760000000_000_000_000)
	traceID = "101112131415161718191a1b1c1d1e1f"
)

// spanData returns a span whose id ends in n.
func spanData(name string, n byte) *outputs.SpanData {
	s := &outputs.SpanData{Name: name, SpanID: trace.SpanID{1, 2, 3, 4, 5, 6, 7, n}, Start: base}
	for i := range s.TraceID {
		s.TraceID[i] = byte(0x10 + i)
	}
	return s
}

func start(s *outputs.SpanData) *outputs.Record {
	return &outputs.Record{Kind: outputs.KindStart, Span: s,
		Event: outputs.Event{Name: spans.EventSpanStart, Time: s.Start, Attributes: s.StartAttributes}}
}

// stop returns the record of the span's end after a number of nanoseconds.
func stop(s *outputs.SpanData, ns int64) *outputs.Record {
	s.Stop = s.Start + ns
	s.Attributes = append(s.Attributes, attrvalue.Int(onelogger.DurationMsec, ns/1e6))
	return &outputs.Record{Kind: outputs.KindStop, Span: s, Event: outputs.Event{Name: spans.EventSpanStop, Time: s.Stop}}
}

func event(s *outputs.SpanData, name string, attrs ...attributes.Attr) *outputs.Record {
	return &outputs.Record{Kind: outputs.KindEvent, Span: s, Event: outputs.Event{Name: name, Time: base + 1_999_999, Attributes: attrs}}
}

func failure(s *outputs.SpanData, message string) *outputs.Record {
	r := event(s, spans.EventError, attrvalue.String(onelogger.ErrorMessage, message))
	r.Kind = outputs.KindError
	return r
}

func dataError(message string) *outputs.Record {
	r := event(nil, spans.EventTelemetryDataError, attrvalue.String(onelogger.ErrorMessage, message),
		attrvalue.String(onelogger.TelemetryDataErrorType, onelogger.IncompleteTelemetryData))
	r.Kind = outputs.KindDataError
	return r
}

// started returns an exporter that is started, and shut down when the test ends.
func started(t testing.TB, path string, options *file.Options) *file.Exporter {
	t.Helper()
	e := file.New(path, options)
	if err := attach(e, identity); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

func export(t testing.TB, e *file.Exporter, records ...*outputs.Record) {
	t.Helper()
	for _, r := range records {
		if err := e.Write([]outputs.Record{*r}); err != nil {
			t.Fatalf("Write a record of kind %s: %v", r.Kind, err)
		}
	}
}

func shutdown(t testing.TB, e *file.Exporter) {
	t.Helper()
	if err := e.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// contents returns the text of a file that must have only complete lines.
func contents(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 0 && b[len(b)-1] != '\n' {
		t.Errorf("%s ends in half a line, want whole lines: %q", path, b[max(0, len(b)-60):])
	}
	return string(b)
}

// record has the fields of a line that the tests read.
type record struct {
	Type       string
	ID         string
	SpanID     string `json:"span_id"`
	Name       string
	Attributes map[string]any
	Event      struct{ Attributes map[string]any }
	Error      struct{ Attributes map[string]any }
	Count, PID int64
	Rank       int
}

// decode parses lines as strict JSON in ASCII.
func decode(t testing.TB, text string) []record {
	t.Helper()
	var out []record
	for line := range strings.Lines(text) {
		for i := range len(line) {
			if line[i] >= utf8.RuneSelf || line[i] < ' ' && i < len(line)-1 {
				t.Fatalf("byte %#x in %q, want printable ASCII only", line[i], line)
			}
		}
		var r record
		d := json.NewDecoder(bytes.NewReader([]byte(line)))
		if err := d.Decode(&r); err != nil {
			t.Fatalf("decoding a record: %v in %.300q", err, line)
		}
		if d.More() {
			t.Fatalf("line has more than one JSON value: %.300q", line)
		}
		out = append(out, r)
	}
	return out
}

// counted checks that the records are numbered 1, 2, 3 and so on.
func counted(t testing.TB, records []record, want int) {
	t.Helper()
	if len(records) != want {
		t.Errorf("%d records, want %d", len(records), want)
	}
	for i, r := range records {
		if r.Count != int64(i+1) {
			t.Fatalf("record %d has count %d, want the same number", i+1, r.Count)
		}
	}
}

func compare(t testing.TB, path string, want ...string) {
	t.Helper()
	got := strings.Split(strings.TrimSuffix(contents(t, path), "\n"), "\n")
	for i := range max(len(got), len(want)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, g, w)
		}
	}
}

func temporary(t testing.TB) string { return filepath.Join(t.TempDir(), "t.jsonl") }

// attach opens the exporter's file.
func attach(e *file.Exporter, id outputs.Identity) error {
	_, err := e.Open(context.Background(), &outputs.Telemetry{Identity: id})
	return err
}

package otlpreceiver_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/otlpreceiver"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// perByte is how many bytes may be allocated per byte of a request: a span
// without any content is two bytes in a request, and becomes a line of the
// trace.
const perByte = 1000

// compressors is the memory of the compressors that every trace file needs.
const compressors = 3 << 20

// FuzzOTLP posts arbitrary bytes. No file becomes invalid, every accepted span
// is in a file, and the work is at most a constant times the input. Run it with
// -fuzzminimizetime 1x, because the writer's goroutines make coverage vary.
func FuzzOTLP(f *testing.F) {
	for _, in := range inputs {
		body, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: in.make(200)})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(false, body)
	}
	many := func(of string) []byte { return bytes.Repeat([]byte(of), 30_000) }
	f.Add(false, nested(many("\x12\x00"), 2, 1))                       // spans
	f.Add(false, nested(many("\x4a\x00"), 2, 2, 1))                    // attributes
	f.Add(false, nested(many("\x5a\x00"), 2, 2, 1))                    // events
	f.Add(false, nested(many("\x6a\x00"), 2, 2, 1))                    // links
	f.Add(false, nested(many("\x0a\x00"), 5, 2, 9, 2, 2, 1))           // values of a list
	f.Add(false, nested(nested([]byte{0x12, 0}, 2), 1))                // one span
	f.Add(false, []byte("\x82\x80\x80\x80\x08\x00"))                   // an unknown field whose tag has 32 bits
	f.Add(true, []byte(jsonBody))                                      // a job
	f.Add(true, []byte(strings.Repeat("[", 100_000)))                  // nesting
	f.Add(true, []byte(strings.Repeat(`{"resourceSpans":[`, 10_000)))  // nesting of known fields
	f.Add(true, []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[`)) // truncated
	f.Add(true, []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{}`+strings.Repeat(",{}", 20_000)+`]}]}]}`))
	f.Fuzz(func(t *testing.T, json bool, body []byte) {
		dir := t.TempDir()
		files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: dir, MaxFiles: 1, Logger: slog.New(slog.DiscardHandler)})
		r, err := otlpreceiver.Listen(files.Take, &otlpreceiver.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+otlpreceiver.Path, bytes.NewReader(body))
		req.Header.Set("Content-Type", map[bool]string{false: "application/x-protobuf", true: "application/json"}[json])
		answer := httptest.NewRecorder()
		growth.Work(t, len(body)+compressors/perByte, perByte, func() {
			r.ServeHTTP(answer, req)
			if err := files.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		if err := r.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		st, taken := files.Stats(), r.Stats()
		if st.Spans+st.Duplicates+st.Lost > taken.Spans || st.Lost != 0 {
			t.Errorf("counts %+v after the files are written, want at most the spans of %+v, none lost", st, taken)
		}
		paths, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(paths) > 2 {
			t.Errorf("%d files, want at most 2: %v", len(paths), err)
		}
		for _, path := range paths {
			report, err := dftracer.ValidateFile(path, &dftracer.ValidateOptions{AllowOutliving: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := report.Err(); err != nil {
				text, _ := os.ReadFile(path)
				t.Errorf("trace is not valid: %v: %q", err, text)
			}
		}
	})
}

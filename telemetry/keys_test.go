package telemetry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/ai"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// claimed are keys that our records use, and keys that are equal after their
// repair.
var claimed = []string{
	"name", "value", "span", "event.name", "event.span", "user_event.name", "trace_id", "span_id", "level", "p_idx", "hhash",
	"user_level", "user_hhash", "user_user_hhash", "user_trace_id", "count", "epoch", "step", "truncated", "otel.status_code", "otel.status_description", "otel.links",
	"otel.dropped_events_count", "duration_msec", "timestamp_msec", "error_message", "exception_message", "id", "ts", "type", "cat", "args", "rank", "attempt",
	"bad\xff", "bad\xfe", "bad\uFFFD",
}

// duplicate returns a key that an object of a JSON text has twice.
func duplicate(text string) (key string, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	var walk func() error
	walk = func() error {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'):
			seen := map[string]bool{}
			for d.More() {
				name, err := d.Token()
				if err != nil {
					return err
				}
				if s := name.(string); seen[s] {
					key = s
				} else {
					seen[s] = true
				}
				if err := walk(); err != nil {
					return err
				}
			}
			_, err = d.Token()
		case json.Delim('['):
			for d.More() {
				if err := walk(); err != nil {
					return err
				}
			}
			_, err = d.Token()
		}
		return err
	}
	return key, walk()
}

// Every key is once in a record of the trace and of the JSON lines, and all of
// the user's values are there.
func TestKeysThatCollide(t *testing.T) {
	for _, compat := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			tracePath, linesPath := filepath.Join(dir, "trace.pfw"), filepath.Join(dir, "records.jsonl")
			cfg := base()
			cfg.WorldSize = config.Value(1)
			tel, err := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(cfg).WithLogger(quietLog()).
				WithExporter(pfw.New(tracePath, &pfw.Options{TraceIDs: true, BeginAfter: time.Nanosecond})).
				WithExporter(file.New(linesPath, &file.Options{Compat: compat})).ConfigureProvider(context.Background())
			check(t, err)
			var kvs []attribute.KeyValue
			for i, k := range claimed {
				kvs = append(kvs, attribute.String(k, fmt.Sprint("mine", i, ".")))
			}
			other := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{9}, SpanID: trace.SpanID{9}})
			ctx, s := tel.StartSpan(context.Background(), "direct", kvs...)
			s.AddEvent("happened", kvs...)
			ctx, plain := tel.Tracer("x").Start(ctx, "plain", trace.WithAttributes(kvs...), trace.WithLinks(trace.Link{SpanContext: other}))
			plain.SetAttributes(kvs...)
			plain.AddEvent("happened", trace.WithAttributes(kvs...))
			plain.RecordError(errGone, trace.WithAttributes(kvs...))
			plain.SetStatus(codes.Error, "bad")
			tree := ai.NewTree(tel)
			scope := tree.Compute.Forward.Start(ctx, kvs...)
			time.Sleep(time.Second) // until the records of open spans are written
			scope.EndErr(&errGoneVariable)
			plain.End()
			_, open := tel.StartSpan(ctx, "open", kvs...) // truncated
			_ = open
			s.End()
			check(t, tel.Shutdown(context.Background()))

			dftest.Check(t, tracePath)
			for _, path := range []string{tracePath, linesPath} {
				data, err := os.ReadFile(path)
				check(t, err)
				records := 0
				for line := range strings.Lines(string(data)) {
					line = strings.TrimSuffix(strings.TrimSpace(line), ",")
					if !strings.HasPrefix(line, "{") {
						continue
					}
					key, err := duplicate(line)
					if err != nil || key != "" {
						t.Errorf("%s: attribute %q is there twice (%v) in %s", filepath.Base(path), key, err, line)
					}
					if !strings.Contains(line, `"mine0.`) {
						continue
					}
					records++
					for i, k := range claimed {
						if k == "timestamp_msec" || k == "duration_msec" { // keys of the grammar
							continue
						}
						if (k == "error_message" || k == "exception_message") && strings.Contains(line, "Error in") {
							continue
						}
						if strings.HasPrefix(k, "otel.status") && strings.Contains(line, `"name":"forward"`) {
							continue // OpenTelemetry's own names: replaced by the status of a scope
						}
						if strings.HasPrefix(k, "bad") { // the last of them counts
							continue
						}
						if !strings.Contains(line, fmt.Sprintf(`"mine%d.`, i)) {
							t.Errorf("%s: the value of %q is missing in %s", filepath.Base(path), k, line)
						}
					}
				}
				if records < 4 {
					t.Errorf("%s has %d records with the keys, want at least 4", path, records)
				}
			}
			for _, e := range dftest.Events(t, tracePath) {
				if e.Phase == dftracer.PhaseComplete && e.Name == "plain" {
					for _, key := range []string{"user_otel.status_code", "user_trace_id"} {
						if _, ok := e.Arg(key); !ok {
							t.Errorf("the trace has no %s", key)
						}
					}
				}
			}
		})
	}
}

var errGoneVariable = errGone

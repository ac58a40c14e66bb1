package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
)

// TestReadersSendNothing checks that, with a job's environment, which names a
// backend, reading records sends nothing there, and importing sends them only
// if a flag asks for it.
func TestReadersSendNothing(t *testing.T) {
	var asked atomic.Int64
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer backend.Close()
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": backend.URL, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": backend.URL + "/v1/traces",
		"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_HEADERS": "x-key=secret",
	} {
		t.Setenv(name, value)
	}
	dir := t.TempDir()
	trace, profiles := filepath.Join(dir, "job", "trace.pfw.gz"), filepath.Join(dir, "profiles")
	for _, err := range []error{
		os.Mkdir(filepath.Dir(trace), 0o755), makeTrace([]string{trace}), os.Mkdir(profiles, 0o755),
		os.WriteFile(filepath.Join(profiles, "p.json"), []byte(profile), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	words := strings.NewReplacer("TRACE", trace, "JOB", filepath.Dir(trace), "PROFILES", profiles, "OUT", filepath.Join(dir, "out"))
	how := map[string]string{
		"trace summary": "TRACE", "trace info": "TRACE", "trace steps": "TRACE", "trace events": "TRACE", "trace validate": "TRACE",
		"trace import": "PROFILES -o OUT.pfw.gz", "trace watch": "PROFILES -o OUT.watched.pfw.gz --once --interval 1ms", "trace merge": "TRACE -o OUT.merged.pfw.gz",
		"trace split": "TRACE -o OUT.pieces", "trace recover": "TRACE -o OUT.recovered.pfw.gz", "trace convert": "TRACE --to otlp -o OUT.otlp.jsonl",
		"report": "JOB --html OUT.html", "runs": "JOB", "trace digest": "JOB -o OUT.digest", "compare": "JOB JOB",
		// These are interactive; they read files as report and info do.
		"open": "", "top": "", "version": "", "trace": "",
		// These send on purpose.
		"trace replay": "", "run": "", "alert": "",
		// This one runs a job, which sends if the environment asks for it.
		"demo": "",
	}
	for _, cmd := range verbs(newRoot(&ui.App{})) {
		args, known := how[calledAs(cmd)]
		if !known {
			t.Errorf("%s is not in this test's table of who sends", calledAs(cmd))
		}
		if args == "" {
			continue
		}
		var errs bytes.Buffer
		line := strings.Fields(calledAs(cmd) + " " + words.Replace(args))
		status := run(context.Background(), line, ui.Streams{Out: &bytes.Buffer{}, Err: &errs, Lookup: os.LookupEnv})
		if status != 0 && cmd.Name() != "compare" /* too few steps to judge */ || asked.Load() > 0 {
			t.Errorf("%v: status %d and %d requests, want 0 and none: %s", line, status, asked.Swap(0), &errs)
		}
	}
	// The same files are sent on request, configured by the environment.
	back := newReceiver(t)
	for _, line := range []string{"trace import PROFILES -q", "trace watch PROFILES --once --interval 1ms --state OUT.state"} {
		var errs bytes.Buffer
		args := append(strings.Fields(words.Replace(line)), "--otlp-endpoint", back.URL, "--span-level", "op")
		before := len(back.spans)
		if status := run(context.Background(), args, ui.Streams{Out: &bytes.Buffer{}, Err: &errs, Lookup: os.LookupEnv}); status != 0 || len(back.spans) == before {
			t.Errorf("%v: status %d, %d spans at the receiver; want 0 and more than %d: %s", args, status, len(back.spans), before, &errs)
		}
		if back.header.Get("x-key") != "secret" {
			t.Errorf("%v: headers %v, want x-key: secret", args, back.header)
		}
		var wrong bytes.Buffer
		args = append(strings.Fields(words.Replace(line)), "-o", filepath.Join(dir, "unsent.pfw.gz"), "--otlp-header", "a=b")
		if status := run(context.Background(), args, ui.Streams{Out: &bytes.Buffer{}, Err: &wrong, Lookup: os.LookupEnv}); status != ui.StatusUse || !strings.Contains(wrong.String(), "--otlp-endpoint is missing") {
			t.Errorf(`%v: status %d, stderr %q; want %d and "--otlp-endpoint is missing"`, args, status, wrong.String(), ui.StatusUse)
		}
	}
	if asked.Load() > 0 {
		t.Errorf("%d requests to the backend of the environment, want none", asked.Load())
	}
}

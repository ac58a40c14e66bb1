package otlp_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/exporters/otlp"
)

const oneSpan = `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060708","name":"s","startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]}]}`

// Only files that an exporter made are deleted.
func TestReplayKeepsFilesOfOthers(t *testing.T) {
	r := (&receiver{t: t, protocol: protocols[1]}).start("")
	dir := t.TempDir()
	mine, own := filepath.Join(dir, "converted.otlp.jsonl"), filepath.Join(dir, "spans-h-1-2-3.otlp.jsonl")
	for _, path := range []string{mine, own} {
		if err := os.WriteFile(path, []byte(oneSpan+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := newExporter(t, quick(r))
	got, err := otlp.Replay(t.Context(), dir, e)
	if err != nil || got != (otlp.ReplayResult{Files: 2, Kept: 1, Sent: 2}) {
		t.Errorf("%+v %v", got, err)
	}
	if left, _ := files(t, dir); len(left) != 1 || left[0] != "converted.otlp.jsonl" {
		t.Errorf("left: %v", left)
	}
	if got, err := otlp.ReplayFile(t.Context(), mine, e); err != nil || got != (otlp.ReplayResult{Files: 1, Kept: 1, Sent: 1}) {
		t.Errorf("by name: %+v %v", got, err)
	}
	if err := os.WriteFile(own, []byte("nonsense\n"+oneSpan+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := otlp.ReplayFile(t.Context(), own, e); err == nil || got != (otlp.ReplayResult{Sent: 1, Broken: 1}) {
		t.Errorf("by name: %+v %v", got, err)
	}
	if text, err := os.ReadFile(own); err != nil || !strings.HasSuffix(string(text), oneSpan+"\n") {
		t.Errorf("a file that was named was changed: %v", err)
	}
}

// A file that cannot be sent, and a line that never ends, take no memory.
func TestReplayStreams(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "spans-h-1-2-3.otlp.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(oneSpan + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 30); err != nil { // a hole: one line of 1 GiB
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		t.Skip("reads 1 GiB")
	}
	r := (&receiver{t: t, protocol: protocols[1]}).start("")
	e := newExporter(t, quick(r))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := otlp.ReplayFile(t.Context(), path, e)
	runtime.ReadMemStats(&after)
	if err == nil || got != (otlp.ReplayResult{Sent: 1, Broken: 1}) {
		t.Errorf("%+v %v", got, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 400<<20 {
		t.Errorf("%d MiB allocated", n>>20)
	}
}

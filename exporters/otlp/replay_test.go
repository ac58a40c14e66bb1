package otlp_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/testkit/growth"
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
		t.Errorf("Replay() = %+v, %v; want 2 files, 1 kept, 2 spans sent", got, err)
	}
	if left, _ := files(t, dir); len(left) != 1 || left[0] != "converted.otlp.jsonl" {
		t.Errorf("files left: %v, want only converted.otlp.jsonl", left)
	}
	if got, err := otlp.ReplayFile(t.Context(), mine, e); err != nil || got != (otlp.ReplayResult{Files: 1, Kept: 1, Sent: 1}) {
		t.Errorf("ReplayFile of an own file = %+v, %v; want 1 file kept, 1 span sent", got, err)
	}
	if err := os.WriteFile(own, []byte("nonsense\n"+oneSpan+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := otlp.ReplayFile(t.Context(), own, e); err == nil || got != (otlp.ReplayResult{Sent: 1, Broken: 1}) {
		t.Errorf("ReplayFile of a broken file = %+v, %v; want 1 span sent, 1 broken line, and an error", got, err)
	}
	if text, err := os.ReadFile(own); err != nil || !strings.HasSuffix(string(text), oneSpan+"\n") {
		t.Errorf("ReplayFile changed the file: %v", err)
	}
}

// A file that cannot be sent, and a line without an end, take no memory.
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
		t.Errorf("ReplayFile() = %+v, %v; want 1 span sent, 1 broken line, and an error", got, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 400<<20 {
		t.Errorf("%d MiB allocated, want at most 400", n>>20)
	}
}

// idle returns an exporter to an address where nothing listens.
func idle(t testing.TB) *otlp.Exporter {
	t.Helper()
	e, err := otlp.New(context.Background(), otlp.Config{
		OTLP: config.OTLP{Protocol: protocols[1], Endpoint: "http://127.0.0.1:1"}, RetryFor: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Shutdown(context.Background()) })
	return e
}

// For any spill file: each span is counted, the file is unchanged, and memory
// is bounded by its contents.
func FuzzReplay(f *testing.F) {
	f.Add([]byte(oneSpan + "\n" + oneSpan + "\n\n{\n"))
	f.Add([]byte(strings.Repeat("[", 1000)))
	f.Add([]byte(`{"resourceSpans":[` + strings.Repeat(`{},`, 1000) + `{}]}`))
	dir, e := f.TempDir(), idle(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "spans-h-1-2-3.otlp.jsonl")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var got otlp.ReplayResult
		growth.Work(t, len(data)+2<<20, 128, func() { got, _ = otlp.Replay(t.Context(), dir, e) })
		after, err := os.ReadFile(path)
		switch {
		case got.Files == 1 && errors.Is(err, fs.ErrNotExist): // nothing is left
		case err != nil:
			t.Errorf("ReplayFile() = %+v, %v; want no error", got, err)
		case got.Sent == 0 && string(text(after)) != string(text(data)): // except for empty lines
			t.Errorf("ReplayFile() = %+v, the file contains %q; want it unchanged, as nothing was sent", got, after)
		}
	})
}

// text returns the content of lines.
func text(lines []byte) (out []byte) {
	for line := range bytes.Lines(lines) {
		out = append(out, bytes.TrimSpace(line)...)
	}
	return out
}

// Lines of a spill file, while the receiver is unreachable.
func BenchmarkGrowthReplay(b *testing.B) {
	const n = 1000
	e, paths := idle(b), map[int]string{}
	for _, n := range []int{n, 16 * n} {
		paths[n] = filepath.Join(b.TempDir(), "spans-h-1-2-3.otlp.jsonl")
		if err := os.WriteFile(paths[n], []byte(strings.Repeat(oneSpan+"\n", n)), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	growth.Bench(b, n, func(n int) {
		if got, err := otlp.ReplayFile(context.Background(), paths[n], e); err == nil || got.Left != n {
			b.Fatalf("ReplayFile() = %+v, %v; want %d left and an error", got, err, n)
		}
	})
}

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"go.uber.org/goleak"
)

// TestInterruptEndsEveryCommand checks that an interrupt ends every reading
// command and leaves no incomplete output.
func TestInterruptEndsEveryCommand(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace.pfw.gz")
	if err := makeTrace([]string{trace}); err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(dir, "torn.pfw.gz")
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(torn, data[:len(data)-30], 0o600); err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{
		"version": true, "trace": true,
		"trace watch": true, "alert": true, // end regularly
		"top":  true, // is tested on a terminal
		"run":  true, // end when their command does: TestRunPassesSignalsOnce, TestRunEndsByASignal
		"demo": true, // the same, below it
	}
	out := filepath.Join(dir, "out")
	for _, line := range []string{
		"trace summary TRACE", "trace summary TRACE --from +1ms", "trace info TRACE", "trace info TRACE --rank 0", "trace validate TRACE TORN", "trace events TRACE", "trace events TRACE --sort duration", "trace steps TRACE",
		"trace recover TORN", "trace merge TRACE TORN -o OUT.pfw.gz", "trace split TRACE -o OUT", "trace convert TRACE --to v1 -o OUT.pfw.gz",
		"trace convert TRACE --to chrome -o OUT.json.gz", "trace convert TRACE --to otlp -o OUT.otlp.jsonl", "trace convert TRACE --to parquet -o OUT", "open TRACE --no-browser --port 0",
		"trace replay DIR --endpoint http://127.0.0.1:1", "trace import PROFILE -o OUT.pfw.gz",
		"report TRACE --html OUT.html", "runs TRACE", "compare TRACE TRACE", "trace digest TRACE -o OUT.digest",
	} {
		args := strings.Fields(strings.NewReplacer("TRACE", trace, "TORN", torn, "OUT", out, "DIR", dir, "PROFILE", filepath.Join(dir, "p.json")).Replace(line))
		cmd, _, err := newRoot(&ui.App{}).Find(args)
		if err != nil {
			t.Fatal(err)
		}
		tested[calledAs(cmd)] = true
		if err := os.WriteFile(filepath.Join(dir, "p.json"), []byte(profile), 0o600); err != nil {
			t.Fatal(err)
		}
		before := listing(t, dir)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		var stdout, stderr bytes.Buffer
		status := run(ctx, args, ui.Streams{Out: &stdout, Err: &stderr})
		if cmd.Name() == "replay" { // has nothing to send
			continue
		}
		if status != ui.StatusUse || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf(`%s, interrupted: status %d, stderr %q; want %d and "interrupted"`, line, status, stderr.String(), ui.StatusUse)
		}
		if after := listing(t, dir); !slices.Equal(before, after) {
			t.Errorf("%s left %v, want %v as before", line, after, before)
		}
	}
	for _, cmd := range verbs(newRoot(&ui.App{})) {
		if !tested[calledAs(cmd)] {
			t.Errorf("%s is not tested", calledAs(cmd))
		}
	}
}

func listing(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

// TestStatusOfDamage checks that each command that reads a damaged file uses its
// readable part, reports the file on standard error and ends with status 1.
func TestStatusOfDamage(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.pfw.gz")
	if err := makeTrace([]string{good}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	text := gziptest.Text(t, data)
	whole := gziptest.Pack(text)
	changed := func(at int) []byte {
		out := bytes.Clone(whole)
		out[at] ^= 0x10
		return out
	}
	lines := bytes.SplitAfter(bytes.Clone(text), []byte("\n"))
	lines[len(lines)/2] = []byte("{nonsense\n")
	damages := map[string][]byte{
		"cut":      whole[:len(whole)*6/10],
		"bit":      changed(len(whole) * 8 / 10),
		"checksum": changed(len(whole) - 6),
		"line":     gziptest.Pack(bytes.Join(lines, nil)),
		"tail":     append(bytes.Clone(whole), "\x00garbage\xff\x00garbage\xff"...),
	}
	for name, data := range damages {
		in := filepath.Join(dir, name+".pfw.gz")
		if err := os.WriteFile(in, data, 0o600); err != nil {
			t.Fatal(err)
		}
		out := func(ext string) string { return filepath.Join(dir, name+"-out"+ext) }
		for _, c := range []string{
			"report IN", "report IN --json", "report IN --full", "trace digest IN -o " + out(".digest"), "runs IN",
			"trace info IN", "trace summary IN", "trace steps IN", "trace events IN --sort duration", "trace events IN", "trace validate IN",
			"trace convert IN --to v2 -o " + out(".v2.pfw"), "trace convert IN --to chrome -o " + out(".json"), "trace convert IN --to otlp -o " + out(".otlp.jsonl"), "trace convert IN --to parquet -o " + out(".parquet"),
			"trace merge IN -o " + out(".pfw.gz"), "trace split IN -o " + out(""),
		} {
			var stdout, stderr bytes.Buffer
			status := run(context.Background(), strings.Fields(strings.ReplaceAll(c, "IN", in)), ui.Streams{Out: &stdout, Err: &stderr})
			told := stderr.String()
			if strings.HasPrefix(c, "trace validate") {
				told = stdout.String() // the defects are its result
			}
			if status != ui.StatusData || !strings.Contains(told, in) {
				t.Errorf("%s of a file with %q: status %d, want 1; stderr: %s", c, name, status, told)
			}
		}
	}
	want(t, "report", good, "--json")
}

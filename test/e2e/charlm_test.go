package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/test/e2e/servers"
)

var sentLine = regexp.MustCompile(`spans\s+\S+, (\d+) sent, (\d+) lost`)

// TestCharlm runs the example job as a user does, with only the endpoint in the
// environment, and looks for it in Jaeger.
func TestCharlm(t *testing.T) {
	j := startJaeger(t, servers.JaegerOptions{})
	dir := t.TempDir()
	program := filepath.Join(dir, "charlm")
	if out, err := exec.CommandContext(untilDeadline(t), "go", "build", "-C", "../..", "-buildvcs=false", "-o", program, "./examples/charlm").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	total := 0
	for i := range 2 {
		cmd := exec.CommandContext(untilDeadline(t), program, "-fresh", "-epochs", "1", "-steps", "20", "-hidden", "16", "-layers", "1", "-out", filepath.Join(dir, fmt.Sprint("run", i)))
		cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+j.HTTP, "OTEL_SERVICE_NAME=charlm", fmt.Sprint("TORCHELASTIC_RESTART_COUNT=", i))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("charlm: %v\n%s", err, out)
		}
		counts := sentLine.FindSubmatch(out)
		if counts == nil || string(counts[2]) != "0" {
			t.Fatalf("run %d: want 0 spans lost\n%s", i, out)
		}
		sent, err := strconv.Atoi(string(counts[1]))
		if err != nil {
			t.Fatal(err)
		}
		total += sent
		found := spansOf(t, j.Query, "charlm", total)
		if n := len(named(found, spans.TrainingLoop)); n != i+1 {
			t.Errorf("%d training loops after %d runs, want one of each", n, i+1)
		}
		ids := byID(found)
		for _, s := range found {
			info, ok := spans.Lookup(s.Name)
			if parent := ids[s.ParentID].Name; ok && parent != info.Parent && parent != spans.Epoch {
				t.Errorf("run %d: %s is below %q, want %q", i, s.Name, parent, info.Parent)
			}
		}
	}
}

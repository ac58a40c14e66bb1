package e2e

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/trainspan/trainspan/test/e2e/servers"
)

// TestAgentMetrics compares the names in the alerts on agents with the metrics
// of a Collector that is configured as an agent.
func TestAgentMetrics(t *testing.T) {
	program := collectorProgram(t)
	dir := t.TempDir()
	c, err := servers.StartCollector(untilDeadline(t), program, []string{"../../integrations/collector/config/agent.yaml"},
		[]string{"TRACE_DIR=" + filepath.Join(dir, "traces"), "QUEUE_DIR=" + filepath.Join(dir, "queue"), "GATEWAY=127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	answer, err := http.Get("http://" + c.Metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("../../deploy/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`otelcol_\w+`).FindAll(rules, -1)
	if len(names) < 3 {
		t.Errorf("the alerts on agents are %q, want at least 3", names)
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)^` + string(name) + `[{ ]`).Match(page) {
			t.Errorf("no agent serves %s:\n%s", name, page)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestAgentUnit lets systemd check the unit of the agent, with an existing
// program.
func TestAgentUnit(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	unit, err := os.ReadFile("../../deploy/agent/trainspan-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trainspan-agent.service")
	if err := os.WriteFile(path, bytes.Replace(unit, []byte("/usr/local/bin/trainspan-collector"), []byte("/bin/true"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(verify, "verify", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v, want no error and no output\n%s", err, out)
	}
}

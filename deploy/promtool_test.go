package deploy_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// cut returns the values of a series that ends after some minutes: parts of the
// form "a+bxn" without those after the end, and a mark that the series has
// ended.
func cut(values string, minutes int) string {
	var parts []string
	left := minutes
	for part := range strings.FieldsSeq(values) {
		head, n, _ := strings.Cut(part, "x")
		count, err := strconv.Atoi(n)
		if err != nil {
			panic(err)
		}
		if left <= 0 {
			break
		}
		parts = append(parts, fmt.Sprintf("%sx%d", head, min(count, left)))
		left -= count + 1
	}
	return strings.Join(append(parts, "stale"), " ")
}

// TestPromtool checks and tests the alerts with Prometheus's own tool.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool (apt-get install prometheus): the alerts are not tested")
	}
	if out, err := exec.Command(promtool, "check", "rules", "prometheus/rules.yaml").CombinedOutput(); err != nil {
		t.Fatalf("promtool check rules: %v\n%s", err, out)
	}
	dir := t.TempDir()
	text, err := os.ReadFile("prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// The test compares whether an alert fires and its labels, not its text.
	text = regexp.MustCompile(`(?m)^        annotations:\n(          .*\n)+`).ReplaceAll(text, nil)
	names := regexp.MustCompile(`- alert: (\w+)`).FindAllSubmatch(text, -1)
	if len(names) != len(alerts) {
		t.Errorf("%d alerts, %d tests; want one for each", len(names), len(alerts))
	}
	for i, m := range names {
		if i < len(alerts) && string(m[1]) != alerts[i].name {
			t.Errorf("test %s is in the place of %s, want the order of the alerts", m[1], alerts[i].name)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "test.yaml"), []byte(promtoolTest("rules.yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(promtool, "test", "rules", "test.yaml")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("promtool test rules: %v\n%s", err, out)
	}
}

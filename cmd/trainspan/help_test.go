package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
)

// TestHelp: commands stand in groups, each with one; pages, their sections and what messages
// name are there without a file.
func TestHelp(t *testing.T) {
	status, out, _ := cli(t, "help")
	if status != 0 {
		t.Fatal(out)
	}
	for _, g := range groups {
		if !strings.Contains(out, g.Title) {
			t.Errorf("no %q in\n%s", g.Title, out)
		}
	}
	for _, cmd := range newRoot(&ui.App{}).Commands() {
		if cmd.GroupID == "" && !cmd.Hidden && cmd.Name() != "version" && cmd.Name() != "completion" && cmd.Name() != "help" {
			t.Errorf("%s is in no group", cmd.Name())
		}
	}
	for topic, want := range map[string]string{
		"goodput": "# Goodput", "stragglers": "What holds a job up", "dialects": "# Dialects", "environment": "# Configuration", "exit-status": "Exit",
		"troubleshooting": "# Troubleshooting", "a-trace-is-damaged-or-cut-off": "### A trace is damaged or cut off", "report": "trainspan report out/demo", "screen": "# The report", "recording": "# Recording any job",
	} {
		if status, out, said := cli(t, "help", topic); status != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: status %d, no %q: %.200s%s", topic, status, want, out, said)
		}
	}
	if status, _, said := cli(t, "help", "reprot"); status != 2 || !strings.Contains(said, "did you mean trainspan help report?") {
		t.Errorf("status %d: %s", status, said)
	}
	if status, out, _ := cli(t, "version"); status != 0 || !strings.HasPrefix(out, "trainspan ") {
		t.Errorf("status %d: %s", status, out)
	}
}

// TestMessagesNameHelp: each section that a message names is one that the help prints.
func TestMessagesNameHelp(t *testing.T) {
	src, err := os.ReadFile("../../internal/platform/helptopic/helptopic.go")
	if err != nil {
		t.Skip(err)
	}
	found := regexp.MustCompile(`= page \+ "([a-z0-9-]+)"`).FindAllStringSubmatch(string(src), -1)
	if len(found) < 20 {
		t.Fatalf("only %d names", len(found))
	}
	for _, m := range found {
		if status, out, _ := cli(t, "help", m[1]); status != 0 || !strings.Contains(out, "###") {
			t.Errorf("help %s: status %d: %.100s", m[1], status, out)
		}
	}
}

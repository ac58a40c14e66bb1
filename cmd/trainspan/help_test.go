package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
)

// TestHelp checks that the help lists ten commands, that the others are below
// trace or hidden, and that pages, their sections and the topics of messages
// are available without a file.
func TestHelp(t *testing.T) {
	status, out, _ := cli(t, "help")
	if status != 0 {
		t.Fatal(out)
	}
	_, list, _ := strings.Cut(out, "Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var got []string
	for line := range strings.Lines(list) {
		got = append(got, strings.Fields(line)[0])
	}
	if want := strings.Fields("run report top compare runs open alert demo help version"); !slices.Equal(got, want) {
		t.Errorf("the help lists %q, want %q", got, want)
	}
	for _, cmd := range verbs(newRoot(&ui.App{})) {
		if name := calledAs(cmd); !slices.Contains(got, name) && !strings.HasPrefix(name, "trace") {
			t.Errorf("%s is not in the help", name)
		}
	}
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns, want at most 80: %s", n, line)
		}
	}
	for topic, want := range map[string]string{
		"goodput": "# Goodput", "stragglers": "# Slow ranks", "dialects": "# Dialects", "environment": "# Configuration", "exit-status": "Exit",
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

// TestMessagesNameHelp checks that the help prints each section that a message
// names.
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
		if status, out, _ := cli(t, "help", m[1]); status != 0 || !strings.Contains(out, "#") {
			t.Errorf("help %s: status %d: %.100s", m[1], status, out)
		}
	}
}

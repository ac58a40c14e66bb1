package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/docs"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// TestHelp checks that the help lists ten commands, that the others are below
// trace or hidden, and that pages, their sections and the topics of messages
// are available without a file.
func TestHelp(t *testing.T) {
	status, out, _ := cli(t, "help")
	if status != 0 {
		t.Fatalf("help: status %d, want 0: %s", status, out)
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
	if _, out, _ := cli(t, "help", "cli"); strings.Contains(out, "<!--") || !strings.Contains(out, "`trace digest`") {
		t.Errorf("help cli shows comments of its source or no list of commands: %.600s", out)
	}
	for topic, want := range map[string]string{
		"goodput": "# Goodput", "stragglers": "# Slow ranks", "dialects": "# Dialects", "environment": "# Configuration", "exit-status": "Exit",
		"troubleshooting": "# Troubleshooting", "a-trace-is-damaged-or-cut-off": "### A trace is damaged or cut off", "report": "trainspan report out/demo", "screen": "# The report", "recording": "# Recording any job",
	} {
		if status, out, said := cli(t, "help", topic); status != 0 || !strings.Contains(out, want) {
			t.Errorf("help %s: status %d, want 0 and %q: %.200s%s", topic, status, want, out, said)
		}
	}
	if status, _, said := cli(t, "help", "reprot"); status != 2 || !strings.Contains(said, "did you mean trainspan help report?") {
		t.Errorf(`help reprot: status %d, stderr %q; want 2 and "did you mean trainspan help report?"`, status, said)
	}
	if status, out, _ := cli(t, "version"); status != 0 || !strings.HasPrefix(out, "trainspan ") {
		t.Errorf(`version: status %d, %q; want 0 and a line that begins with "trainspan "`, status, out)
	}
}

// TestPageNames checks that page names are unique, because the help finds pages without their
// folder.
func TestPageNames(t *testing.T) {
	names, err := fs.Glob(docs.Pages, "*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]string)
	for _, name := range names {
		base := path.Base(name)
		if other := seen[base]; other != "" {
			t.Errorf("pages %s and %s have the same name, want different ones", other, name)
		}
		seen[base] = name
	}
}

// TestMessagesNameHelp checks that the help has each section that a message names.
func TestMessagesNameHelp(t *testing.T) {
	src, err := os.ReadFile("../../internal/platform/helptopic/helptopic.go")
	if err != nil {
		t.Skip(err)
	}
	found := regexp.MustCompile(`= page \+ "([a-z0-9-]+)"`).FindAllStringSubmatch(string(src), -1)
	if len(found) < 20 {
		t.Fatalf("only %d names, want at least 20", len(found))
	}
	for _, m := range found {
		if status, out, _ := cli(t, "help", m[1]); status != 0 || !strings.Contains(out, "#") {
			t.Errorf("help %s: status %d, want 0 and a page with headings: %.100s", m[1], status, out)
		}
	}
}

// TestCommandsInDocs compares the list of commands in docs/reference/cli.md with the
// commands. -update writes it.
func TestCommandsInDocs(t *testing.T) {
	const page = "../../docs/reference/cli.md"
	var rows strings.Builder
	rows.WriteString("| command | what it does |\n| --- | --- |\n")
	tools := verbs(newRoot(&ui.App{}))
	slices.SortStableFunc(tools, func(a, b *cobra.Command) int {
		return cmp.Compare(strings.Count(calledAs(a), " "), strings.Count(calledAs(b), " "))
	})
	for _, cmd := range tools {
		if !cmd.HasSubCommands() {
			fmt.Fprintf(&rows, "| `%s` | %s |\n", calledAs(cmd), cmd.Short)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	between := regexp.MustCompile(`(?s)(<!-- commands: [^\n]*\n)(.*?)(<!-- end of commands -->)`)
	m := between.FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no place for the list of commands", page)
	}
	if string(m[2]) == rows.String() {
		return
	}
	if !*rewrite {
		t.Errorf("%s differs from the commands: run go test . -run CommandsInDocs -update", page)
		return
	}
	text = between.ReplaceAllLiteral(text, []byte(string(m[1])+rows.String()+string(m[3])))
	if err := os.WriteFile(page, text, 0o644); err != nil { //nolint:gosec // a document
		t.Fatal(err)
	}
}

// TestPageLines checks how a page looks on a terminal: tables are laid out and complete, paragraphs have no indented
// lines, links have no addresses, and code is unchanged. Elsewhere a page is its Markdown.
func TestPageLines(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 60))
	page := "# Title\n\n<!-- made -->\nA [link](to.md#x) in " + long + ".\n\n| a | b |\n| --- | --- |\n| `x` | " + long + " [here](y.md) |\n| y |\n\n```sh\n| not | a table | [x](y)\n```\nEnd\n"
	got := strings.Join(pageLines(page, 60), "\n")
	for _, want := range []string{"# Title\n\nA link in word word", "\n  a    b\n  `x`  word word", " here\n", "\n  y\n", "\n| not | a table | [x](y)\n", "\nEnd"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "word"); n != 120 || strings.Contains(got, "…") || strings.Contains(got, "made") {
		t.Errorf("%d words, want 120, nothing left out and no comment:\n%s", n, got)
	}
	for _, line := range strings.Split(got, "\n") {
		if display.Width(line) > 60 {
			t.Errorf("%q is %d wide, want at most 60", line, display.Width(line))
		}
	}
	if got, want := strings.Join(pageLines(page, 0), "\n")+"\n", strings.Replace(page, "<!-- made -->\n", "", 1); got != want {
		t.Errorf("without a terminal: got %q, want %q", got, want)
	}
}

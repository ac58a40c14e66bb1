package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/docs"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// commands are those of the help, in its order. Tools for files are below
// trainspan trace.
var commands = []string{"run", "report", "top", "compare", "runs", "open", "alert", "demo", "help", "version"}

// printCommands prints the usage of trainspan itself.
func printCommands(a *ui.App, root *cobra.Command) error {
	text := func(of string) {
		for line := range strings.Lines(of) {
			a.Printf("%s\n", strings.TrimRight(line, "\n"))
		}
	}
	a.Printf("Usage:\n  trainspan COMMAND [ARGUMENT...] [flags]\n\nExamples:\n")
	text(root.Example)
	a.Printf("\nCommands:\n")
	for _, name := range commands {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			return err
		}
		a.Printf("  %-9s %s\n", name, cmd.Short)
	}
	a.Printf("\nTools for trace files:  trainspan trace --help\nShell completion:       trainspan completion --help\n")
	a.Printf("\nFlags:\n")
	text(root.LocalFlags().FlagUsages())
	a.Printf("\n")
	text(rootNotes)
	a.Printf("\ntrainspan COMMAND --help describes a command.\n")
	return nil
}

// printHelp prints the help of a command for a terminal with a number of columns: paragraphs and the descriptions
// of flags are as wide as it is.
func printHelp(a *ui.App, cmd *cobra.Command, columns int) {
	paragraph := ""
	end := func() {
		for _, line := range display.Fold(paragraph, columns) {
			a.Printf("%s\n", line)
		}
		paragraph = ""
	}
	for line := range strings.Lines(cmp.Or(cmd.Long, cmd.Short) + "\n\n") {
		if text := strings.TrimRight(line, "\n"); text != "" && !strings.HasPrefix(text, " ") {
			paragraph += " " + text
			continue
		} else if end(); text == "" || display.Width(text) <= columns {
			a.Printf("%s\n", text)
		} else {
			for _, part := range display.Fold(text, columns-2) {
				a.Printf("  %s\n", part)
			}
		}
	}
	if cmd.Parent() == nil {
		_ = printCommands(a, cmd) // its commands exist
		return
	}
	text := cmd.UsageString()
	for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
		text = strings.Replace(text, strings.TrimRight(flags.FlagUsages(), "\n"), strings.TrimRight(flags.FlagUsagesWrapped(columns), "\n"), 1)
	}
	for line := range strings.Lines(text) {
		a.Printf("%s\n", strings.TrimRight(line, "\n"))
	}
}

// newHelp replaces cobra's help of commands by one that also has pages.
func newHelp(a *ui.App, root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Help about a command, or a page or section of the documentation",
		Long: `Prints the help of a command, a page of the documentation, or the section that a
message names ("see trainspan help a-trace-is-damaged-or-cut-off"). Names that end in
.json are schemas (JSON Schema 2020-12) of the --json outputs. On a terminal pages are
shown in $PAGER, by default less.

Pages: ` + strings.Join(pageNames(), ", ") + ".",
		Example: "  trainspan help report\n  trainspan help trace summary\n  trainspan help goodput\n  trainspan help exit-status",
		RunE:    func(_ *cobra.Command, args []string) error { return runHelp(a, root, args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return pageNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
}

func newVersion(a *ui.App) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) { a.Printf("trainspan %s\n", version()) },
	}
}

// aliases are topics that are sections, or pages with other names.
var aliases = map[string]string{
	"environment": "configuration", "exit-status": "for-all-commands", "otlp": "signals",
	"profiles": "pytorch-profiles", "pytorch": "pytorch-profiles",
	"screen": "report", "recording": "run", // topics with the names of commands
}

// schemaNames are the schemas for the JSON of commands.
var schemaNames = []string{"report.json", "compare.json", "runs.json", "runs-sum.json", "starts.json"}

// topics returns the pages by topic.
func topics() map[string]string {
	out := make(map[string]string)
	names, err := fs.Glob(docs.Pages, "*/*.md")
	if err != nil {
		panic(err) // an invalid pattern
	}
	for _, name := range names {
		out[strings.TrimSuffix(path.Base(name), ".md")] = name
	}
	for _, name := range schemaNames {
		out[name] = "reference/schema/" + name
	}
	for word, name := range aliases {
		if page, ok := out[name]; ok {
			out[word] = page
		}
	}
	return out
}

// pageNames returns the topics of all pages.
func pageNames() []string {
	return slices.Sorted(maps.Keys(topics()))
}

// runHelp prints the help of a command, a page or a section.
func runHelp(a *ui.App, root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return root.Help()
	}
	word := strings.ToLower(strings.Join(args, "-"))
	other, page := aliases[word]
	if cmd, rest, err := root.Find(args); err == nil && cmd != root && len(rest) == 0 && !page {
		cmd.InitDefaultHelpFlag()
		return cmd.Help()
	}
	if page {
		word = other
	}
	pages := topics()
	if name, ok := pages[word]; ok {
		return printPage(a, name, "")
	}
	for _, name := range slices.Sorted(maps.Values(pages)) {
		if err := printPage(a, name, word); err == nil {
			return nil
		}
	}
	if near := suggestion(root, word); near != "" {
		return ui.Usage("unknown command or topic %q; did you mean trainspan help %s?", word, strings.TrimPrefix(near, "trainspan "))
	}
	return ui.Usage("unknown command or topic %q; trainspan help help lists the topics", word)
}

// printPage prints a page, or the section of it with an anchor.
func printPage(a *ui.App, name, anchor string) error {
	data, err := docs.Pages.ReadFile(name)
	if err != nil {
		return fmt.Errorf("help: %w", err)
	}
	text := string(data)
	if anchor != "" {
		if text = section(text, anchor); text == "" {
			return ui.Usage("%s has no section %s", name, anchor)
		}
	}
	width := a.Width()
	a.Paged(func() {
		for _, line := range pageLines(text, width) {
			a.Printf("%s\n", line)
		}
	})
	return nil
}

// link is a link of Markdown to another place of the documentation.
var link = regexp.MustCompile(`\[([^][]+)\]\([^()\s]+\)`)

// pageLines returns the lines of a page, without comments about what a part is generated from. For a terminal with
// a number of columns it lays out the tables, and leaves out where links lead to; 0 is no terminal.
func pageLines(text string, columns int) (out []string) {
	var rows [][]string // of the table so far
	code := false
	end := func() {
		if len(rows) == 0 {
			return
		}
		t := &display.Table{Whole: true}
		for _, cell := range rows[0] {
			t.Heads = append(t.Heads, "<"+cell)
		}
		for _, row := range rows[1:] {
			t.Add(append(row, make([]string, max(len(t.Heads)-len(row), 0))...)[:len(t.Heads)]...)
		}
		heads, lines := t.Lines(columns)
		out, rows = append(append(out, heads), lines...), nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		code = code != strings.HasPrefix(line, "```")
		switch {
		case strings.HasPrefix(line, "<!--"):
		case columns == 0 || code:
			out = append(out, line)
		case strings.HasPrefix(line, "|"):
			cells := strings.Split(strings.Trim(line, "| "), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(link.ReplaceAllString(cells[i], "$1"))
			}
			if strings.Trim(line, "|-: ") != "" {
				rows = append(rows, cells)
			}
		default:
			end()
			if line = link.ReplaceAllString(line, "$1"); strings.HasPrefix(line, "!") { // a picture and what it shows
				line = "(" + strings.TrimPrefix(line, "!") + ")"
			}
			if indent := len(line) - len(strings.TrimLeft(line, " ")); indent == 0 && !strings.HasPrefix(line, "- ") && display.Width(line) > columns {
				out = append(out, display.Fold(line, columns)...)
			} else {
				out = append(out, line)
			}
		}
	}
	end()
	return out
}

// section returns a heading with this anchor and the text below it, or "".
func section(text, anchor string) string {
	var out strings.Builder
	level, code := 0, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if n := len(line) - len(strings.TrimLeft(line, "#")); n > 0 && !code {
			if level > 0 && n <= level {
				break
			}
			if level == 0 && anchorOf(line[n:]) == anchor {
				level = n
			}
		}
		if level > 0 {
			out.WriteString(line)
		}
	}
	return out.String()
}

// anchorOf returns the anchor of a heading, as on GitHub.
func anchorOf(heading string) string {
	var out strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == ' ':
			out.WriteByte('-')
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			out.WriteRune(r)
		}
	}
	return out.String()
}

package main

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/docs"
)

// Groups of commands, by what somebody wants.
const (
	groupRecord  = "record"
	groupAnswer  = "answer"
	groupLook    = "look"
	groupFiles   = "files"
	groupOperate = "operate"
)

var groups = []*cobra.Group{
	{ID: groupRecord, Title: "Record a job:           trainspan run -- python train.py"},
	{ID: groupAnswer, Title: "Get answers:            trainspan report"},
	{ID: groupLook, Title: "Look at what happened:  trainspan open trace.pfw.gz"},
	{ID: groupFiles, Title: "Work with files:        trainspan validate out/"},
	{ID: groupOperate, Title: "Operate:                trainspan top trainspan-runs"},
}

// groupOf has the commands in the order of the help.
var groupOf = map[string]string{
	"run": groupRecord, "demo": groupRecord, "import": groupRecord, "watch": groupRecord,
	"report": groupAnswer, "compare": groupAnswer, "runs": groupAnswer, "summary": groupAnswer, "steps": groupAnswer,
	"open": groupLook, "events": groupLook, "info": groupLook,
	"validate": groupFiles, "recover": groupFiles, "merge": groupFiles, "split": groupFiles, "convert": groupFiles, "digest": groupFiles,
	"top": groupOperate, "alert": groupOperate, "replay": groupOperate,
}

// arrange puts the commands into their groups, and the help of topics in the place of that
// of commands alone.
func arrange(a *ui.App, root *cobra.Command) {
	root.AddGroup(groups...)
	for _, cmd := range root.Commands() {
		cmd.GroupID = groupOf[cmd.Name()]
	}
	help := &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Help about a command, or a page or section of the documentation",
		Long: `Prints the help of a command, a page of the documentation, or the section of it that
a message names ("see trainspan help a-trace-is-damaged-or-cut-off"). Names that end in
.json are schemas (JSON Schema 2020-12) of what --json prints.

Pages: ` + strings.Join(pageNames(), ", ") + ".",
		Example: "  trainspan help report\n  trainspan help goodput\n  trainspan help exit-status",
		RunE:    func(_ *cobra.Command, args []string) error { return runHelp(a, root, args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return pageNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	root.SetHelpCommand(help)
	version := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(*cobra.Command, []string) { a.Printf("trainspan %s\n", root.Version) },
	}
	root.AddCommand(version)
}

// aliases are topics that are sections, or pages of other names.
var aliases = map[string]string{
	"environment": "configuration", "exit-status": "for-all-commands", "profiles": "pytorch",
	"screen": "report", "recording": "run", // whose names are those of commands
}

// schemaNames are the files that say how the JSON of a command looks.
var schemaNames = []string{"report.json", "compare.json", "runs.json"}

// topics are the pages by the words that name them.
func topics() map[string]string {
	out := make(map[string]string)
	names, err := fs.Glob(docs.Pages, "*.md")
	if err != nil {
		panic(err) // a pattern that is wrong
	}
	for _, name := range names {
		out[strings.TrimSuffix(name, ".md")] = name
	}
	for _, name := range schemaNames {
		out[name] = "schema/" + name
	}
	for word, name := range aliases {
		if page, ok := out[name]; ok {
			out[word] = page
		}
	}
	return out
}

// pageNames are the words for all pages.
func pageNames() []string {
	return slices.Sorted(maps.Keys(topics()))
}

// help prints what is known of a command, a page or a section.
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
	if near := root.SuggestionsFor(word); len(near) > 0 {
		return ui.Usage("no command and no topic is called %q; did you mean trainspan help %s?", word, near[0])
	}
	return ui.Usage("no command and no topic is called %q; trainspan help help lists the topics", word)
}

// page prints a page, or the section of it with an anchor.
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
	for line := range strings.Lines(text) {
		a.Printf("%s\n", strings.TrimRight(line, "\n"))
	}
	return nil
}

// section returns a heading with this anchor and what is below it, empty without one.
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

// anchorOf is the anchor of a heading, as pages on the web have it.
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

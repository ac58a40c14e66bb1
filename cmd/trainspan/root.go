package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// run runs the command line and returns the exit status.
func run(ctx context.Context, args []string, s ui.Streams) int {
	a := ui.New(s)
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	err := root.ExecuteContext(ctx)
	if failed := a.Stdout.Flush(); err == nil && failed != nil {
		err = fmt.Errorf("write to standard output: %w", failed)
	}
	if err == nil && a.Problems > 0 {
		return ui.StatusData
	}
	if err == nil {
		return ui.StatusOK
	}
	var known *ui.StatusError
	if errors.As(err, &known) && known.Quiet {
		return known.Status
	}
	p := a.Paint(a.Stderr)
	_, _ = display.Fprintf(a.Stderr, "%s %s\n", p.Bad("trainspan:"), ui.Explain(err)) // an error cannot be reported
	if known != nil {
		return known.Status
	}
	return ui.StatusUse
}

const rootLong = `trainspan reports where the time of a training job goes and which rank is slow.
It records any job, and reads DFTracer files (.pfw, .pfw.gz), JSON lines, OTLP
spans, PyTorch profiles and compile logs.`

// rootNotes is the end of the help of trainspan itself.
const rootNotes = `A run is named by its id, as trainspan runs lists it, or by its files: names,
globs ("out/*.pfw.gz") or directories, which mean all traces in them.
Without a name, commands use the newest run. Unreadable files are reported and
skipped.

Exit status: 0 success; 1 the data has problems, which are reported on standard
error; 2 wrong use, interrupted, no readable input, or an output that cannot be
written.`

func newRoot(a *ui.App) *cobra.Command {
	root := &cobra.Command{
		Use:                        "trainspan",
		Short:                      "Report where the time of a training job goes, and which rank is slow",
		Long:                       rootLong,
		Example:                    "  trainspan demo\n  trainspan run -- python train.py\n  trainspan report",
		Version:                    version(),
		SilenceUsage:               true,
		SilenceErrors:              true,
		Args:                       cobra.ArbitraryArgs,
		RunE:                       helpOrUnknown,
		SuggestionsMinimumDistance: 2,
		CompletionOptions:          cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetVersionTemplate("trainspan {{.Version}}\n")
	root.PersistentFlags().BoolVar(&a.NoBar, "no-progress", false, "no progress bar, even on a terminal")
	root.PersistentFlags().Var(ui.NewChoice(&a.Color, ui.Colours...), "color", "colours: auto, always or never")
	ui.Words(root, "color", ui.Colours...)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
			return unknownCommand(cmd, args[0]) // its flags are unknown because the command is
		}
		return ui.Usage("%v; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(
		newRun(a), newReport(a), newTop(a), newCompare(a), newRuns(a), newOpen(a), newAlert(a), newDemo(a), newVersion(a), newTrace(a),
		newRunTelemetry(), newDemoJob(),
	)
	root.SetHelpCommand(newHelp(a, root))
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if width := a.Width(); width > 0 {
			printHelp(a, cmd, width)
		} else {
			help(cmd, args)
		}
	})
	usage := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		if cmd == root {
			return printCommands(a, root)
		}
		return usage(cmd)
	})
	return root
}

// newTrace returns the tools for files. Reports and runs do not need them.
func newTrace(a *ui.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Inspect, check, repair, convert and import trace files",
		Long: `Tools for trace files. Reports do not need them: trainspan report reads the files of
a run as they are.`,
		Example: `  trainspan trace summary train.3
  trainspan trace validate out/
  trainspan trace import profiler/ -o run.pfw.gz`,
		Args:                       cobra.ArbitraryArgs,
		RunE:                       helpOrUnknown,
		SuggestionsMinimumDistance: 2,
	}
	for _, group := range []struct {
		title string
		tools []*cobra.Command
	}{
		{"Inspect traces:", []*cobra.Command{newSummary(a), newInfo(a), newSteps(a), newEvents(a)}},
		{"Check and repair:", []*cobra.Command{newValidate(a), newRecover(a)}},
		{"Write other files:", []*cobra.Command{newConvert(a), newMerge(a), newSplit(a), newDigest(a)}},
		{"Import and send:", []*cobra.Command{newImport(a), newWatch(a), newReplay(a)}},
	} {
		cmd.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, tool := range group.tools {
			tool.GroupID = group.title
		}
		cmd.AddCommand(group.tools...)
	}
	return cmd
}

// helpOrUnknown runs a command that only has subcommands.
func helpOrUnknown(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	return cmd.Help()
}

// unknownCommand returns the error for a word that is not a subcommand of
// parent. It suggests commands of all levels.
func unknownCommand(parent *cobra.Command, word string) error {
	hint := parent.CommandPath() + " --help lists the commands"
	if near := suggestion(parent, word); near != "" {
		hint = "did you mean " + near + "?"
	}
	return ui.Usage("%q is not a command of %s; %s", word, parent.CommandPath(), hint)
}

// suggestion returns the command line whose last word is most similar to word,
// or "". Commands with the same name and those of parent come first.
func suggestion(parent *cobra.Command, word string) string {
	best := ""
	for _, from := range append([]*cobra.Command{parent, parent.Root()}, parent.Root().Commands()...) {
		for _, cmd := range from.Commands() {
			if cmd.Name() == word {
				return cmd.CommandPath()
			}
		}
		if near := from.SuggestionsFor(word); best == "" && len(near) > 0 {
			best = from.CommandPath() + " " + near[0]
		}
	}
	return best
}

// release is the version of a release; its build sets it.
var release string

// version returns the version of this program: the release, the version of its
// module or, for a build from a working tree, the commit.
func version() string {
	if release != "" {
		return release + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = " " + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	return v + commit + changed + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}

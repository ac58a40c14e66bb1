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
	_, _ = display.Fprintf(a.Stderr, "%s %s\n", p.Bad("trainspan:"), ui.Explain(err)) // nothing is left to tell it to
	if known != nil {
		return known.Status
	}
	return ui.StatusUse
}

const rootLong = `trainspan tells where the time of a training job goes and which rank is slow. It
records any job, and reads, checks and converts traces: DFTracer files (.pfw,
.pfw.gz), JSON lines, and what PyTorch's profiler and compiler write.

Files may be given as names, as globs ("out/*.pfw.gz") or as directories, which
stand for every trace in them. Unreadable files are reported and skipped.

Exit status: 0 all is well; 1 the data has problems, which are told on standard
error; 2 wrong use, interrupted, nothing that could be read, or an output that
cannot be written.`

func newRoot(a *ui.App) *cobra.Command {
	root := &cobra.Command{
		Use:           "trainspan",
		Short:         "Tell where the time of a training job goes, and which rank is slow",
		Long:          rootLong,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				hint := "trainspan --help lists the commands"
				if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
					hint = "did you mean trainspan " + near[0] + "?"
				}
				return ui.Usage("%q is not a command; %s", args[0], hint)
			}
			return cmd.Help()
		},
		SuggestionsMinimumDistance: 2,
	}
	root.SetVersionTemplate("trainspan {{.Version}}\n")
	root.PersistentFlags().BoolVar(&a.NoBar, "no-progress", false, "no progress bar, even on a terminal")
	root.PersistentFlags().Var(ui.NewChoice(&a.Color, ui.Colours...), "color", "colours: auto (on terminals), always or never")
	ui.Words(root, "color", ui.Colours...)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return ui.Usage("%v; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(
		newSummary(a), newInfo(a), newSteps(a), newEvents(a), newValidate(a), newOpen(a), newImport(a), newWatch(a), newMerge(a), newSplit(a),
		newRecover(a), newConvert(a), newReplay(a),
		newReport(a), newRuns(a), newTop(a), newAlert(a), newDigest(a), newCompare(a),
		newRun(a), newRunTelemetry(), newDemo(a), newDemoJob(),
	)
	arrange(a, root)
	return root
}

// release is the version that a release was built as; its build sets it.
var release string

// version says which program this is: the release, the version of its module or, of
// a build from a working tree, the commit.
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

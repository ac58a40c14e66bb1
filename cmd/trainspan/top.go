package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
)

func newTop(a *ui.App) *cobra.Command {
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "top DIR...",
		Short: "Show a running job's report, and renew it while the files grow",
		Long: `Shows the screen of "trainspan report" for a job that is running, and renews it
as its files grow: of one rank or of a thousand, on the machine that trains or
wherever the files can be read. An empty directory is waited for.

It reads all files again when they have changed, and takes at most a fifth of one
processor core for that: after a reading that took long it waits longer. The
first line says when the files were read and when they will be next.

Keys: q ends it, r reads at once, ? lists all keys.`,
		Example: `  trainspan top out/demo
  trainspan top /shared/runs/4711 --interval 30s`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runTop(cmd.Context(), a, args, interval) },
	}
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "shortest time between two readings")
	return cmd
}

func runTop(ctx context.Context, a *ui.App, args []string, interval time.Duration) error {
	if len(args) == 0 {
		return ui.Usage("no directory is given; name that of a job, such as out/demo")
	}
	if interval <= 0 {
		return ui.Usage("--interval %v: give a time above 0", interval)
	}
	if _, err := read.WalkFiles(args...); err != nil {
		return err
	}
	if v, _ := a.Env("TERM"); !ui.Terminal(a.Streams.Out) || v == "dumb" {
		return ui.Usage("top draws on a terminal, and standard output is none; trainspan report prints the same screen once")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop() // a reading that is under way then ends; nobody waits for it
	m := newTopModel(ctx, &topReader{paths: args, interval: interval, now: time.Now}, a.Paint(a.Stdout))
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithOutput(a.Streams.Out), tea.WithoutSignalHandler()}
	if f, ok := a.Streams.In.(*os.File); ok && ui.Terminal(f) { // otherwise it opens the terminal itself
		options = append(options, tea.WithInput(f))
	}
	// Version 2 of Bubble Tea: version 1 asks the terminal for its colours, and
	// waits for the answer, at the start of every command that it is linked into.
	_, err := tea.NewProgram(m, options...).Run()
	if errors.Is(err, context.Canceled) { // an interrupt is a way to end it
		return nil
	}
	if err != nil {
		return fmt.Errorf("top: %w; trainspan report prints the same screen once", err)
	}
	return nil
}

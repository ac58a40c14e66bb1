//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/demo"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
)

// demoCommand is the hidden command of the processes of the demo.
const demoCommand = "demo-job"

func newDemo(a *ui.App) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Record a small built-in job with two faults, and show its report",
		Long: `Records a job of four processes on this machine. It needs no other software. Rank 2
gets its data late in every step. After half of the steps all processes are killed;
they restart from their last checkpoint. The job takes about seven seconds and little
processor time. Its files are in trainspan-runs, as for any job of "trainspan run".`,
		Example: `  trainspan demo
  trainspan report demo --full
  trainspan open demo`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), a) },
	}
}

func runDemo(ctx context.Context, a *ui.App) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// The second start continues where the first one died, and is another attempt
	// of its run.
	for attempt, args := range [][]string{
		{"run", "--name", "demo", "--quiet", "--", self, demoCommand, "0", strconv.Itoa(demo.Standard.KillAt)},
		{"run", "--name", "demo", "--", self, demoCommand, strconv.Itoa(demo.Standard.KillAt / demo.Standard.Save * demo.Standard.Save), "0"},
	} {
		if attempt == 0 {
			a.Note("four processes train, and are killed after %d of %d steps", demo.Standard.KillAt, demo.Standard.Steps)
		} else {
			a.Note("they restart from their last checkpoint")
		}
		err := runSelf(ctx, a, a.Streams.In, a.Stdout, args...)
		var exit *exec.ExitError
		if errors.As(err, &exit) && attempt == 0 && exit.ExitCode() == statusKilled {
			continue
		}
		if errors.As(err, &exit) && exit.Exited() {
			return &ui.StatusError{Status: exit.ExitCode(), Quiet: true, Err: err}
		}
		if err != nil {
			return err
		}
	}
	a.Note("all tables: trainspan report demo --full")
	return nil
}

// statusKilled is the exit status of the job whose processes were killed as
// planned.
const statusKilled = 137

// newDemoJob returns the command of the demo's job: its launcher and, with the
// address at which they meet, each of its processes.
func newDemoJob() *cobra.Command {
	return &cobra.Command{
		Use: demoCommand, Hidden: true, Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			job := demo.Standard
			var err1, err2 error
			job.First, err1 = strconv.Atoi(args[0])
			job.KillAt, err2 = strconv.Atoi(args[1])
			if err := errors.Join(err1, err2); err != nil {
				return ui.Usage("only trainspan demo starts %s: %v", demoCommand, err)
			}
			if len(args) == 3 {
				return demo.Work(cmd.Context(), &job, args[2])
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			err = demo.Launch(cmd.Context(), &job, append([]string{self, demoCommand}, args...)...)
			if errors.Is(err, demo.ErrKilled) {
				return &ui.StatusError{Status: statusKilled, Quiet: true, Err: err}
			}
			return err
		},
	}
}

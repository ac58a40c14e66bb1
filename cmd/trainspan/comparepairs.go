package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// mostPairs bounds the pairs of one comparison.
const mostPairs = 100

// splitCommands returns the two commands of compare --pairs N -- BASE... --
// NEW....
func splitCommands(args []string, dash int) (base, next []string, err error) {
	if dash == 0 {
		if at := slices.Index(args, "--"); at > 0 && at < len(args)-1 {
			return args[:at], args[at+1:], nil
		}
	}
	return nil, nil, ui.Usage("compare --pairs takes two commands: trainspan compare --pairs 5 -- COMMAND... -- COMMAND...")
}

// runPairs runs two commands alternately, in reverse order in every other pair
// (ABBA), and returns the folders of their runs. Their output goes to standard
// error.
func runPairs(ctx context.Context, a *ui.App, pairs int, base, next []string) (bases, nexts []string, err error) {
	if pairs < 2 || pairs > mostPairs {
		return nil, nil, ui.Usage("--pairs %d: use 2 to %d", pairs, mostPairs)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("compare: cannot find the trainspan program: %w", err)
	}
	dir := filepath.Join(rundir.Root, "pairs-"+time.Now().UTC().Format("20060102T150405.000"))
	for i := range pairs {
		sides := []struct {
			name    string
			command []string
			to      *[]string
		}{{"base", base, &bases}, {"new", next, &nexts}}
		if i%2 == 1 {
			slices.Reverse(sides)
		}
		for _, s := range sides {
			out := filepath.Join(dir, fmt.Sprintf("%s-%d", s.name, i+1))
			a.Note("pair %d of %d: %s, %s", i+1, pairs, s.name, display.Text(s.command[0]))
			cmd := exec.CommandContext(ctx, self, append([]string{"run", "--quiet", "--dir", out, "--"}, s.command...)...) //nolint:gosec // the user's own command
			cmd.Args[0] = "trainspan"
			cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, a.Stderr, a.Stderr
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
			cmd.WaitDelay = 10 * time.Second
			if err := cmd.Run(); err != nil {
				if ctx.Err() != nil {
					return nil, nil, ctx.Err()
				}
				var ended *exec.ExitError
				if errors.As(err, &ended) {
					return nil, nil, fmt.Errorf("compare: the %s command of pair %d failed (%s): its files are in %s; both commands of each pair must succeed", s.name, i+1, ended.ProcessState, out)
				}
				return nil, nil, fmt.Errorf("compare: %w", err)
			}
			if i == 0 { // a command without comparable records is detected before the other pairs run
				if _, err := readJobs(ctx, nil, []string{out}); err != nil {
					return nil, nil, err
				}
			}
			*s.to = append(*s.to, out)
		}
	}
	return bases, nexts, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
			if err := runSelf(ctx, a, nil, a.Stderr, append([]string{"run", "--quiet", "--dir", out, "--"}, s.command...)...); err != nil {
				var ended *exec.ExitError
				if errors.As(err, &ended) {
					return nil, nil, fmt.Errorf("compare: the %s command of pair %d failed (%s): its files are in %s; both commands of each pair must succeed", s.name, i+1, ended.ProcessState, out)
				}
				return nil, nil, err
			}
			if i == 0 { // a command without comparable records is detected before the other pairs run
				if _, err := readJobs(ctx, silent(), []string{out}); err != nil {
					return nil, nil, err
				}
			}
			*s.to = append(*s.to, out)
		}
	}
	return bases, nexts, nil
}

// runSelf runs another command of this program and waits until it has ended.
// An interrupt ends it regularly. Processes that it has left behind, and that
// hold its streams, do not matter.
func runSelf(ctx context.Context, a *ui.App, in io.Reader, out *display.Writer, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find the trainspan program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, args...) //nolint:gosec // the user's own command
	cmd.Args[0] = "trainspan"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, direct(out), direct(a.Stderr)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrWaitDelay):
		return nil // it succeeded
	}
	return err
}

// direct returns the file of a stream if it has one: a command that writes to
// the file itself sees whether that is a terminal, and needs no pipe.
func direct(w *display.Writer) io.Writer {
	if f, ok := w.Under().(*os.File); ok {
		return f
	}
	return w
}

// silent returns an App that prints nothing.
func silent() *ui.App { return ui.New(ui.Streams{Out: io.Discard, Err: io.Discard}) }

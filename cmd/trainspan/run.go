//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/jobmetrics"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/launch"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/session"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/ingest/pyring/pyclient"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/environ"
)

// helperCommand is the hidden command of the telemetry process.
const helperCommand = "run-telemetry"

// The pipes of the telemetry process.
const (
	pipeIn  = 3
	pipeOut = 4
)

func newRun(a *ui.App) *cobra.Command {
	var set session.Settings
	var inject []string
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a training job and record it",
		Long: `Runs a command with the terminal, streams, working directory, environment and signals
that it would have had, ends as it does, and records it meanwhile: the phases of
PyTorch, spans sent by OTLP, files of PyTorch's profiler, what its processes use,
and how it ended. Nothing that goes wrong with telemetry keeps the command from running.

The files are in trainspan-runs/NAME/attempt-N/HOST-PID. A start that
goes on where one of the same NAME died is another attempt of its run: restarts and
lost work add up in the report, which is shown at the end. What a launcher says (Slurm, torchrun, MPI, Kubernetes) makes processes
share an attempt.

It is put in front of a launcher, or behind one in front of each rank:
  trainspan run -- torchrun --nproc-per-node 8 train.py
  torchrun --nproc-per-node 8 --no-python trainspan run -- python train.py

The exit status is that of the command, 128 and the number of the signal that ended
it, 127 if there is no such program, 126 if it cannot be run, and 2 for wrong use.`,
		Example: `  trainspan run -- python train.py --lr 0.1
  trainspan run --name llama --otlp -- torchrun --nproc-per-node 8 train.py
  trainspan run --profiles profiler/ --quiet -- srun python train.py
  trainspan run --inject rank=2,data=50ms,from=100 -- torchrun --nproc-per-node 4 train.py`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return ui.Usage("run takes a command; write trainspan run -- COMMAND")
			}
			if err := addInjections(&set, inject); err != nil {
				return err
			}
			return runCommand(a, args, set)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // flags after the command belong to it
	f.StringVar(&set.Name, "name", "", "name of the job (default: that of the script or program)")
	f.StringVar((*string)(&set.Dir), "dir", "", "`directory` for the files of this start")
	f.IntVar(&set.Attempt, "attempt", -1, "number of this start; one that is there is joined (default: the next)")
	f.BoolVar(&set.OTLP, "otlp", false, "receive spans by OTLP on loopback, and point the command there")
	f.StringVar((*string)(&set.TokenFile), "otlp-token-file", "", "`file` with the token that OTLP senders give (default: a random one, which the command gets)")
	f.BoolVar(&set.NoToken, "otlp-no-token", false, "take spans of whoever can connect to loopback; implies --otlp, as does a token")
	f.StringVar(&set.Forward, "forward", "", "send received spans on to this OTLP `endpoint`; implies --otlp")
	f.StringVar((*string)(&set.Profile), "profiles", "", "import what PyTorch's profiler writes to this `directory`")
	f.BoolVar(&set.NoTorch, "no-torch", false, "do not watch PyTorch")
	f.StringSliceVar(&set.Only, "only", nil, "watch only these `phases` of PyTorch")
	f.StringSliceVar(&set.Without, "without", nil, "do not watch these `phases` of PyTorch")
	f.StringArrayVar(&inject, "inject", nil, "delay a phase of PyTorch to test the diagnosis, as `rank=2,data=50ms,from=100`; repeatable")
	f.BoolVar(&set.NoUsage, "no-resources", false, "do not sample the use of processor, memory, disks and GPUs")
	f.StringVar(&set.Metrics, "metrics", "", "serve metrics of the job on this `address` of this machine, such as 127.0.0.1:9477 (default: $"+environ.Metrics+")")
	f.BoolVarP(&set.Quiet, "quiet", "q", false, "make no report at the end")
	f.BoolVarP(&set.Verbose, "verbose", "v", false, "let every Python process say that it is recorded")
	cmd.MarkFlagsMutuallyExclusive("otlp-token-file", "otlp-no-token")
	return cmd
}

// addInjections parses the delays of --inject. An impossible one is refused
// before the job starts.
func addInjections(set *session.Settings, texts []string) error {
	for _, text := range texts {
		all, err := rundir.ParseInjection(text)
		if err != nil {
			return ui.Usage("--inject %s: %v", text, err)
		}
		for k := range all {
			hook := all[k].Hook()
			switch {
			case set.NoTorch:
				return ui.Usage("--inject %s: --no-torch leaves out the client that makes the delay", text)
			case len(set.Only) > 0 && !slices.Contains(set.Only, hook):
				return ui.Usage("--inject %s: %s needs the phase %s of PyTorch, which --only leaves out", text, all[k].Phase, hook)
			case slices.Contains(set.Without, hook):
				return ui.Usage("--inject %s: %s needs the phase %s of PyTorch, which --without leaves out", text, all[k].Phase, hook)
			}
		}
		set.Inject = append(set.Inject, all...)
	}
	if len(set.Inject) > 0 && session.Nested() {
		return ui.Usage("--inject: this is below another trainspan run, which records the command; give --inject there")
	}
	return nil
}

// newRunTelemetry returns the command of the telemetry process.
func newRunTelemetry() *cobra.Command {
	return &cobra.Command{
		Use: helperCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			in, out := os.NewFile(pipeIn, "in"), os.NewFile(pipeOut, "out")
			if in == nil || out == nil {
				return ui.Usage("%s is started by trainspan run", helperCommand)
			}
			session.Serve(in, out)
			return nil
		},
	}
}

// runCommand runs the command and returns its status.
func runCommand(a *ui.App, args []string, set session.Settings) error {
	if set.Attempt < -1 {
		return ui.Usage("--attempt %d: give a number from 0", set.Attempt)
	}
	if set.Metrics != "" {
		if err := jobmetrics.Check(set.Metrics); err != nil {
			return err
		}
	}
	set.Metrics = cmp.Or(set.Metrics, os.Getenv(environ.Metrics)) // an invalid variable does not stop the command
	for _, phase := range slices.Concat(set.Only, set.Without) {
		if known := pyclient.Phases(); !slices.Contains(known, phase) {
			return ui.Usage("%q is no phase of PyTorch; there are %s", phase, strings.Join(known, ", "))
		}
	}
	path, status, err := launch.Find(args[0])
	if err != nil {
		return &ui.StatusError{Status: status, Err: fmt.Errorf("%s", ui.Explain(err))}
	}
	if session.Nested() {
		// The trainspan run above records this command too.
		err := syscall.Exec(path, args, os.Environ())
		if path, args, ok := launch.Script(path, args); ok && errors.Is(err, syscall.ENOEXEC) {
			err = syscall.Exec(path, args, os.Environ())
		}
		return &ui.StatusError{Status: launch.StatusNotExecutable, Err: fmt.Errorf("%s: %w", args[0], err)}
	}
	set.OTLP = set.OTLP || set.TokenFile != "" || set.NoToken
	set.Version, set.Command, set.PID = version(), rundir.NewOutline(args), os.Getpid()
	set.Parent = os.Getppid()
	if set.Name == "" {
		set.Name = cmp.Or(os.Getenv(environ.Application), set.Command.Name())
	}
	code := launch.Run(launch.Options{
		Path: path, Args: args, Env: os.Environ(),
		Helper: []string{"trainspan", helperCommand}, Settings: set, Alone: session.Alone, Note: a.Note, Out: a.Stderr,
		Terminal: func() launch.Terminal {
			return launch.Terminal{Columns: a.Columns(a.Stderr), Color: a.Paint(a.Stderr).On}
		},
	})
	if code != ui.StatusOK {
		return &ui.StatusError{Status: code, Quiet: true, Err: fmt.Errorf("%s: exit status %d", args[0], code)}
	}
	return nil
}

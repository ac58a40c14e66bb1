//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
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
	"github.com/trainspan/trainspan/internal/platform/display"
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
		Long: `Runs a command and records it: the phases of PyTorch, spans sent by OTLP, files of
PyTorch's profiler, the resources that its processes use, and how it ended. The command
keeps its terminal, streams, working directory, environment, signals and exit status.
A failure of telemetry never stops the command.

The files are in trainspan-runs/NAME/attempt-N/HOST-PID. A command that continues a
failed run of the same NAME is another attempt of that run; the report at the end sums
restarts and lost work over all attempts. Processes of one launcher (Slurm, torchrun,
MPI, Kubernetes) share an attempt.

Put trainspan run in front of a launcher, or after it in front of each rank:
  trainspan run -- torchrun --nproc-per-node 8 train.py
  torchrun --nproc-per-node 8 --no-python trainspan run -- python train.py

The phases of --only and --without:
  ` + strings.Join(display.Fold(strings.Join(pyclient.Phases(), ", "), 76), "\n  ") + `

The exit status is that of the command, 128 plus the number of the signal that ended
it, 127 if the program does not exist, 126 if it cannot be run, and 2 for wrong use.`,
		Example: `  trainspan run -- python train.py --lr 0.1
  trainspan run --name llama --otlp -- torchrun --nproc-per-node 8 train.py
  trainspan run --profiles profiler/ --quiet -- srun python train.py
  trainspan run --inject rank=2,data=50ms,from=100 -- torchrun --nproc-per-node 4 train.py`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return ui.Usage("no command is given; write trainspan run -- COMMAND")
			}
			if err := addInjections(&set, inject); err != nil {
				return err
			}
			return runCommand(a, args, set)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // flags after the command belong to it
	f.StringVar(&set.Name, "name", "", "name of the job (default: $"+environ.Application+", or the name of the script, module or program)")
	f.StringVar((*string)(&set.Dir), "dir", "", "`directory` for the files of this command (default: $"+environ.Dir+", or a new one in trainspan-runs)")
	f.IntVar(&set.Attempt, "attempt", -1, "number of the attempt, from 0: 1 is attempt-2; an existing attempt is joined (default: the next)")
	f.BoolVar(&set.OTLP, "otlp", false, "receive OTLP spans on the loopback address, and give the command the address")
	f.StringVar((*string)(&set.TokenFile), "otlp-token-file", "", "`file` with the token that OTLP senders must send (default: a random token, given to the command); implies --otlp")
	f.BoolVar(&set.NoToken, "otlp-no-token", false, "accept spans from any local sender, without a token; implies --otlp")
	f.StringVar(&set.Forward, "forward", "", "forward received spans to this OTLP `endpoint`; implies --otlp")
	f.StringVar((*string)(&set.Profile), "profiles", "", "import the profiles that PyTorch's profiler writes to this `directory`, not compile logs")
	f.BoolVar(&set.NoTorch, "no-torch", false, "do not watch PyTorch")
	f.StringSliceVar(&set.Only, "only", nil, "watch only these `phases` of PyTorch")
	f.StringSliceVar(&set.Without, "without", nil, "do not watch these `phases` of PyTorch")
	f.StringArrayVar(&inject, "inject", nil, "delay a phase of PyTorch to test the diagnosis, as `rank=2,data=50ms,from=100`; repeatable")
	f.BoolVar(&set.NoUsage, "no-resources", false, "do not sample processor, memory, disk and GPU use")
	f.StringVar(&set.Metrics, "metrics", "", "serve metrics of the job on this `address` of this machine, such as 127.0.0.1:9477, or send them to the URL of an OTLP receiver (default: $"+environ.Metrics+")")
	f.BoolVarP(&set.Quiet, "quiet", "q", false, "print no report at the end")
	f.BoolVarP(&set.Verbose, "verbose", "v", false, "each Python process reports that it is recorded")
	ui.Words(cmd, "only", pyclient.Phases()...)
	ui.Words(cmd, "without", pyclient.Phases()...)
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
				return ui.Usage("--inject %s: remove --no-torch; the client of PyTorch makes the delay", text)
			case len(set.Only) > 0 && !slices.Contains(set.Only, hook):
				return ui.Usage("--inject %s: %s needs the PyTorch phase %s; add it to --only", text, all[k].Phase, hook)
			case slices.Contains(set.Without, hook):
				return ui.Usage("--inject %s: %s needs the PyTorch phase %s; remove it from --without", text, all[k].Phase, hook)
			}
		}
		set.Inject = append(set.Inject, all...)
	}
	if len(set.Inject) > 0 && session.Nested() {
		return ui.Usage("--inject: an outer trainspan run records this command; use --inject there")
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
				return ui.Usage("only trainspan run starts %s", helperCommand)
			}
			session.Serve(in, out)
			return nil
		},
	}
}

// runCommand runs the command and returns its status.
func runCommand(a *ui.App, args []string, set session.Settings) error {
	// If nobody reads standard error any more, messages are lost, but the command and its status are not. The
	// signal is caught because the command would inherit that it is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if set.Attempt < -1 {
		return ui.Usage("--attempt %d: use a number of 0 or more", set.Attempt)
	}
	if set.Metrics != "" {
		if err := jobmetrics.Check(set.Metrics); err != nil {
			return err
		}
	}
	set.Metrics = cmp.Or(set.Metrics, strings.TrimSpace(os.Getenv(environ.Metrics))) // an invalid variable does not stop the command
	for _, phase := range slices.Concat(set.Only, set.Without) {
		if known := pyclient.Phases(); !slices.Contains(known, phase) {
			return ui.Usage("%q is not a phase of PyTorch; use %s", phase, strings.Join(known, ", "))
		}
	}
	path, status, err := launch.Find(args[0])
	if err != nil {
		text := ui.Explain(err)
		if status == launch.StatusNotFound && !strings.ContainsRune(args[0], os.PathSeparator) {
			text = display.Text(args[0]) + ": no directory of PATH has this program; check the name"
		}
		return &ui.StatusError{Status: status, Err: errors.New(text)}
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
	set.Version, set.Command, set.Missing, set.PID = version(), rundir.NewOutline(args), rundir.MissingScript(args), os.Getpid()
	set.Parent = os.Getppid()
	if set.Name == "" {
		set.Name = cmp.Or(strings.TrimSpace(os.Getenv(environ.Application)), set.Command.Name())
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

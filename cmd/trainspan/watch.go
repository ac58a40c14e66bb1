package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

func newWatch(a *ui.App) *cobra.Command {
	var o importOptions
	var interval time.Duration
	var once, retry bool
	var state string
	cmd := &cobra.Command{
		Use:   "watch DIRECTORY",
		Short: "Import PyTorch profiler files as they appear",
		Long: `Watches the directory that PyTorch's profiler writes to and imports each finished file
once, in order, also across restarts of the command. A file counts as imported when its
events are in the trace: if the disk is full the command waits. It runs until Ctrl-C and
then completes the trace. Compile logs are left to trace import.

The trace of an earlier watch is not overwritten: the new one is NAME.run2.pfw.gz.
--once checks twice, one interval apart, imports the finished files and exits.`,
		Example: `  trainspan trace watch profiler/ -o live.pfw.gz
  trainspan trace watch profiler/ --otlp-endpoint http://localhost:4318
  trainspan trace watch profiler/ -o out.pfw.gz --once --interval 1s`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return ui.Usage("watch needs one directory; name the one that PyTorch writes to")
			}
			if interval <= 0 {
				return ui.Usage("--interval %v: use a time above 0", interval)
			}
			return runWatch(cmd.Context(), a, args[0], &o, torch.WatchOptions{Interval: interval, StateFile: state, Retry: retry}, once)
		},
	}
	o.flags(cmd)
	f := cmd.Flags()
	f.DurationVar(&interval, "interval", 2*time.Second, "time between two checks")
	f.BoolVar(&once, "once", false, "import the existing files and exit")
	f.BoolVar(&retry, "retry", false, "import files again after an interrupted or failed import; events of the first try stay in its trace")
	f.StringVar(&state, "state", "", "file with the list of imported files (default: .trainspan-imported.json in the directory)")
	return cmd
}

func runWatch(ctx context.Context, a *ui.App, dir string, o *importOptions, wo torch.WatchOptions, once bool) (err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return ui.Usage("%s: is not a directory; name the one that PyTorch writes to", dir)
	}
	opts, shutdown, err := o.settings(ctx, a.Streams.Lookup)
	if err != nil {
		return err
	}
	if o.output == "" && opts.Spans == nil {
		return ui.Usage("no output is given; add -o trace.pfw.gz or --otlp-endpoint URL")
	}
	if o.output != "" {
		if info, err := os.Stat(filepath.Dir(o.output)); err != nil || !info.IsDir() {
			return ui.Usage("%s: its directory does not exist; create it first", o.output)
		}
		out := &watchedTrace{once: once, ended: make(chan struct{})}
		opts.Begin = func(start time.Time) (torch.Sink, error) { return out.begin(ctx, a, o.output, opts.Dialect, start) }
		wo.Written = out.written
		defer func() { err = errors.Join(err, out.close(ctx)) }()
	}
	defer func() {
		if stop := shutdown(context.WithoutCancel(ctx)); err == nil {
			err = stop
		}
	}()
	wo.Import = opts
	wo.OnWait = func(err error) { a.Note("waiting, because %v", err) }
	wo.OnFile = func(path string, report *torch.Report, err error) {
		if err != nil && !undelivered(report, err) {
			a.Problem("%s: not imported: %s; see "+helptopic.Profile, path, ui.Explain(err))
			return
		}
		judgeImport(a, report)
		var n int64
		for cat, k := range report.Events {
			if cat != dftracer.CatDFTracer {
				n += k
			}
		}
		to := a.Stdout
		if o.output == "-" {
			to = a.Stderr
		}
		_, _ = display.Fprintf(to, "%s: %s\n", path, display.Plural(n, "event")) // to remembers its error
	}
	w, err := torch.NewWatcher(dir, nil, &wo)
	if err != nil {
		return stateError(err)
	}
	if once {
		return stateError(watchOnce(ctx, w, wo.Interval))
	}
	a.Note("watching %s; press Ctrl-C to stop", dir)
	if err := w.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return stateError(err)
	}
	return nil
}

// stateError adds a remedy to the error of a state file that cannot be written,
// such as that in the directory of another user.
func stateError(err error) error {
	var state *torch.StateError
	if errors.As(err, &state) && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
		return ui.Usage("%s: this state file cannot be written; name another one with --state", state.Path)
	}
	return err
}

// watchedTrace is the trace of a watch. No training waits for it: as long as the
// command runs it waits for a file that fails, and nothing is dropped. With
// --once it does not wait for a full disk without end.
type watchedTrace struct {
	once   bool
	trace  *dftracer.Writer
	failed bool          // the last import is not in the file
	lost   uint64        // lines of all imports
	ended  chan struct{} // closed when the last import has ended
}

const (
	// onceWait is how long an import of --once waits for a file that fails.
	onceWait = time.Minute
	// flushWait is the longest time for what is still in memory after an import.
	flushWait = time.Minute
	// lastWait is how long a file that fails is tried at the end.
	lastWait = 10 * time.Second
)

// begin creates the trace at the first call.
func (t *watchedTrace) begin(ctx context.Context, a *ui.App, path string, dialect dftracer.Dialect, start time.Time) (torch.Sink, error) {
	if t.trace != nil {
		return t.trace, nil
	}
	wait := time.Duration(-1)
	if t.once {
		wait = onceWait
	}
	w, err := dftracer.Create(path, &dftracer.Options{
		Dialect: dialect, Heartbeat: -1, Start: start, StallWait: wait,
		OnPath:  func(path string) { a.Note("writing %s", path) },
		OnError: func(err error) { a.Note("%s", strings.TrimPrefix(err.Error(), "dftracer: ")) },
	})
	if err != nil {
		return nil, err
	}
	t.trace = w
	context.AfterFunc(ctx, func() {
		select {
		case <-t.ended:
		case <-time.After(lastWait):
			_ = w.CloseContext(ctx) // ends waiting calls; the error comes again
		}
	})
	return w, nil
}

var errLost = errors.New("the file took nothing for too long, and some events were lost")

// written waits until everything imported so far is in the file.
func (t *watchedTrace) written(ctx context.Context) error {
	for t.trace != nil {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWait)
		err := t.trace.FlushContext(flush)
		cancel()
		if lost := t.trace.Stats().Lost; err == nil && lost > t.lost {
			t.lost = lost
			return errLost
		}
		if t.failed = err != nil; err == nil || t.once {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
	return nil
}

// close completes the trace.
func (t *watchedTrace) close(ctx context.Context) error {
	close(t.ended)
	if !t.failed {
		return t.trace.Close()
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWait)
	defer cancel()
	return t.trace.CloseContext(end)
}

// watchOnce scans twice: a file counts as finished if it did not change.
func watchOnce(ctx context.Context, w *torch.Watcher, interval time.Duration) error {
	if _, _, err := w.Scan(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(interval):
	}
	_, _, err := w.Scan(ctx)
	return err
}

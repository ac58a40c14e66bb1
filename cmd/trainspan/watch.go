package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
once, in order, also across restarts of the command. It runs until Ctrl-C and then
completes the trace. Compile logs are left to trace import.

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
		var trace *dftracer.Writer
		opts.Begin = func(start time.Time) (torch.Sink, error) {
			if trace != nil {
				return trace, nil
			}
			w, err := dftracer.Create(o.output, &dftracer.Options{Dialect: opts.Dialect, Heartbeat: -1, Start: start, OnPath: func(path string) { a.Note("writing %s", path) }})
			if err != nil {
				return nil, err
			}
			trace = w
			return trace, nil
		}
		defer func() {
			if trace != nil {
				err = errors.Join(err, trace.Close())
			}
		}()
	}
	defer func() {
		if stop := shutdown(context.WithoutCancel(ctx)); err == nil {
			err = stop
		}
	}()
	wo.Import = opts
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
		return err
	}
	if once {
		return watchOnce(ctx, w, wo.Interval)
	}
	a.Note("watching %s; press Ctrl-C to stop", dir)
	if err := w.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
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

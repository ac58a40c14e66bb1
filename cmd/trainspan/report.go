package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trainspan/trainspan/report"
)

type reportOptions struct {
	json  bool
	html  string
	check bool
}

func newReport(a *app) *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report DIR...",
		Short: "Say where a job's time went, and which rank holds it up",
		Long: `Reads all telemetry of a job (traces and JSON lines, of all ranks and attempts)
and answers on one screen: how much of the time trained the model, what took the
rest, which rank is slow and why, what to do next and how sure that is.

--html also writes one file with pictures. It needs no network and holds no
script from elsewhere.

A set of files with several jobs gives a report of the one with the most
processes, and names the others.

With --check the exit status says whether a rank holds the others up: 0 none
does; 3 one does, or something else found in the steps costs time; 4 the records
do not suffice to say.`,
		Example: `  trainspan report out/demo
  trainspan report out/demo --html report.html
  trainspan report out/demo --json | jq .verdict
  trainspan report out/job --check`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.report(cmd.Context(), args, &o) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print JSON with everything")
	f.StringVar(&o.html, "html", "", "write a report with pictures to this `file`")
	f.BoolVar(&o.check, "check", false, "end with status 3 or 4 when a rank is slow, or nothing can be said")
	return cmd
}

func (a *app) report(ctx context.Context, args []string, o *reportOptions) error {
	if o.html != "" {
		if err := checkPage(o.html); err != nil {
			return err
		}
	}
	j, err := a.readJob(ctx, args)
	if err != nil {
		return err
	}
	r := report.Build(j)
	if o.html != "" {
		if err := writeHTML(o.html, r); err != nil {
			return err
		}
	}
	if o.json {
		err = report.JSON(a.stdout, r)
	} else {
		err = report.Text(a.stdout, r)
	}
	if err != nil {
		return err
	}
	if code := r.ExitCode(); o.check && code != statusOK {
		return &statusError{status: code, quiet: true, err: fmt.Errorf("check: %s", r.Verdict.Sentence)}
	}
	return nil
}

// readJob reads the largest job below some paths.
func (a *app) readJob(ctx context.Context, args []string) (*report.Job, error) {
	if len(args) == 0 {
		return nil, usage("no directory is given; name that of a job, such as out/demo")
	}
	found, err := findJobs(ctx, args)
	switch {
	case errors.Is(err, errNoProcess):
		return nil, badData("%s: %w", strings.Join(args, ", "), err)
	case err != nil:
		return nil, a.unreadable(ctx, err)
	}
	for _, other := range found[1:] {
		a.note("left out: another job in the same files, session %q, id %q, %d processes; give its files alone to see it",
			other.Job.SessionTag, other.Job.ID, len(other.Job.Processes))
	}
	return found[0], nil
}

// unreadable says why telemetry or digests could not be read.
func (a *app) unreadable(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, report.ErrDigest):
		return badData("%s", strings.TrimPrefix(err.Error(), "report: "))
	}
	return usage("%s", strings.TrimPrefix(explain(err), "run: "))
}

// errNoProcess is why nothing can be said of files that hold records.
var errNoProcess = errors.New("no process that trains is in these files")

// findJobs reads all jobs below some paths, the largest first.
func findJobs(ctx context.Context, paths []string) ([]*report.Job, error) {
	state, err := report.Load(ctx.Err, paths...)
	if err != nil {
		return nil, err
	}
	found := state.Jobs()
	if len(found) == 0 || len(found[0].Job.Processes) == 0 {
		return nil, errNoProcess
	}
	return found, nil
}

// checkPage refuses to replace anything but a page: the name of a trace is one
// word away.
func checkPage(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return usage("%s", err)
	case !info.Mode().IsRegular():
		return usage("%s is no file: name one after --html", path)
	case info.Size() == 0:
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return usage("%s", err)
	}
	defer f.Close() //nolint:errcheck // only read
	const begin = "<!doctype html>"
	text := make([]byte, len(begin))
	if n, _ := io.ReadFull(f, text); !strings.EqualFold(string(text[:n]), begin) {
		return usage("%s is there and is no page: name another file after --html", path)
	}
	return nil
}

// writeHTML replaces the file only when all of the new one is there.
func writeHTML(path string, r *report.Report) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".report-*.html")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // gone when all went well
	err = report.HTML(tmp, r)
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(tmp.Name(), 0o644) //nolint:gosec // a page to be shown to others
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	return err
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/session"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/otlpreceiver"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/platform/proc"
)

// leftReport is the JSON of an import of what trainspan run has left behind.
type leftReport struct {
	Rings    []ringReport              `json:"rings"` // one for each start
	Journals *otlpreceiver.ReplayStats `json:"journals"`
}

// ringReport is about the ring buffers of one start.
type ringReport struct {
	Dir string `json:"dir"`
	pyring.Stats
}

// importLeft writes the contents of ring buffers that a trainspan run has left
// behind because all its processes were killed. What was read is deleted. It
// returns false if there are none below the paths.
func importLeft(ctx context.Context, a *ui.App, paths []string, o *importOptions, found *leftReport) (bool, error) {
	done := false
	var errs []error
	here := identity.HostName()
	for _, left := range rundir.FindLeft(paths...) {
		if host := left.Run.Host; host != "" && host != here {
			a.Problem("%s: was recorded on %s, where its processes may still run; import it there or, when they have ended, name the directory of its rings: %s; see "+helptopic.InUse,
				left.Dir, host, strings.Join(left.Folders, ", "))
			done = true
			continue
		}
		if r := left.Run; r.State == rundir.Running && (proc.Alive(r.PID, 0) || proc.Alive(r.TelemetryPID, 0)) {
			a.Problem("%s: is still being recorded; import the rest when the run has ended; see "+helptopic.InUse, left.Dir)
			done = true
			continue
		}
		all, err := pyring.Rings(left.Folders...)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", left.Dir, err))
			continue
		}
		if len(all) == 0 {
			removeFolders(&left)
			continue
		}
		var rings []string
		for _, path := range all {
			if pid, runs := pyring.Writer(path); runs {
				a.Problem("%s: process %d is still writing it; import it when the process has ended; see "+helptopic.InUse, path, pid)
			} else {
				rings = append(rings, path)
			}
		}
		done = true
		if len(rings) > 0 {
			errs = append(errs, importRun(ctx, a, &left, rings, o, found))
		}
	}
	return done, errors.Join(errs...)
}

// noteElsewhere reports the starts on other hosts that may have left ring buffers there.
func noteElsewhere(a *ui.App, paths []string) (found bool) {
	here := identity.HostName()
	for _, left := range rundir.Find(paths...) {
		if r := left.Run; r.Ring != "" && r.Host != "" && r.Host != here {
			a.Problem("%s: was recorded on %s, where its rings may still have data; import it there; see "+helptopic.InUse, left.Dir, r.Host)
			found = true
		}
	}
	return found
}

// importRun writes the ring buffers of one start into its directory.
func importRun(ctx context.Context, a *ui.App, left *rundir.Left, rings []string, o *importOptions, found *leftReport) error {
	d, err := parseDialect(o.dialect)
	if err != nil {
		return err
	}
	if o.output == "-" || fsread.NamedTrace(o.output) {
		return ui.Usage("-o %s: each Python process gets its own trace; name a directory, or omit -o", o.output)
	}
	r := left.Run
	opts := pyring.Options{
		Out: cmp.Or(o.output, left.Dir), Job: cmp.Or(o.job, r.Job), Attempt: r.Attempt,
		Trace: &dftracer.Options{Dialect: d, Process: dftracer.Process{SessionTag: r.Session}}, Log: slog.New(slog.NewTextHandler(a.Stderr, nil)),
	}
	if err := o.send(&opts, a.Streams.Lookup); err != nil {
		return err
	}
	st, err := pyring.Import(ctx, rings, opts)
	judgeRings(a, &st)
	if err != nil {
		return importError(err)
	}
	for _, path := range rings {
		_ = ring.Remove(path) // otherwise it is imported again, which its name shows
	}
	removeFolders(left)
	if err := rundir.Amend(left.Path, func(r *rundir.Run) { imported(r, &st) }); err != nil {
		a.Problem("%s: cannot note the import: %v; see "+helptopic.File, left.Path, err)
	}
	if o.json {
		found.Rings = append(found.Rings, ringReport{left.Dir, st})
		return nil
	}
	return showRings(a, &st, o)
}

// imported updates the run.json of a start whose ring buffers are in files now.
// Their end does not show how the command ended.
func imported(r *rundir.Run, st *pyring.Stats) {
	if r.State == rundir.Running {
		r.State, r.EndedBy = rundir.Ended, rundir.ByUnknown
	}
	if r.Python == nil {
		r.Python = &rundir.Python{Processes: st.Processes, Spans: st.Spans, Bad: st.Bad}
	}
	r.Python.Lost, r.Python.Waiting = max(r.Python.Lost, st.Lost), 0
	var folders []string
	for _, folder := range filepath.SplitList(r.Ring) {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			folders = append(folders, folder)
		}
	}
	r.Ring = strings.Join(folders, string(filepath.ListSeparator))
}

// removeFolders deletes the folders of a start without a ring buffer.
func removeFolders(left *rundir.Left) {
	if proc.Alive(left.Run.CommandPID, 0) {
		return // later processes of it record there
	}
	for _, folder := range left.Folders {
		if more, err := pyring.Rings(folder); err == nil && len(more) == 0 {
			_ = session.RemoveFolder(folder) // otherwise it is harmless, or not ours
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/dataset"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/report"
)

// datasetFolder is a directory of runs as Parquet files. A run appears in it
// when it is complete.
type datasetFolder struct {
	dir   string
	isNew bool
	force bool
}

func openDataset(dir string, force bool) (*datasetFolder, error) {
	l := &datasetFolder{dir: filepath.Clean(dir), force: force}
	info, err := os.Stat(dir)
	switch {
	case dir == "-":
		return nil, ui.Usage("-o -: a data set is a directory; name one")
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(l.dir)); err != nil {
			return nil, ui.Usage("%s: its directory does not exist; create it first", dir)
		}
		l.isNew = true
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, ui.Usage("%s: is a file, but a data set is a directory; choose another name", dir)
	}
	return l, nil
}

// check refuses a run that would overwrite another.
func (l *datasetFolder) check(run string) error {
	if l.force {
		return nil
	}
	for _, table := range dataset.Tables(run) {
		if _, err := os.Lstat(filepath.Join(l.dir, table)); err == nil {
			return ui.Usage("%s: run %s already exists; name this one with --run, add --force to replace it, or add --part to add these ranks to the others", l.dir, run)
		}
	}
	return nil
}

// write adds the jobs of some accounts, all or none.
func (l *datasetFolder) write(ctx context.Context, rows *dataset.Builder, steps *stepTable, accounts []account.Account, o *convertOptions) (out []convertedRun, err error) {
	names, err := runNames(accounts, o.run)
	if err != nil {
		return nil, err
	}
	if o.part {
		return l.writeParts(ctx, rows, steps, accounts, names)
	}
	for _, name := range names {
		if err := l.check(name); err != nil {
			return nil, err
		}
	}
	parent := l.dir
	if l.isNew {
		parent = filepath.Dir(l.dir)
	}
	stage, err := fswrite.TempDir(parent, "."+filepath.Base(l.dir)+".")
	if err != nil {
		return nil, err
	}
	defer func() {
		if left := fswrite.RemoveDir(stage, dataset.IsPart); left != nil && err == nil && !errors.Is(left, fs.ErrNotExist) {
			err = fmt.Errorf("the replaced files could not be deleted: %w", left)
		}
	}()
	if err := os.Chmod(stage, 0o755); err != nil {
		return nil, err
	}
	events := int64(0)
	for i, acc := range accounts {
		j := &dataset.Job{Name: names[i], Job: acc.Job}
		if o.filter.All() {
			j.Ledger = acc.Ledger
			j.Steps = func(add func(*dataset.Step) error) error { return steps.table(acc.Job, add) }
		}
		w, err := rows.Write(ctx, stage, j)
		if err != nil {
			return nil, err
		}
		events += w.Events
		out = append(out, convertedRun{l.dir, names[i], w.Events, w.Ledger, w.Folders, w.Bytes})
	}
	if events == 0 {
		return nil, errNoEvents()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return out, l.publish(stage, names)
}

// writeParts adds the ranks of some jobs, each completely or not at all, and
// replaces an earlier conversion of the same ranks. It writes no ledger table,
// because the accounts of some ranks differ from those in the accounts of all.
func (l *datasetFolder) writeParts(ctx context.Context, rows *dataset.Builder, steps *stepTable, accounts []account.Account, names []string) (out []convertedRun, err error) {
	if err := os.MkdirAll(l.dir, 0o755); err != nil { //nolint:gosec // data to be read by others
		return nil, err
	}
	for i, acc := range accounts {
		j := &dataset.Job{Name: names[i], Job: acc.Job, Part: true}
		j.Steps = func(add func(*dataset.Step) error) error { return steps.table(acc.Job, add) }
		if err := rows.Overlap(l.dir, j); errors.Is(err, dataset.ErrOverlap) {
			return nil, ui.Usage("%s: run %s: %s; convert the same ranks as before, or all of them without --part and with --force", l.dir, names[i], err)
		} else if err != nil {
			return nil, err
		}
		w, err := rows.Write(ctx, l.dir, j)
		if errors.Is(err, dataset.ErrNoEvents) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, convertedRun{l.dir, names[i], w.Events, w.Ledger, w.Folders, w.Bytes})
	}
	if len(out) == 0 {
		return nil, errNoEvents()
	}
	return out, nil
}

// errNoEvents is why there is nothing to write.
func errNoEvents() error {
	return ui.BadData("these files have no events, or the filters exclude all; only traces (.pfw, .pfw.gz) have events; see " + helptopic.NoTraining)
}

// writeLedgers replaces the ledger tables of jobs from digests.
func (l *datasetFolder) writeLedgers(ctx context.Context, jobs []*report.Job, o *convertOptions) (out []convertedRun, err error) {
	accounts := make([]account.Account, len(jobs))
	for i, j := range jobs {
		accounts[i] = account.Account{Job: j.Job, Ledger: j.Ledger}
	}
	names, err := runNames(accounts, o.run)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(l.dir, 0o755); err != nil { //nolint:gosec // data to be read by others
		return nil, err
	}
	rows := dataset.New(0, "")
	for i, acc := range accounts {
		w, err := rows.Write(ctx, l.dir, &dataset.Job{Name: names[i], Job: acc.Job, Ledger: acc.Ledger, Part: true})
		if err != nil {
			return nil, err
		}
		out = append(out, convertedRun{l.dir, names[i], w.Events, w.Ledger, w.Folders, w.Bytes})
	}
	return out, nil
}

// publish gives complete runs their final names.
func (l *datasetFolder) publish(stage string, names []string) error {
	if l.isNew {
		err := fswrite.PublishDir(stage, l.dir)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for i, name := range names {
		if err := l.replace(stage, filepath.Join(stage, "old", names[i]), dataset.Tables(name)); err != nil {
			return err
		}
	}
	return nil
}

// replace moves the tables of one run into the data set and the old ones out of
// it, in one step if the file system can exchange them. If that fails, it
// undoes everything.
func (l *datasetFolder) replace(stage, old string, tables []string) (err error) {
	var undo []func()
	defer func() {
		for i := len(undo) - 1; i >= 0 && err != nil; i-- {
			undo[i]()
		}
	}()
	move := func(from, to string) error {
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // data to be read by others
			return err
		}
		err := fswrite.PublishDir(from, to)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the run has no such table
		}
		if err == nil {
			undo = append(undo, func() { _ = fswrite.PublishDir(to, from) }) // the first error is the one to report
		}
		return err
	}
	for _, table := range tables {
		if l.force {
			mine, theirs := filepath.Join(stage, table), filepath.Join(l.dir, table)
			if err := fswrite.ExchangeDir(mine, theirs); err == nil {
				undo = append(undo, func() { _ = fswrite.ExchangeDir(mine, theirs) }) // as above
				continue
			}
			if err := move(filepath.Join(l.dir, table), filepath.Join(old, table)); err != nil {
				return err
			}
		}
		if err := move(filepath.Join(stage, table), filepath.Join(l.dir, table)); err != nil {
			return err
		}
	}
	return nil
}

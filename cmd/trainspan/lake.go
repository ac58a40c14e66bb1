package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trainspan/trainspan/analysis/goodput"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/dataset"
	"github.com/trainspan/trainspan/internal/outfile"
	"github.com/trainspan/trainspan/internal/see"
)

// lake is a directory of runs as Parquet files. A run appears in it when it is
// complete.
type lake struct {
	dir   string
	isNew bool
	force bool
}

func openLake(dir string, force bool) (*lake, error) {
	l := &lake{dir: filepath.Clean(dir), force: force}
	info, err := os.Stat(dir)
	switch {
	case dir == "-":
		return nil, usage("-o - takes no data set; name a directory")
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(l.dir)); err != nil {
			return nil, usage("%s: its directory does not exist; make it first", dir)
		}
		l.isNew = true
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, usage("%s: is a file, and a data set is a directory; choose another name", dir)
	}
	return l, nil
}

// tables are the folders of a run.
func tables(run string) []string {
	return []string{dataset.LedgerDir(run), dataset.StepsDir(run), dataset.EventsDir(run)}
}

// check refuses a run that would destroy another.
func (l *lake) check(run string) error {
	if l.force {
		return nil
	}
	for _, table := range tables(run) {
		if _, err := os.Lstat(filepath.Join(l.dir, table)); err == nil {
			return usage("%s: run %s is already there; name this one with --run or add --force to replace it", l.dir, run)
		}
	}
	return nil
}

// write adds the jobs of some accounts, all or none.
func (l *lake) write(ctx context.Context, rows *dataset.Builder, steps *stepTable, accounts []goodput.Account, o *convertOptions) (out []convertedRun, err error) {
	names, err := runNames(accounts, o.run)
	if err != nil {
		return nil, err
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
	stage, err := outfile.TempDir(parent, "."+filepath.Base(l.dir)+".")
	if err != nil {
		return nil, err
	}
	defer func() {
		if left := outfile.RemoveDir(stage, dataset.IsPart); left != nil && err == nil && !errors.Is(left, fs.ErrNotExist) {
			err = fmt.Errorf("what was replaced is kept: %w", left)
		}
	}()
	if err := os.Chmod(stage, 0o755); err != nil {
		return nil, err
	}
	events := int64(0)
	for i, acc := range accounts {
		j := &dataset.Job{Name: names[i], Job: acc.Job}
		if o.filter.all() {
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
		return nil, badData("no event is in these files, or the filter lets none through; only traces (.pfw, .pfw.gz) have events; see " + see.NoTraining)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return out, l.publish(stage, names)
}

// publish returns complete runs their names.
func (l *lake) publish(stage string, names []string) error {
	if l.isNew {
		err := outfile.PublishDir(stage, l.dir)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for i, name := range names {
		if err := l.replace(stage, filepath.Join(stage, "old", names[i]), tables(name)); err != nil {
			return err
		}
	}
	return nil
}

// replace moves the tables of one run into the data set and those that were there
// out of it, in one step where the file system can exchange them. When that fails,
// it puts them back.
func (l *lake) replace(stage, old string, tables []string) (err error) {
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
		err := outfile.PublishDir(from, to)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the run has no such table
		}
		if err == nil {
			undo = append(undo, func() { _ = outfile.PublishDir(to, from) }) // the first error is the one to report
		}
		return err
	}
	for _, table := range tables {
		if l.force {
			mine, theirs := filepath.Join(stage, table), filepath.Join(l.dir, table)
			if err := outfile.ExchangeDir(mine, theirs); err == nil {
				undo = append(undo, func() { _ = outfile.ExchangeDir(mine, theirs) }) // as above
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

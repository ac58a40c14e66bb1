package pyring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/proc"
)

// Rings returns the ring buffers among files and in folders, recursively, each
// once. An error means that a path cannot be read.
func Rings(paths ...string) (rings []string, err error) {
	var once fsread.Once
	for _, path := range paths {
		root := fsread.FolderOf(path)
		err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil && p == root:
				return err
			case err == nil && d.Type().IsRegular() && filepath.Ext(p) == ring.Ext && ring.Is(p), err == nil && p == root && ring.Is(p):
				if info, err := os.Stat(p); err != nil || once.Add(info) {
					rings = append(rings, p)
				}
			}
			return nil
		})
		if err != nil {
			return rings, fmt.Errorf("python: %w", err)
		}
	}
	return rings, nil
}

// Writer returns the id of the process that made a ring buffer, in its own PID
// namespace, and whether it still runs on this machine. For other files it
// returns 0.
func Writer(path string) (pid int, runs bool) {
	r, err := ring.Open(path, ring.Options{})
	if err != nil {
		return 0, false
	}
	defer r.Close()
	num := locate(r.PID, r.Ticks, r.Who().PIDNS)
	return int(r.PID), proc.Alive(int(num), r.Ticks)
}

// Import writes the contents of ring buffers that were left behind: files, or
// folders of them. The ring buffers are not changed. The error joins those of
// all ring buffers; what could be read is written.
func Import(ctx context.Context, paths []string, o Options) (Stats, error) {
	var st Stats
	if !ring.Supported {
		return st, fmt.Errorf("python: this system does not support rings: %w", errors.ErrUnsupported)
	}
	rings, err := Rings(paths...)
	if len(rings) == 0 && err == nil {
		err = errors.New("python: no ring found in these files")
	}
	failed := []error{err}
	for _, path := range rings {
		if err := ctx.Err(); err != nil {
			return st, errors.Join(append(failed, err)...)
		}
		if err := importRing(ctx, path, &o, &st); err != nil {
			st.Errors++
			failed = append(failed, fmt.Errorf("python: %w", err))
		}
	}
	return st, errors.Join(failed...)
}

func importRing(ctx context.Context, path string, options *Options, st *Stats) error {
	o := *options
	if o.Out == "" {
		o.Out = filepath.Dir(path)
	}
	r, err := ring.Open(path, ring.Options{})
	if err != nil {
		return err
	}
	defer r.Close()
	p, err := newProcess(ctx, &o, r, false)
	if err != nil {
		return err
	}
	st.Processes++
	err = p.finish(ctx, ctx)
	st.add(p)
	return err
}

package dataset

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/trainspan/trainspan/internal/job"
	"golang.org/x/sync/errgroup"
)

// RanksPerFolder is the number of ranks that share a folder of events.
const RanksPerFolder = 128

// folder holds the events of some ranks in one hour.
type folder struct {
	group int64 // first rank, -1 for processes without one
	hour  int64
	files map[fileKey][]*Process
}

// Write writes the tables of a job below dir, which must exist. The folders in
// [Tables] must not exist, unless the Job is a part. After an error the files
// written so far remain, except for a part.
func (b *Builder) Write(ctx context.Context, dir string, j *Job) (Written, error) {
	out := &output{dir: dir, job: j}
	if err := b.flush(); err != nil {
		return out.written, err
	}
	attempts := b.attempts(j)
	names := fileNames(attempts)
	var tables errgroup.Group
	if j.Ledger != nil {
		tables.Go(func() error { return writeLedger(ctx, out) })
	}
	if j.Steps != nil {
		tables.Go(func() error { return writeSteps(ctx, out, attempts) })
	}
	var err error
	for _, f := range b.folders(j) {
		at := filepath.Join(eventsDir(j.Name), "ranks="+f.label(), "hour="+hourLabel(f.hour))
		// The next hour needs the spans that are open at the end of this one.
		files, ctx := errgroup.WithContext(ctx)
		files.SetLimit(runtime.GOMAXPROCS(0))
		for _, key := range slices.SortedFunc(maps.Keys(f.files), fileKey.compare) {
			files.Go(func() error { return b.events(ctx, out, filepath.Join(at, names[key]), f.hour, f.files[key]) })
		}
		if err = files.Wait(); err != nil {
			break
		}
		out.written.Folders++
	}
	if tablesErr := tables.Wait(); err == nil {
		err = tablesErr
	}
	if err == nil && j.Part && j.Ledger == nil && out.written.Events == 0 {
		err = ErrNoEvents // it would replace the tables of other parts without events
	}
	if err == nil {
		err = b.writeIndex(out, attempts)
	}
	if err = out.publish(err); err != nil {
		return out.written, fmt.Errorf("dataset: %w", err)
	}
	return out.written, nil
}

// folders returns the folders of a job in order.
func (b *Builder) folders(j *Job) []*folder {
	type key struct{ group, hour int64 }
	found := make(map[key]*folder)
	take := func(p *job.Process) {
		proc := b.procs[p]
		if proc == nil {
			return
		}
		group := int64(-1)
		if p.RankKnown {
			group = int64(p.Rank) / RanksPerFolder * RanksPerFolder
		}
		for hour := range proc.hours {
			k := key{group, hour}
			if found[k] == nil {
				found[k] = &folder{group: group, hour: hour, files: make(map[fileKey][]*Process)}
			}
			file := keyOf(p)
			found[k].files[file] = append(found[k].files[file], proc)
		}
	}
	for _, p := range slices.Concat(j.Job.Processes, j.Job.Helpers) {
		take(p)
	}
	out := make([]*folder, 0, len(found))
	for _, f := range found {
		out = append(out, f)
	}
	slices.SortFunc(out, func(x, y *folder) int { return cmp.Or(cmp.Compare(x.group, y.group), cmp.Compare(x.hour, y.hour)) })
	return out
}

func (f *folder) label() string {
	if f.group < 0 {
		return "unknown"
	}
	return strconv.FormatInt(f.group, 10) + "-" + strconv.FormatInt(f.group+RanksPerFolder-1, 10)
}

func hourLabel(hour int64) string { return time.Unix(hour*3600, 0).UTC().Format("2006-01-02-15") }

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
	"sync"
	"time"

	"github.com/trainspan/trainspan/dftracer"
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
	b.rows.Merge() // sorts the rows in memory before several goroutines read them
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
		for hour := range proc.places {
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

// events writes a file with the rows of some processes in an hour, rank by
// rank.
func (b *Builder) events(ctx context.Context, out *output, name string, hour int64, procs []*Process) error {
	t, err := createTable[event](out, &out.events, name, "rank", "ts")
	if err != nil {
		return err
	}
	q := startQueue(t)
	n := int64(0)
	byRank := func(x, y *Process) int { return cmp.Compare(x.Rank, y.Rank) }
	slices.SortStableFunc(procs, byRank)
	for from := 0; from < len(procs) && err == nil; {
		to := from + 1
		for to < len(procs) && byRank(procs[from], procs[to]) == 0 {
			to++
		}
		var rows int64
		rows, err = b.rank(ctx, q, procs[from:to], hour)
		n, from = n+rows, to
	}
	if queueErr := q.close(); err == nil {
		err = queueErr
	}
	if err = t.close(&out.written.Events, n, err); err == nil {
		clear(t.File().Metadata().RowGroups) // otherwise Reset overwrites the paths and sorting columns that they share with the writer
		out.events.Put(t.GenericWriter)
	}
	return err
}

// rank passes the rows of one rank's processes in an hour to q.
func (b *Builder) rank(ctx context.Context, q *queue, procs []*Process, hour int64) (n int64, err error) {
	places := make([]uint32, len(procs))
	who := make(map[uint32]*identity, len(procs))
	of := make(map[uint32]*Process, len(procs))
	for i, p := range procs {
		at := p.places[hour]
		places[i], of[at], who[at] = at, p, identify(p.Process)
	}
	it := b.rows.Merge(places...)
	for r := it.Next(); r != nil; r = it.Next() {
		outer, outlasted := uint64(0), []taken(nil)
		if b.names.value(r.name).phase == dftracer.PhaseComplete {
			outer, outlasted = of[r.place].lanes.begin(r)
		}
		q.batch.add(b, who[r.place], r, outer, outlasted)
		if n++; q.batch.full() {
			if err := q.flush(); err != nil {
				return n, err
			}
			if err := ctx.Err(); err != nil {
				return n, err
			}
		}
	}
	return n, it.Err()
}

// queue writes batches in a separate goroutine, so that sorting and encoding
// run in parallel.
type queue struct {
	batch *batch // being filled
	free  chan *batch
	full  chan *batch
	done  sync.WaitGroup

	mu  sync.Mutex
	err error
}

// startQueue begins to write to a file. Its close ends the goroutine.
func startQueue(t *tableFile[event]) *queue {
	q := &queue{batch: newBatch(), free: make(chan *batch, 3), full: make(chan *batch, 2)}
	q.free <- newBatch()
	q.free <- newBatch()
	q.done.Go(func() {
		for b := range q.full {
			if q.failed() == nil {
				if _, err := t.Write(b.finish()); err != nil {
					q.mu.Lock()
					q.err = err
					q.mu.Unlock()
				}
			}
			b.reset()
			q.free <- b
		}
	})
	return q
}

func (q *queue) failed() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// flush passes the batch to the writing goroutine.
func (q *queue) flush() error {
	q.full <- q.batch
	q.batch = <-q.free
	return q.failed()
}

// close writes the remaining rows and returns the first error.
func (q *queue) close() error {
	q.full <- q.batch
	close(q.full)
	q.done.Wait()
	return q.err
}

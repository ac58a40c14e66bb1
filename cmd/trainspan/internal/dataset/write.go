package dataset

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trainspan/trainspan/analysis/goodput"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/run"
)

// RanksPerFolder is how many ranks share a folder of events.
const RanksPerFolder = 128

// partRows is how many rows a file has before the next rank gets another one.
const partRows = 1 << 20

// partName is the name of a file of a folder.
func partName(n int) string { return "part-" + strconv.Itoa(n) + ".parquet" }

// IsPart reports whether a file of a data set has a name that Write gives.
func IsPart(file string) bool {
	var n int
	_, err := fmt.Sscanf(path.Base(file), "part-%d.parquet", &n)
	return err == nil && path.Base(file) == partName(n)
}

// Job is what is written as one run.
type Job struct {
	Name   string // of its folders
	Job    *run.Job
	Ledger *goodput.Ledger // nil leaves the table out

	// Steps, where it is not nil, calls its function with each row of the table
	// steps, by attempt, step and rank.
	Steps func(func(*Step) error) error
}

// Written says what a run became.
type Written struct {
	Events  int64
	Ledger  int64 // rows
	Steps   int64
	Folders int // of events
	Bytes   int64
}

// identity is what the rows of a process have in common; nil is not known.
type identity struct {
	rank    *int32
	attempt *int32
	host    *string
	pid     int64
}

// folder is the events of some ranks in an hour.
type folder struct {
	group int64 // first rank, -1 for processes without one
	hour  int64
	ranks map[int64][]*Process // by rank
}

// Write puts the tables of a job below dir, which exists: events/run=NAME and
// ledger/run=NAME and steps/run=NAME, which do not. What it wrote before an error stays.
func (b *Builder) Write(ctx context.Context, dir string, j *Job) (Written, error) {
	var out Written
	var mu sync.Mutex
	count := func(into *int64, n, size int64) {
		mu.Lock()
		defer mu.Unlock()
		*into += n
		out.Bytes += size
	}
	if err := b.flush(); err != nil {
		return out, err
	}
	b.rows.Merge() // sorts what is in memory, before several read it
	var ledger errgroup.Group
	if j.Ledger != nil {
		ledger.Go(func() error {
			n, size, err := writeLedger(ctx, filepath.Join(dir, LedgerDir(j.Name), partName(0)), j)
			count(&out.Ledger, n, size)
			return err
		})
	}
	if j.Steps != nil {
		ledger.Go(func() error {
			n, size, err := writeTable(ctx, filepath.Join(dir, StepsDir(j.Name), partName(0)), j, []string{"attempt", "step"}, j.Steps)
			count(&out.Steps, n, size)
			return err
		})
	}
	var err error
	for _, f := range b.folders(j) {
		path := filepath.Join(dir, EventsDir(j.Name), "ranks="+f.label(), "hour="+hourLabel(f.hour))
		// The next hour needs the spans that are open at the end of this one.
		files, ctx := errgroup.WithContext(ctx)
		files.SetLimit(runtime.GOMAXPROCS(0))
		for i, ranks := range b.parts(f) {
			files.Go(func() error {
				n, size, err := b.events(ctx, filepath.Join(path, partName(i)), j, f, ranks)
				count(&out.Events, n, size)
				return err
			})
		}
		if err = files.Wait(); err != nil {
			break
		}
		out.Folders++
	}
	if ledgerErr := ledger.Wait(); err == nil {
		err = ledgerErr
	}
	if err != nil {
		return out, fmt.Errorf("dataset: %w", err)
	}
	return out, nil
}

// StepsDir is the folder of the steps of a run.
func StepsDir(run string) string { return filepath.Join("steps", "run="+run) }

// EventsDir is the folder of the events of a run, LedgerDir that of its ledger.
func EventsDir(run string) string { return filepath.Join("events", "run="+run) }

// LedgerDir is the folder of the ledger of a run.
func LedgerDir(run string) string { return filepath.Join("ledger", "run="+run) }

// folders lists the folders of a job in order.
func (b *Builder) folders(j *Job) []*folder {
	type key struct{ group, hour int64 }
	found := make(map[key]*folder)
	take := func(p *run.Process) {
		proc := b.procs[p]
		if proc == nil {
			return
		}
		rank, group := int64(-1), int64(-1)
		if p.RankKnown {
			rank = int64(p.Rank)
			group = rank / RanksPerFolder * RanksPerFolder
		}
		for hour := range proc.places {
			k := key{group, hour}
			if found[k] == nil {
				found[k] = &folder{group: group, hour: hour, ranks: make(map[int64][]*Process)}
			}
			found[k].ranks[rank] = append(found[k].ranks[rank], proc)
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

// parts divides the ranks of a folder among its files.
func (b *Builder) parts(f *folder) (parts [][]int64) {
	rows := int64(0)
	for _, rank := range slices.Sorted(maps.Keys(f.ranks)) {
		if len(parts) == 0 || rows >= partRows {
			parts, rows = append(parts, nil), 0
		}
		last := &parts[len(parts)-1]
		*last = append(*last, rank)
		for _, p := range f.ranks[rank] {
			rows += b.places[p.places[f.hour]]
		}
	}
	return parts
}

// events writes a file with the rows of some ranks of a folder.
func (b *Builder) events(ctx context.Context, path string, j *Job, f *folder, ranks []int64) (n, size int64, err error) {
	t, err := createTable[event](path, j.Name, "rank", "ts_us")
	if err != nil {
		return 0, 0, err
	}
	q := startQueue(t)
	for _, rank := range ranks {
		if err == nil {
			var rows int64
			rows, err = b.rank(ctx, q, f.ranks[rank], f.hour)
			n += rows
		}
	}
	if queueErr := q.close(); err == nil {
		err = queueErr
	}
	size, err = t.close(err)
	return n, size, err
}

// rank hands on the rows of the processes of one rank in an hour.
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
		if b.names.at(r.name).phase == dftracer.PhaseComplete {
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

func identify(p *run.Process) *identity {
	who := &identity{pid: p.PID}
	if p.Attempt > 0 {
		attempt := int32(p.Attempt)
		who.attempt = &attempt
	}
	if p.Host != "" {
		who.host = &p.Host
	}
	if p.RankKnown {
		rank := int32(p.Rank)
		who.rank = &rank
	}
	return who
}

// writeLedger writes the stretches of a job.
func writeLedger(ctx context.Context, path string, j *Job) (n, size int64, err error) {
	return writeTable(ctx, path, j, []string{"rank", "start_ns"}, func(add func(*stretch) error) error {
		return j.Ledger.Stretches(func(s *goodput.Stretch) error {
			row := stretch{Rank: int32(s.Rank), Attempt: int32(s.Attempt), Category: string(s.Category), Start: s.Start, Dur: s.End - s.Start}
			if s.Step != run.Unknown {
				step := s.Step
				row.Step = &step
			}
			return add(&row)
		})
	})
}

// writeTable writes the rows that each gives.
func writeTable[T any](ctx context.Context, path string, j *Job, sorted []string, each func(add func(*T) error) error) (n, size int64, err error) {
	t, err := createTable[T](path, j.Name, sorted...)
	if err != nil {
		return 0, 0, err
	}
	rows := make([]T, 0, batchRows)
	flush := func() error {
		_, err := t.Write(rows)
		rows = rows[:0]
		return cmp.Or(err, ctx.Err())
	}
	err = each(func(row *T) error {
		rows = append(rows, *row)
		if n++; len(rows) < cap(rows) {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	size, err = t.close(err)
	return n, size, err
}

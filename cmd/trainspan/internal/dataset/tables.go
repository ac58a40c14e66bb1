package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/parquetfile"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
)

// column tells how a field of a row becomes a column: a number, which may be
// unknown, or a text.
type column[T any] struct {
	name   string
	number func(row *T) (n int64, known bool)
	text   func(row *T) string
}

// rowsOf writes rows to a table, page by page.
type rowsOf[T any] struct {
	*tableFile
	to      *parquetfile.Writer
	columns []column[T]
	texts   table[string]
	ctx     context.Context
	rows    []T
	n       int64
}

func startRows[T any](ctx context.Context, out *output, name string, columns []column[T], sorted ...string) (*rowsOf[T], error) {
	schema, err := schemaOf[T](out, sorted...)
	if err != nil {
		return nil, err
	}
	t, err := out.create(name)
	if err != nil {
		return nil, err
	}
	w := &rowsOf[T]{tableFile: t, to: parquetfile.New(schema, groupRows), columns: columns, ctx: ctx, rows: make([]T, 0, pageRows)}
	w.to.Reset(t)
	return w, nil
}

func (w *rowsOf[T]) add(row *T) error {
	w.rows = append(w.rows, *row)
	if w.n++; len(w.rows) < cap(w.rows) {
		return nil
	}
	return w.flush()
}

func (w *rowsOf[T]) flush() error {
	if len(w.rows) == 0 {
		return w.ctx.Err()
	}
	values, known, numbers := make([]int64, 0, len(w.rows)), make([]byte, len(w.rows)), make([]uint32, len(w.rows))
	for _, c := range w.columns {
		if c.text != nil {
			for i := range w.rows {
				numbers[i] = w.texts.idOf(c.text(&w.rows[i]))
			}
			w.to.Column(c.name).Numbered(numbers, parquetfile.Levels{}, func(n uint32) parquetfile.Value { return parquetfile.Value{Text: *w.texts.value(n)} })
			continue
		}
		values = values[:0]
		for i := range w.rows {
			n, ok := c.number(&w.rows[i])
			if known[i] = 0; ok {
				values, known[i] = append(values, n), 1
			}
		}
		w.to.Column(c.name).Ints(values, parquetfile.Levels{Definition: known})
	}
	err := w.to.EndPage(len(w.rows))
	w.rows = w.rows[:0]
	return cmp.Or(err, w.ctx.Err())
}

func (w *rowsOf[T]) end(rows *int64, err error) error {
	if err == nil {
		err = cmp.Or(w.flush(), w.to.Close())
	}
	return w.close(rows, w.n, err)
}

// writeLedger writes the intervals of a job's accounts.
func writeLedger(ctx context.Context, out *output) error {
	w, err := startRows(ctx, out, filepath.Join(ledgerDir(out.job.Name), "part-0.parquet"), stretchColumns, "rank", "ts")
	if err != nil {
		return err
	}
	return w.end(&out.written.Ledger, out.job.Ledger.Stretches(func(s *account.Stretch) error {
		return w.add(&stretch{
			Rank: int32(s.Rank), Attempt: int32(s.Attempt), Category: string(s.Category), Step: s.Step, Start: s.Start / 1000, Dur: s.End - s.Start,
		})
	}))
}

// writeSteps writes the steps of a job, a file for each attempt, which may be
// empty.
func writeSteps(ctx context.Context, out *output, attempts map[int][]*job.Process) error {
	var w *rowsOf[Step]
	left, attempt := maps.Clone(attempts), 0
	end := func(err error) error {
		if w == nil {
			return err
		}
		err, w = w.end(&out.written.Steps, err), nil
		return err
	}
	begin := func(of int) error {
		err := end(nil)
		if err != nil {
			return err
		}
		attempt = of
		next, err := startRows(ctx, out, filepath.Join(stepsDir(out.job.Name), fileName(of, attempts[of])), stepColumns, "attempt", "step")
		if err == nil {
			w = next
			delete(left, of)
		}
		return err
	}
	err := out.job.Steps(func(row *Step) error {
		if w == nil || int(row.Attempt) != attempt {
			if err := begin(int(row.Attempt)); err != nil {
				return err
			}
		}
		return w.add(row)
	})
	for _, attempt := range slices.Sorted(maps.Keys(left)) {
		if err == nil {
			err = begin(attempt)
		}
	}
	return end(err)
}

// writeIndex writes the table runs, which lists the contents of each attempt,
// in a separate file.
func (b *Builder) writeIndex(out *output, attempts map[int][]*job.Process) error {
	known := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	for _, attempt := range slices.Sorted(maps.Keys(attempts)) {
		procs := attempts[attempt]
		row := indexed{Ranks: ranksOf(procs), Processes: int32(len(procs)), JobID: known(out.job.Job.ID), SessionTag: known(out.job.Job.SessionTag)}
		if attempt > 0 {
			n := int32(attempt)
			row.Attempt = &n
		}
		if out.job.Job.Ranks > 0 {
			n := int32(out.job.Job.Ranks)
			row.WorldSize = &n
		}
		row.First = procs[0].Start / 1000
		for _, p := range procs {
			row.First, row.Last = min(row.First, p.Start/1000), max(row.Last, p.LastSeen/1000)
			row.Hosts = append(row.Hosts, p.Host)
			for _, h := range b.procs[p].hours {
				row.Events += h.n
			}
		}
		slices.Sort(row.Hosts)
		row.Hosts = slices.Compact(row.Hosts)
		t, err := out.create(filepath.Join(indexDir(out.job.Name), fileName(attempt, procs)))
		if err != nil {
			return err
		}
		w := parquet.NewGenericWriter[indexed](t, append(out.options(), parquet.Compression(&parquet.Zstd))...)
		_, err = w.Write([]indexed{row})
		var rows int64
		if err = t.close(&rows, 1, cmp.Or(err, w.Close())); err != nil {
			return err
		}
	}
	return nil
}

// Overlap returns an error if a part in dir with another name has ranks of the
// Job, whose events would then exist twice. The error names the index of that
// part.
func (b *Builder) Overlap(dir string, j *Job) error {
	folder := filepath.Join(dir, indexDir(j.Name))
	files, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	attempts := b.attempts(j)
	mine := make(map[string]bool)
	for attempt, procs := range attempts {
		mine[fileName(attempt, procs)] = true
	}
	for _, f := range files {
		if mine[f.Name()] || !IsPart(f.Name()) {
			continue
		}
		path := filepath.Join(folder, f.Name())
		rows, err := parquet.ReadFile[indexed](path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, row := range rows {
			attempt := 0
			if row.Attempt != nil {
				attempt = int(*row.Attempt)
			}
			for _, rank := range ranksOf(attempts[attempt]) {
				if _, found := slices.BinarySearch(row.Ranks, rank); found {
					return fmt.Errorf("rank %d of attempt %d %w, by %s", rank, attempt, ErrOverlap, path)
				}
			}
		}
	}
	return nil
}

// ErrNoEvents is returned for a part without events.
var ErrNoEvents = errors.New("no events")

// ErrOverlap is returned for a part if some of its ranks already exist in a
// part with other ranks.
var ErrOverlap = errors.New("already exists")

// Version is the version of the schema. It changes when a column changes its
// meaning or is removed; new columns may be added at any time. The files have
// it as the metadata trainspan.schema.
const Version = "2"

// event has the columns of the table events.
type event struct {
	Rank      int32  `parquet:"rank,dict,optional"`
	Attempt   int32  `parquet:"attempt,dict,optional"`
	Host      string `parquet:"host,dict,optional"`
	PID       int64  `parquet:"pid,dict"`
	TID       int64  `parquet:"tid,dict"`
	Phase     string `parquet:"ph,dict"`
	Cat       string `parquet:"cat,dict"`
	Name      string `parquet:"name,dict"`
	Class     string `parquet:"class,dict"`
	TS        int64  `parquet:"ts,delta,timestamp(microsecond)"`
	Dur       int64  `parquet:"dur_us"`
	Epoch     int64  `parquet:"epoch,dict,optional"`
	Step      int64  `parquet:"step,dict,optional"`
	ID        int64  `parquet:"id,delta"`
	Parent    int64  `parquet:"parent,delta"`
	OuterCat  string `parquet:"outer_cat,dict,optional"`
	OuterName string `parquet:"outer_name,dict,optional"`
	Outlasts  []part `parquet:"outlasts,list"`
	Group     string `parquet:"pg,dict,optional"`
	File      string `parquet:"file,dict,optional"`
	Args      string `parquet:"args,optional"`
}

// part is the part of a span's time that counts for a span with another name.
type part struct {
	Cat  string `parquet:"cat,dict"`
	Name string `parquet:"name,dict"`
	Us   int64  `parquet:"us"`
}

// Step is one row of the table steps: a training step of one process, as in
// trainspan trace steps. Start is in microseconds. A negative value of an
// optional column is unknown.
type Step struct {
	Rank       int32  `parquet:"rank,dict,optional"`
	Attempt    int32  `parquet:"attempt,dict"`
	PID        int64  `parquet:"pid,dict"`
	Step       int64  `parquet:"step,delta"`
	Raw        int64  `parquet:"raw_step,dict,optional"`
	Epoch      int64  `parquet:"epoch,dict,optional"`
	Start      int64  `parquet:"ts,delta,timestamp(microsecond)"`
	Dur        int64  `parquet:"dur_ns,optional"`
	Rule       string `parquet:"rule,dict"`
	Data       int64  `parquet:"data_ns"`
	Copies     int64  `parquet:"copies_ns"`
	Forward    int64  `parquet:"forward_ns"`
	Backward   int64  `parquet:"backward_ns"`
	Optimizer  int64  `parquet:"optimizer_ns"`
	Comm       int64  `parquet:"comm_ns"`
	Checkpoint int64  `parquet:"checkpoint_ns"`
}

var stepColumns = []column[Step]{
	{name: "rank", number: func(s *Step) (int64, bool) { return natural(int64(s.Rank)) }},
	{name: "attempt", number: func(s *Step) (int64, bool) { return int64(s.Attempt), true }},
	{name: "pid", number: func(s *Step) (int64, bool) { return s.PID, true }},
	{name: "step", number: func(s *Step) (int64, bool) { return s.Step, true }},
	{name: "raw_step", number: func(s *Step) (int64, bool) { return natural(s.Raw) }},
	{name: "epoch", number: func(s *Step) (int64, bool) { return natural(s.Epoch) }},
	{name: "ts", number: func(s *Step) (int64, bool) { return s.Start, true }},
	{name: "dur_ns", number: func(s *Step) (int64, bool) { return natural(s.Dur) }},
	{name: "rule", text: func(s *Step) string { return s.Rule }},
	{name: "data_ns", number: func(s *Step) (int64, bool) { return s.Data, true }},
	{name: "copies_ns", number: func(s *Step) (int64, bool) { return s.Copies, true }},
	{name: "forward_ns", number: func(s *Step) (int64, bool) { return s.Forward, true }},
	{name: "backward_ns", number: func(s *Step) (int64, bool) { return s.Backward, true }},
	{name: "optimizer_ns", number: func(s *Step) (int64, bool) { return s.Optimizer, true }},
	{name: "comm_ns", number: func(s *Step) (int64, bool) { return s.Comm, true }},
	{name: "checkpoint_ns", number: func(s *Step) (int64, bool) { return s.Checkpoint, true }},
}

// natural returns a number, which is unknown if it is negative.
func natural(n int64) (int64, bool) { return n, n >= 0 }

// stretch is one row of the table ledger.
type stretch struct {
	Rank     int32  `parquet:"rank,dict"`
	Attempt  int32  `parquet:"attempt,dict"`
	Category string `parquet:"category,dict"`
	Step     int64  `parquet:"step,dict,optional"` // job.Unknown for none
	Start    int64  `parquet:"ts,delta,timestamp(microsecond)"`
	Dur      int64  `parquet:"dur_ns"`
}

var stretchColumns = []column[stretch]{
	{name: "rank", number: func(s *stretch) (int64, bool) { return int64(s.Rank), true }},
	{name: "attempt", number: func(s *stretch) (int64, bool) { return int64(s.Attempt), true }},
	{name: "category", text: func(s *stretch) string { return s.Category }},
	{name: "step", number: func(s *stretch) (int64, bool) { return s.Step, s.Step != job.Unknown }},
	{name: "ts", number: func(s *stretch) (int64, bool) { return s.Start, true }},
	{name: "dur_ns", number: func(s *stretch) (int64, bool) { return s.Dur, true }},
}

// indexed is one row of the table runs: the data that one conversion wrote for
// an attempt.
type indexed struct {
	Attempt    *int32   `parquet:"attempt"`
	Ranks      []int32  `parquet:"ranks,list"` // the known ones, sorted
	Processes  int32    `parquet:"processes"`
	WorldSize  *int32   `parquet:"world_size"`
	Hosts      []string `parquet:"hosts,list"`
	JobID      *string  `parquet:"job_id"`
	SessionTag *string  `parquet:"session_tag"`
	First      int64    `parquet:"ts,timestamp(microsecond)"`
	Last       int64    `parquet:"ended,timestamp(microsecond)"`
	Events     int64    `parquet:"events"`
}

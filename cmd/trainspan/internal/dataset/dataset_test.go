package dataset_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/dataset"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// event has the columns that the tests read.
type event struct {
	Rank      *int32  `parquet:"rank"`
	Attempt   *int32  `parquet:"attempt"`
	TID       int64   `parquet:"tid"`
	Phase     string  `parquet:"ph"`
	Cat       string  `parquet:"cat"`
	Name      string  `parquet:"name"`
	TS        int64   `parquet:"ts"`
	Dur       int64   `parquet:"dur_us"`
	Epoch     *int64  `parquet:"epoch"`
	Step      *int64  `parquet:"step"`
	OuterCat  *string `parquet:"outer_cat"`
	OuterName *string `parquet:"outer_name"`
	Outlasts  []part  `parquet:"outlasts,list"`
	Group     *string `parquet:"pg"`
	File      *string `parquet:"file"`
	Args      *string `parquet:"args"`
}

type part struct {
	Cat  string `parquet:"cat"`
	Name string `parquet:"name"`
	Us   int64  `parquet:"us"`
}

// convert writes the traces in a folder as a data set and returns its folder.
func convert(t *testing.T, memory int, traces string) (string, dataset.Written) {
	t.Helper()
	set, err := job.Open(traces)
	if err != nil {
		t.Fatal(err)
	}
	rows := dataset.New(memory, t.TempDir())
	set.Events = func(p *job.Process) func(*dftracer.Event) {
		to := rows.Process(p)
		return func(ev *dftracer.Event) {
			if err := to.Add(ev); err != nil {
				t.Error(err)
			}
		}
	}
	accounts, err := account.Collect(set)
	if err != nil || len(accounts) != 1 {
		t.Fatalf("conversion gave %d jobs, want 1: %v", len(accounts), err)
	}
	dir := t.TempDir()
	w, err := rows.Write(context.Background(), dir, &dataset.Job{Name: "r", Job: accounts[0].Job, Ledger: accounts[0].Ledger})
	if err != nil {
		t.Fatal(err)
	}
	return dir, w
}

// read returns the rows of all files of events, folder by folder.
func read(t *testing.T, dir string) (all []event) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "events", "run=r", "*", "*", "*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Parquet files: %v", err)
	}
	for _, path := range files {
		rows, err := parquet.ReadFile[event](path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rows...)
	}
	return all
}

// writeRank writes a trace of one rank: randomly nested spans on three lanes.
func writeRank(t *testing.T, dir string, rank, n int, start int64) {
	t.Helper()
	w, err := dftracer.Create(filepath.Join(dir, "trace-"+strconv.Itoa(rank)+".pfw.gz"), &dftracer.Options{
		Process: dftracer.Process{PID: 100 + rank, Host: "node", Rank: &rank},
	})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(uint64(rank), 1))
	left := n
	var nest func(tid, from, to int64, level int)
	nest = func(tid, from, to int64, level int) {
		for at := from; at < to && left > 0; {
			dur := 1 + rng.Int64N(max((to-from)/3, 1))
			if at+dur > to {
				return
			}
			left--
			if level < 6 && dur > 10 && rng.IntN(2) == 0 {
				nest(tid, at, at+dur, level+1)
			}
			w.Write(&dftracer.Event{
				Cat: "c" + strconv.Itoa(level%3), Name: "n" + strconv.Itoa(rng.IntN(4)), TID: tid, TS: at, Dur: dur, Level: level,
				Args: []dftracer.Arg{dftracer.Int("step", rng.Int64N(9)), dftracer.Float("loss", 0.5)},
			})
			at += dur + rng.Int64N(3)
		}
	}
	for hour := int64(0); left > 0; hour++ {
		for tid := range int64(3) {
			nest(tid, start+hour*3_000_000_000, start+(hour+1)*3_000_000_000, 1)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRows checks that the rows of each file are sorted and complete, and self
// times are those of the summary, whether or not the rows fit in memory.
func TestRows(t *testing.T) {
	traces := t.TempDir()
	const ranks, events = 3, 4000
	for rank := range ranks {
		writeRank(t, traces, rank, events, 1_700_000_000_000_000)
	}
	agg := spanstats.New(nil)
	files, err := filepath.Glob(filepath.Join(traces, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		agg.NextFile(nil)
		if _, err := dftracer.Scan(path, nil, func(ev *dftracer.Event) error { agg.Add(ev); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	want := agg.Result()
	for name, memory := range map[string]int{"in memory": 0, "on disk": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			dir, written := convert(t, memory, traces)
			all := read(t, dir)
			if len(all) != ranks*events || written.Events != int64(len(all)) || written.Folders < 2 || written.Ledger == 0 {
				t.Errorf("%d rows, written %+v; want %d rows in two or more folders and a ledger", len(all), written, ranks*events)
			}
			type key struct{ cat, name string }
			own, inside := make(map[key]int64), make(map[key]int64)
			for i, e := range all {
				own[key{e.Cat, e.Name}] += e.Dur
				if e.OuterName != nil {
					inside[key{*e.OuterCat, *e.OuterName}] += e.Dur
				}
				if i > 0 && e.TS/3_600_000_000 == all[i-1].TS/3_600_000_000 && (*e.Rank < *all[i-1].Rank || *e.Rank == *all[i-1].Rank && e.TS < all[i-1].TS) {
					t.Fatalf("row %d is out of order, want rows of an hour sorted by rank and time", i)
				}
				if e.Step == nil || e.Args == nil || *e.Args != `{"loss":0.5}` || e.Phase != "X" || *e.Attempt != 1 {
					t.Fatalf(`row is %+v, want a complete event of attempt 1 with a step and the arguments {"loss":0.5}`, e)
				}
			}
			for _, n := range want.Names {
				k := key{n.Category, n.Name}
				if own[k] != n.Total || own[k]-inside[k] != n.Self {
					t.Errorf("%v: %d in all, %d self, want %+v", k, own[k], own[k]-inside[k], n)
				}
			}
		})
	}
}

// TestStatistics checks that row groups have the bounds of rank and time by
// which an engine skips them.
func TestStatistics(t *testing.T) {
	traces := t.TempDir()
	for rank := range 2 {
		writeRank(t, traces, rank, 500, 1_700_000_000_000_000)
	}
	dir, _ := convert(t, 0, traces)
	files, err := filepath.Glob(filepath.Join(dir, "events", "run=r", "ranks=0-127", "hour=*", "attempt-1.ranks-0-1.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Parquet files: %v", err)
	}
	f, err := os.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	pf, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := pf.Lookup("trainspan.schema"); v != dataset.Version {
		t.Errorf("schema %q, want %q", v, dataset.Version)
	}
	for _, g := range pf.Metadata().RowGroups {
		if len(g.SortingColumns) != 2 {
			t.Errorf("sorted by %v, want 2", g.SortingColumns)
		}
		for _, c := range g.Columns {
			switch c.MetaData.PathInSchema[0] {
			case "rank", "ts", "cat", "name", "step":
				if len(c.MetaData.Statistics.MinValue) == 0 || len(c.MetaData.Statistics.MaxValue) == 0 {
					t.Errorf("%v has no bounds", c.MetaData.PathInSchema)
				}
			}
		}
	}
}

// TestColumns checks that arguments with a column are not among the other
// arguments; values that are not numbers stay there.
func TestColumns(t *testing.T) {
	traces := t.TempDir()
	rank := 5
	w, err := dftracer.Create(filepath.Join(traces, "t.pfw"), &dftracer.Options{Process: dftracer.Process{Rank: &rank}})
	if err != nil {
		t.Fatal(err)
	}
	at := int64(1_700_000_000_000_000)
	write := func(ev dftracer.Event) {
		ev.TS, ev.TID = at, 1
		at += 100
		w.Write(&ev)
	}
	write(dftracer.Event{Cat: "POSIX", Name: "read", Dur: 10, Args: []dftracer.Arg{tracefile.HashArg("fhash", w.Hash(tracefile.NameFileHash, "/data/x\"y")), dftracer.Int("ret", 7)}})
	write(dftracer.Event{Cat: "comm", Name: "all_reduce", Dur: 10, Args: []dftracer.Arg{dftracer.String("pg", "tp0"), dftracer.Int("epoch", 0), dftracer.Int("step", 0)}})
	write(dftracer.Event{Cat: "x", Name: "y", Dur: 10, Args: []dftracer.Arg{dftracer.String("step", "last")}})
	write(dftracer.Event{Cat: "x", Name: "c", Phase: dftracer.PhaseCounter, Args: []dftracer.Arg{dftracer.Float("value", 1)}})
	write(dftracer.Event{Cat: "x", Name: "bare", Dur: 10})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir, _ := convert(t, 0, traces)
	all := read(t, dir)
	if len(all) != 5 {
		t.Fatalf("%d rows, want 5", len(all))
	}
	text := func(p *string) string {
		if p == nil {
			return "null"
		}
		return *p
	}
	if e := all[0]; text(e.File) != `/data/x"y` || text(e.Args) != `{"ret":7}` || *e.Rank != 5 || e.Step != nil {
		t.Errorf(`row 0 is %+v, want file /data/x"y, arguments {"ret":7}, rank 5, no step`, e)
	}
	if e := all[1]; text(e.Group) != "tp0" || e.Epoch == nil || *e.Epoch != 0 || e.Step == nil || *e.Step != 0 || e.Args != nil {
		t.Errorf("row 1 is %+v, want group tp0, epoch 0, step 0, no arguments", e)
	}
	if e := all[2]; e.Step != nil || text(e.Args) != `{"step":"last"}` {
		t.Errorf(`row 2 is %+v, want arguments {"step":"last"} and no step`, e)
	}
	if e := all[3]; e.Phase != "C" || text(e.Args) != `{"value":1.0}` || e.OuterName != nil {
		t.Errorf(`row 3 is %+v, want a counter with {"value":1.0} and no outer name`, e)
	}
	if e := all[4]; e.Args != nil || e.File != nil || e.Group != nil {
		t.Errorf("row 4 is %+v, want no arguments, file and group", e)
	}
}

package account_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/spans"
)

// scenario files become telemetry files of every kind, and must give the same
// ledger as the spans themselves.

const epoch = 1704067200000

func (s *scenario) of(rank, attempt int) (attemptRecord, []scenarioSpan) {
	i := slices.IndexFunc(s.Attempts, func(a attemptRecord) bool { return a.Rank == rank && a.Attempt == attempt })
	var list []scenarioSpan
	for _, sp := range s.Spans {
		if sp.Rank == rank && sp.Attempt == attempt {
			list = append(list, sp)
		}
	}
	return s.Attempts[i], list
}

// trace writes the trace of one process. A process without a proper end leaves an
// unclosed file.
func (s *scenario) trace(t *testing.T, path string, a attemptRecord, list []scenarioSpan, d dftracer.Dialect) {
	t.Helper()
	now := (s.EpochMS + a.Start) * 1000
	rank := a.Rank
	w, err := dftracer.Create(path, &dftracer.Options{
		Dialect: d, Now: func() time.Time { return time.UnixMicro(now) },
		Process: dftracer.Process{PID: 100 + a.Rank, Host: "node" + strconv.Itoa(a.Rank), Rank: &rank},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	us := func(ms int64) int64 { return (s.EpochMS + ms) * 1000 }
	ids := make(map[uint64]int64)
	for _, sp := range list {
		ids[sp.ID] = int64(w.NextID())
	}
	for _, sp := range list {
		ev := dftracer.Event{ID: uint64(ids[sp.ID]), Name: sp.Name, Cat: "app", TID: 7, TS: us(sp.Start), Level: 1, Parent: dftracer.NoParent}
		if info, ok := spans.Lookup(sp.Name); ok {
			ev.Name, ev.Cat = info.Event, info.Category
		}
		if sp.Parent != nil {
			ev.Parent, ev.Level = ids[*sp.Parent], 2
		}
		switch at := sp.Attributes; {
		case at.First != nil:
			ev.Args = append(ev.Args, dftracer.Int("train_iterations_start", *at.First))
		case at.Iteration != nil && sp.Name == "training_single_iteration":
			ev.Args = append(ev.Args, dftracer.Int("step", *at.Iteration))
		case at.Iteration != nil:
			ev.Args = append(ev.Args, dftracer.Int("current_iteration", *at.Iteration))
		}
		if sp.Attributes.Background {
			ev.Args = append(ev.Args, dftracer.Int("background", 1))
		}
		if sp.End == nil {
			tracefile.WriteBegin(w, &ev)
			continue
		}
		ev.Dur = us(*sp.End) - ev.TS
		w.Write(&ev)
	}
	tracefile.WriteCustom(w, "heartbeat", strconv.FormatInt(us(a.LastSeen), 10))
	if a.End != nil {
		now = us(*a.End)
		return
	}
	if err := w.FlushContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil { // must not write an end for a killed process
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// lines returns the JSON lines of one process, in the format of the reference
// implementation or in ours.
func (s *scenario) lines(a attemptRecord, list []scenarioSpan, ours bool) []byte {
	var out bytes.Buffer
	n := 0
	line := func(text string, parent *uint64) {
		n++
		fmt.Fprintf(&out, `{%s,"count":%d,"pid":%d`, text, n, 100+a.Rank)
		if ours {
			if parent != nil {
				fmt.Fprintf(&out, `,"parent_id":"%016x"`, *parent)
			}
			fmt.Fprintf(&out, `,"trace_id":"%032x","rank":%d,"attempt":%d`, 5, a.Rank, a.Attempt-1)
		}
		out.WriteString("}\n")
	}
	event := func(name string, ms int64, more string) string {
		return fmt.Sprintf(`{"name":%q,"attributes":{%s"timestamp_msec":%d}}`, name, more, s.EpochMS+ms)
	}
	for _, sp := range list {
		attributes := ""
		if sp.Attributes.First != nil {
			attributes = fmt.Sprintf(`"train_iterations_start":%d`, *sp.Attributes.First)
		} else if sp.Attributes.Iteration != nil && strings.HasPrefix(sp.Name, "checkpoint") {
			attributes = fmt.Sprintf(`"current_iteration":%d`, *sp.Attributes.Iteration)
		}
		with := func(more string) string {
			if more = strings.Trim(attributes+","+more, ","); more == "" {
				return ""
			}
			return `,"attributes":{` + more + `}`
		}
		id := fmt.Sprintf("%016x", sp.ID)
		line(fmt.Sprintf(`"type":"start","id":%q,"name":%q%s,"start_event":%s`, id, sp.Name, with(""), event("span_start", sp.Start, "")), sp.Parent)
		if sp.Name == spans.Application {
			line(fmt.Sprintf(`"type":"event","span_id":%q,"event":%s`, id,
				event("one_logger_initialization", sp.Start, fmt.Sprintf(`"world_size":1,"session_tag":"tag","node_name":"node%d","rank":%d,"loss":NaN,`, a.Rank, a.Rank))), nil)
		}
		if sp.End != nil {
			line(fmt.Sprintf(`"type":"stop","id":%q,"name":%q%s,"stop_event":%s`, id, sp.Name,
				with(fmt.Sprintf(`"duration_msec":%d`, *sp.End-sp.Start)), event("span_stop", *sp.End, "")), sp.Parent)
		}
	}
	if a.End == nil {
		line(fmt.Sprintf(`"type":"event","span_id":"%016x","event":%s`, list[0].ID, event("last", a.LastSeen, "")), nil)
	}
	return out.Bytes()
}

func accountOf(t *testing.T, paths ...string) (*account.Account, *job.Set) {
	t.Helper()
	set, err := job.Open(paths...)
	if err != nil {
		t.Fatal(err)
	}
	all, err := account.Collect(set)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("%d jobs, want 1", len(all))
	}
	return &all[0], set
}

// replay compares the ledger of files with the expected figures.
func (s *scenario) replay(t *testing.T, dir string) *account.Account {
	t.Helper()
	a, set := accountOf(t, dir)
	if len(set.Skipped) > 0 {
		t.Errorf("skipped: %v, want none", set.Skipped)
	}
	want := &s.Right[0]
	q := query{}
	if len(s.Queries) > 0 {
		q = s.Queries[0]
	}
	for _, d := range diff(a.Ledger.Report(s.query(q, want, false)), want) {
		t.Errorf("report of the files differs: %s", d)
	}
	return a
}

var replayed = []string{"10_rollback_past_segment", "12_hang_then_restart", "24_save_async", "49_all_at_once", "52_two_ranks_skew"}

func TestTraceFiles(t *testing.T) {
	for _, d := range []dftracer.Dialect{dftracer.V1, dftracer.V2, dftracer.V22} {
		for _, name := range replayed {
			if d == dftracer.V22 && (name == "24_save_async" || name == "52_two_ranks_skew") {
				continue // without parents, concurrent spans cannot be recognized
			}
			t.Run(fmt.Sprint(d, " ", name), func(t *testing.T) {
				s := readScenario(t, "testdata/scenarios/"+name+".json")
				dir := t.TempDir()
				for _, a := range s.Attempts {
					rec, list := s.of(a.Rank, a.Attempt)
					s.trace(t, filepath.Join(dir, fmt.Sprintf("a%d-r%d.pfw.gz", a.Attempt, a.Rank)), rec, list, d)
				}
				acc := s.replay(t, dir)
				for _, p := range acc.Job.Processes {
					if !p.RankKnown || p.Host != "node"+strconv.Itoa(p.Rank) || !p.Heartbeats || !p.Training || p.AttemptKnown {
						t.Errorf("process %+v, want a known rank on its host, with heartbeats, in training, of an unknown attempt", p)
					}
				}
			})
		}
	}
}

func TestJSONLines(t *testing.T) {
	for _, ours := range []bool{true, false} {
		for _, name := range replayed {
			if !ours && (name == "52_two_ranks_skew" || name == "24_save_async") {
				continue
			}
			t.Run(fmt.Sprint(ours, " ", name), func(t *testing.T) {
				s := readScenario(t, "testdata/scenarios/"+name+".json")
				dir := t.TempDir()
				for _, a := range s.Attempts {
					rec, list := s.of(a.Rank, a.Attempt)
					write(t, filepath.Join(dir, fmt.Sprintf("a%d-r%d.jsonl", a.Attempt, a.Rank)), s.lines(rec, list, ours))
				}
				acc := s.replay(t, dir)
				if p := acc.Job.Processes[0]; acc.Job.SessionTag != "tag" || p.Host != "node0" || !p.RankKnown || p.AttemptKnown != ours {
					t.Errorf("job %+v, process %+v; want tag tag, node0, a known rank, a known attempt: %v", acc.Job, p, ours)
				}
			})
		}
	}
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestMixedFiles checks the ledger of attempts from different writers, attempts that
// share one file, lines in any order, copies, and unrelated files.
func TestMixedFiles(t *testing.T) {
	s := readScenario(t, "testdata/scenarios/10_rollback_past_segment.json")
	r := rand.New(rand.NewPCG(1, 2))
	shuffled := func(text []byte) []byte {
		lines := bytes.SplitAfter(text, []byte("\n"))
		r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		return bytes.Join(lines, nil)
	}
	lines := func(attempt int, ours bool) []byte {
		rec, list := s.of(0, attempt)
		return s.lines(rec, list, ours)
	}
	trace := func(dir string, attempt int) string {
		rec, list := s.of(0, attempt)
		path := filepath.Join(dir, fmt.Sprintf("attempt-%d.pfw", attempt))
		s.trace(t, path, rec, list, dftracer.V2)
		return path
	}
	t.Run("trace, ours, reference", func(t *testing.T) {
		dir := t.TempDir()
		trace(dir, 1)
		write(t, filepath.Join(dir, "b.jsonl"), lines(2, true))
		write(t, filepath.Join(dir, "c.jsonl"), lines(3, false))
		write(t, filepath.Join(dir, "notes.txt"), []byte("{\"a\":1}\nhello"))
		a, set := accountOf(t, dir)
		if d := diff(a.Ledger.Report(s.query(s.Queries[0], &s.Right[0], false)), &s.Right[0]); d != nil {
			t.Errorf("report of the files differs: %s", d)
		}
		if len(set.Skipped) != 1 {
			t.Errorf("skipped %v, want one", set.Skipped)
		}
	})
	t.Run("one file of lines, shuffled", func(t *testing.T) {
		dir := t.TempDir()
		all := append(append(lines(1, true), lines(2, true)...), lines(3, true)...)
		write(t, filepath.Join(dir, "all.jsonl"), shuffled(all))
		s.replay(t, dir)
	})
	t.Run("shuffled and copied", func(t *testing.T) {
		dir := t.TempDir()
		for n := 1; n <= 3; n++ {
			path := trace(dir, n)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, shuffled(text))
			write(t, filepath.Join(dir, fmt.Sprintf("copy-%d.pfw", n)), text)
		}
		a := s.replay(t, dir)
		if rep := a.Ledger.Report(account.Query{}); flag(rep, account.TwoWriters) != nil || len(a.Job.Processes) != 3 {
			t.Errorf("%d processes, flags %+v; want 3 and no flag two_writers", len(a.Job.Processes), rep.Flags)
		}
	})
	t.Run("a trace and lines of the same process", func(t *testing.T) {
		dir := t.TempDir()
		for n := 1; n <= 3; n++ {
			trace(dir, n)
			write(t, filepath.Join(dir, fmt.Sprintf("%d.jsonl", n)), lines(n, true))
		}
		a := s.replay(t, dir)
		if p := a.Job.Processes; len(p) != 3 || !p[0].AttemptKnown || len(p[0].Sources) != 2 || a.Job.SessionTag != "tag" {
			t.Errorf("job %+v, want tag tag and 3 processes, the first with a known attempt and two files", a.Job)
		}
	})
}

// TestRotatedTrace checks parents that are in another file than their children.
func TestRotatedTrace(t *testing.T) {
	s := readScenario(t, "testdata/scenarios/24_save_async.json")
	rec, list := s.of(0, 1)
	dir := t.TempDir()
	one := filepath.Join(dir, "one.pfw")
	s.trace(t, one, rec, list, dftracer.V2)
	text, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	head := lines[:8]
	part := `{"id":900,"name":"CM","cat":"dftracer","pid":100,"tid":100,"ph":"M","args":{"hhash":"` +
		tracefile.HashText(tracefile.HashOf(dftracer.V2, "node0"), dftracer.V2) + `","name":"trace.part","value":"1"}}` + "\n"
	cut := len(lines) / 2
	if err := os.Remove(one); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "t.pfw"), bytes.Join(lines[:cut], nil))
	write(t, filepath.Join(dir, "t.1.pfw"), append(append(bytes.Join(head, nil), part...), bytes.Join(lines[cut:], nil)...))
	if a := s.replay(t, dir); len(a.Job.Processes) != 1 || len(a.Job.Processes[0].Sources) != 2 {
		t.Errorf("job %+v, want one process of two files", a.Job)
	}
}

// A receiver has no threads, only spans that end in any order. Those that run one after the other count, whatever
// lanes they have; those that run while a step does, without being part of it, are beside it.
func TestSpansOfAReceiver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.pfw.gz")
	begin := time.UnixMilli(epoch)
	w, err := dftracer.Create(path, &dftracer.Options{Start: begin, Heartbeat: -1, Process: dftracer.Process{PID: 7, Host: "h"}})
	if err != nil {
		t.Fatal(err)
	}
	a := place.New(w, place.Options{TID: 7, MaxWaiting: 100, MaxParents: 100})
	key := func(id byte) (k place.Key) {
		if id > 0 {
			k.Trace[0], k.Span[0] = 1, id
		}
		return k
	}
	var names place.Names
	span := func(id, parent byte, name string, from, to int64, args ...dftracer.Arg) {
		a.Add(&place.Span{Key: key(id), Parent: key(parent), Name: names.Find("", name, "", ""),
			Start: begin.UnixMicro() + from*1e6, End: begin.UnixMicro() + to*1e6, Args: args}, begin)
		a.WriteAll() // long after the last one
	}
	const app, loop = 1, 2
	span(10, app, "model_initialization", 0, 60)
	span(11, app, "checkpoint_load", 60, 180)
	for i := range int64(10) {
		id := byte(20 + i)
		span(id+20, id, "model_forward", 180+10*i, 184+10*i)
		if i == 3 {
			span(12, app, "checkpoint_save_async", 210, 218)
			span(13, app, "upload", 208, 219)
		}
		span(id, loop, "training_single_iteration", 180+10*i, 190+10*i, dftracer.Int("current_iteration", i))
	}
	span(loop, app, "training_loop", 180, 280)
	span(14, app, "validation_loop", 280, 300)
	span(app, 0, "application", 0, 300)
	a.Finish()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, _ := accountOf(t, path)
	rep := got.Ledger.Report(account.Query{})
	want(t, "time", rep.Categories, account.Totals{account.Init: 60 * sec, account.CheckpointLoad: 120 * sec, account.Productive: 100 * sec, account.Validation: 20 * sec})
	want(t, "overlapped", rep.Overlapped, account.Totals{account.CheckpointSave: 8 * sec, "custom.upload": 11 * sec})
	if p := rep.ProductiveParts; p[account.Compute] != 40*sec {
		t.Errorf("parts of the steps %v, want 40 s of compute", p)
	}
}

// FuzzCollect checks that the ledger adds up for any contents of the files.
func FuzzCollect(f *testing.F) {
	s := scenario{EpochMS: epoch}
	end := int64(30)
	first, number := int64(0), int64(3)
	parent := uint64(1)
	s.Attempts = []attemptRecord{{Attempt: 1, LastSeen: 40}}
	s.Spans = []scenarioSpan{{ID: 1, Attempt: 1, Name: "application"}, {ID: 2, Parent: &parent, Attempt: 1, Name: "training_loop"}, {ID: 3, Parent: &parent, Attempt: 1, Name: "training_single_iteration", Start: 5, End: &end}}
	s.Spans[1].Attributes.First, s.Spans[2].Attributes.Iteration = &first, &number
	rec, list := s.of(0, 1)
	f.Add(s.lines(rec, list, true), s.lines(rec, list, false))
	f.Add([]byte(`{"id":6,"name":"start","cat":"dftracer","pid":7,"tid":7,"ts":1704067200000000,"dur":0,"ph":"X","args":{"hhash":"a","level":1,"p_idx":-1,"attempt":1}}
{"id":9,"name":"ai_root","cat":"ai_root","pid":7,"tid":7,"ts":1704067200000010,"dur":2000,"ph":"X","args":{"hhash":"a","level":1,"p_idx":-1,"truncated":1}}
{"id":10,"name":"train.iteration","cat":"pipeline","pid":7,"tid":7,"ts":1704067200000020,"dur":20,"ph":"X","args":{"hhash":"a","level":2,"p_idx":9,"step":2}}
{"id":11,"name":"CM","cat":"dftracer","pid":7,"tid":7,"ph":"M","args":{"hhash":"a","name":"heartbeat","value":"1704067200900000"}}
`), []byte("[\n"))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a"), one)
		write(t, filepath.Join(dir, "b"), two)
		collect := func() (out []*account.Report) {
			set, err := job.Open(dir)
			if err != nil {
				return nil
			}
			all, err := account.Collect(set)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range all {
				rep := a.Ledger.Report(account.Query{})
				checkSums(t, rep)
				out = append(out, rep)
			}
			return out
		}
		if first, second := collect(), collect(); !reflect.DeepEqual(first, second) {
			t.Error("got another result for the same files, want the same")
		}
	})
}

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// answers is the output of the commands about the same files, as JSON and as
// tables.
type answers struct {
	report  report.Report
	summary spanstats.Result
	info    []read.FileInfo
	steps   []stepJSON
	events  []eventJSON
	longest []eventJSON
	rows    []eventRow // rows of the data set
	table   []stepTableRow
	ledger  []ledgerRow
	jobs    int // in the data set
}

// eventJSON is a line of trainspan trace events.
type eventJSON struct {
	TS   int64  `json:"ts_us"`
	Dur  int64  `json:"dur_us"`
	Ph   string `json:"ph"`
	Rank string `json:"rank"`
	PID  int64  `json:"pid"`
	TID  int64  `json:"tid"`
	Cat  string `json:"cat"`
	Name string `json:"name"`
}

// eventRow, stepTableRow and ledgerRow are rows of the tables of a data set.
type eventRow struct {
	Rank      *int32  `parquet:"rank"`
	Attempt   *int32  `parquet:"attempt"`
	Host      *string `parquet:"host"`
	PID       int64   `parquet:"pid"`
	TID       int64   `parquet:"tid"`
	Ph        string  `parquet:"ph"`
	Cat       string  `parquet:"cat"`
	Name      string  `parquet:"name"`
	Class     string  `parquet:"class"`
	TS        int64   `parquet:"ts"`
	Dur       int64   `parquet:"dur_us"`
	OuterCat  *string `parquet:"outer_cat"`
	OuterName *string `parquet:"outer_name"`
	Outlasts  []struct {
		Cat string `parquet:"cat"`
		US  int64  `parquet:"us"`
	} `parquet:"outlasts,list"`
}

type stepTableRow struct {
	Rank       *int32 `parquet:"rank"`
	Attempt    int32  `parquet:"attempt"`
	PID        int64  `parquet:"pid"`
	Step       int64  `parquet:"step"`
	Epoch      *int64 `parquet:"epoch"`
	Start      int64  `parquet:"ts"`
	Dur        *int64 `parquet:"dur_ns"`
	Rule       string `parquet:"rule"`
	Data       int64  `parquet:"data_ns"`
	Copies     int64  `parquet:"copies_ns"`
	Forward    int64  `parquet:"forward_ns"`
	Backward   int64  `parquet:"backward_ns"`
	Optimizer  int64  `parquet:"optimizer_ns"`
	Comm       int64  `parquet:"comm_ns"`
	Checkpoint int64  `parquet:"checkpoint_ns"`
}

type ledgerRow struct {
	Rank     int32  `parquet:"rank"`
	Attempt  int32  `parquet:"attempt"`
	Category string `parquet:"category"`
	Dur      int64  `parquet:"dur_ns"`
}

// tableOf reads a table of a data set.
func tableOf[T any](t *testing.T, lake, name string) (all []T) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(lake, name), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".parquet") {
			return nil //nolint:nilerr // for example, a job has no steps
		}
		rows, err := parquet.ReadFile[T](path)
		all = append(all, rows...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ask runs all commands on files.
func ask(t *testing.T, path string) *answers {
	t.Helper()
	a := &answers{
		report: lines[report.Report](t, "report", "--json", path)[0], summary: lines[spanstats.Result](t, "trace", "summary", "--json", path)[0],
		info: lines[[]read.FileInfo](t, "trace", "info", "--json", path)[0], steps: lines[stepJSON](t, "trace", "steps", "--json", path),
		events: lines[eventJSON](t, "trace", "events", "--json", path), longest: lines[eventJSON](t, "trace", "events", "--sort", "duration", "--json", "--all", "--limit", "50", path),
	}
	if read.IsRecords(path) {
		return a // the data set only has the events of traces
	}
	lake := filepath.Join(t.TempDir(), "lake")
	var made []json.RawMessage
	if err := json.Unmarshal([]byte(want(t, "trace", "convert", path, "--to", "parquet", "-o", lake, "--json")), &made); err != nil {
		t.Fatal(err)
	}
	a.rows, a.table, a.ledger, a.jobs = tableOf[eventRow](t, lake, "events"), tableOf[stepTableRow](t, lake, "steps"), tableOf[ledgerRow](t, lake, "ledger"), len(made)
	return a
}

// said has the output of each command, by figure.
type said map[string]map[string]string

func (s said) say(figure, verb string, value ...any) {
	if s[figure] == nil {
		s[figure] = make(map[string]string)
	}
	s[figure][verb] = fmt.Sprint(value...)
}

func (s said) differ(t *testing.T) {
	t.Helper()
	n := 0
	for _, figure := range slices.Sorted(maps.Keys(s)) {
		of := s[figure]
		if values := slices.Compact(slices.Sorted(maps.Values(of))); len(values) > 1 {
			if n++; n < 12 {
				t.Errorf("%s differs between the outputs: %v", figure, of)
			}
		}
	}
	if n >= 12 {
		t.Errorf("%d figures differ", n)
	}
}

// figures compares every figure that more than one command prints.
// docs/maintain/architecture.md lists them.
func figures(t *testing.T, a *answers) {
	s := make(said)
	s.spans(a)
	s.processes(a)
	s.categories(a)
	s.classes(a)
	s.stepRows(a)
	s.ledgers(a)
	s.differ(t)
}

const complete = "X"

// spans compares the number of spans, and their first and last time.
func (s said) spans(a *answers) {
	const many, first, last = "spans", "first", "last"
	s.say(many, "summary", a.summary.Events)
	s.say(first, "summary", a.summary.Start)
	s.say(last, "summary", a.summary.End)
	var n, from, to int64
	note := func(start, end int64) {
		if from == 0 || start < from {
			from = start
		}
		to = max(to, end)
	}
	tell := func(verb string) {
		s.say(many, verb, n)
		s.say(first, verb, from)
		s.say(last, verb, to)
		n, from, to = 0, 0, 0
	}
	for i := range a.info {
		if f := &a.info[i]; f.Events > 0 {
			n += f.Events
			note(f.Start, f.End)
		}
	}
	tell("info")
	for _, e := range a.events {
		if e.Ph == complete {
			n++
			note(e.TS, e.TS+e.Dur)
		}
	}
	tell("events")
	for _, e := range a.rows {
		if e.Ph == complete {
			n++
			note(e.TS, e.TS+e.Dur)
		}
	}
	if a.jobs > 0 {
		tell("parquet")
	}
	s.say(many, "report", a.report.Quality.Spans)
	longest := slices.MaxFunc(a.events, func(x, y eventJSON) int { return cmp.Compare(x.Dur, y.Dur) })
	s.say("longest", "events", longest.Dur)
	s.say("longest", "events --sort", a.longest[0].Dur)
}

// processes compares the processes with rank and attempt.
func (s said) processes(a *answers) {
	type sum struct {
		events int64
		ranks  []string
	}
	procs := make(map[int64]*sum)
	add := func(pid, n int64, rank string) {
		p := procs[pid]
		if p == nil {
			p = &sum{}
			procs[pid] = p
		}
		p.events += n
		if !slices.Contains(p.ranks, rank) {
			p.ranks = append(p.ranks, rank)
			slices.Sort(p.ranks)
		}
	}
	tell := func(verb string) {
		for pid, p := range procs {
			if p.events > 0 {
				s.say(fmt.Sprint("process ", pid), verb, p.ranks, " ", p.events)
			}
		}
		clear(procs)
	}
	for i := range a.info {
		for _, p := range a.info[i].Processes {
			add(p.PID, p.Events, p.Rank)
		}
	}
	tell("info")
	attempts := make(map[string]bool)
	for _, p := range a.summary.Processes {
		add(p.PID, p.Events, p.Rank)
		attempts[fmt.Sprint(p.PID, " ", p.Rank, " ", p.Attempt)] = true
	}
	tell("summary")
	s.say("attempts", "summary", slices.Sorted(maps.Keys(attempts)))
	clear(attempts)
	for _, e := range a.events {
		if e.Ph == complete {
			add(e.PID, 1, e.Rank)
		}
	}
	tell("events")
	for _, e := range a.rows {
		if e.Ph != complete {
			continue
		}
		rank, attempt := "", int32(1)
		if e.Rank != nil {
			rank = fmt.Sprint(*e.Rank)
		}
		if e.Attempt != nil {
			attempt = *e.Attempt
		}
		add(e.PID, 1, rank)
		attempts[fmt.Sprint(e.PID, " ", rank, " ", attempt)] = true
	}
	if a.jobs > 0 {
		tell("parquet")
		s.say("attempts", "parquet", slices.Sorted(maps.Keys(attempts)))
	}
}

// categories compares number, total, maximum and own time of spans.
func (s said) categories(a *answers) {
	type sum struct{ count, total, longest, self int64 }
	exact := mostInside(a.rows) <= 2000 // docs/reference/cli.md, summary
	for _, c := range a.summary.Categories {
		s.say("category "+c.Category, "summary", c.Count, " ", c.Total, " ", c.Max)
		if exact {
			s.say("own time of category "+c.Category, "summary", c.Self)
		}
	}
	sums := make(map[string]*sum)
	of := func(cat string) *sum {
		if sums[cat] == nil {
			sums[cat] = &sum{}
		}
		return sums[cat]
	}
	add := func(cat string, dur int64) {
		c := of(cat)
		c.count, c.total, c.longest, c.self = c.count+1, c.total+dur, max(c.longest, dur), c.self+dur
	}
	tell := func(verb string) {
		for cat, c := range sums {
			s.say("category "+cat, verb, c.count, " ", c.total, " ", c.longest)
		}
	}
	for _, e := range a.events {
		if e.Ph == complete {
			add(e.Cat, e.Dur)
		}
	}
	tell("events")
	clear(sums)
	for _, e := range a.rows {
		if e.Ph != complete {
			continue
		}
		add(e.Cat, e.Dur)
		inside := e.Dur
		for _, o := range e.Outlasts {
			of(o.Cat).self -= o.US
			inside -= o.US
		}
		if e.OuterCat != nil {
			of(*e.OuterCat).self -= inside
		}
	}
	tell("parquet")
	for cat, c := range sums {
		s.say("own time of category "+cat, "parquet", c.self)
	}
}

// useOf returns the name of a class of the data set in trainspan trace summary.
func useOf(class string) string {
	switch class {
	case vocab.ClassForward.String(), vocab.ClassBackward.String(), vocab.ClassOptimizer.String(), vocab.ClassCompute.String():
		return "compute"
	case vocab.ClassInputWait.String(), vocab.ClassInputWork.String(), vocab.ClassCheckpointSave.String(), vocab.ClassCheckpointLoad.String(), vocab.ClassIO.String():
		return "io"
	case vocab.ClassCollective.String():
		return "comm"
	case vocab.ClassTransfer.String():
		return "copies"
	}
	return ""
}

// classes compares the time of each process by class; each instant counts once.
func (s said) classes(a *answers) {
	kernels := make(map[int64]bool)
	total := make(map[string]int64)
	add := func(pid int64, use string, us int64) { total[fmt.Sprintf("process %d, %s", pid, use)] += us }
	for _, p := range a.summary.Processes {
		kernels[p.PID] = kernels[p.PID] || p.Kernels
		add(p.PID, "compute", p.Compute)
		add(p.PID, "io", p.IO)
		add(p.PID, "comm", p.Comm)
		add(p.PID, "copies", p.Copies)
	}
	for what, us := range total {
		s.say(what, "summary", us)
	}
	clear(total)
	type key struct {
		pid     int64
		attempt int32
		use     string
	}
	busy := make(map[key][][2]int64)
	for _, e := range a.rows {
		if use := useOf(e.Class); use != "" && e.Ph == complete {
			k := key{pid: e.PID, use: use}
			if e.Attempt != nil {
				k.attempt = *e.Attempt
			}
			busy[k] = append(busy[k], [2]int64{e.TS, e.TS + e.Dur})
		}
	}
	for k, list := range busy {
		slices.SortFunc(list, func(x, y [2]int64) int { return cmp.Compare(x[0], y[0]) })
		var us, until int64
		for _, iv := range list {
			us += max(0, iv[1]-max(iv[0], until))
			until = max(until, iv[1])
		}
		add(k.pid, k.use, us)
	}
	for what, us := range total {
		s.say(what, "parquet", us)
	}
	for pid := range kernels {
		if kernels[pid] { // the data set has no classes for the work of devices
			for _, use := range []string{"compute", "comm", "copies"} {
				delete(s, fmt.Sprintf("process %d, %s", pid, use))
			}
		}
	}
}

// stepRows compares single steps and their number.
func (s said) stepRows(a *answers) {
	ranks := make(map[string]int)
	for _, r := range a.steps {
		dur := int64(-1)
		if r.Dur != nil {
			dur = *r.Dur
		}
		epoch := int64(-1)
		if r.Epoch != nil {
			epoch = *r.Epoch
		}
		p := r.Phases
		s.say(fmt.Sprintf("step %d of %d, attempt %d at %d", r.Step, r.PID, r.Attempt, r.Start), "steps", r.Rank, " ", epoch, " ", dur, " ", r.Rule, " ",
			p["data"], " ", p["copies"], " ", p["forward"], " ", p["backward"], " ", p["optimizer"], " ", p["comm"], " ", p["checkpoint"])
		ranks[cmp.Or(r.Rank, fmt.Sprint("pid ", r.PID))]++
	}
	for _, r := range a.table {
		dur, epoch, rank := int64(-1), int64(-1), ""
		if r.Dur != nil {
			dur = *r.Dur / 1000
		}
		if r.Epoch != nil {
			epoch = *r.Epoch
		}
		if r.Rank != nil {
			rank = fmt.Sprint(*r.Rank)
		}
		s.say(fmt.Sprintf("step %d of %d, attempt %d at %d", r.Step, r.PID, r.Attempt, r.Start), "parquet", rank, " ", epoch, " ", dur, " ", r.Rule, " ",
			r.Data/1000, " ", r.Copies/1000, " ", r.Forward/1000, " ", r.Backward/1000, " ", r.Optimizer/1000, " ", r.Comm/1000, " ", r.Checkpoint/1000)
	}
	s.say("rows of steps", "steps", len(a.steps))
	if a.jobs > 0 {
		s.say("rows of steps", "parquet", len(a.table))
	}
	if a.jobs > 1 {
		return // the report is about one of them
	}
	for _, slow := range a.report.Slowest {
		key := fmt.Sprint("slow span at ", slow.Start, " for ", slow.Duration)
		s.say(key, "report", true)
		s.say(key, "events", slices.ContainsFunc(a.events, func(e eventJSON) bool {
			// A profile also has nanoseconds. Only the report assigns a number to a process
			// without a rank.
			return abs(e.TS*1000-slow.Start) < 1000 && abs(e.Dur*1000-slow.Duration) <= 1000 && (e.Rank == "" || e.Rank == fmt.Sprint(slow.Rank))
		}))
	}
	most := 0
	for _, n := range ranks {
		most = max(most, n)
	}
	s.say("steps of a rank", "steps", most)
	it := a.report.Ledger.Iterations
	s.say("steps of a rank", "ledger", it.Kept+it.Lost+it.Unfinished)
	s.say("steps of a rank", "report", a.report.Steps.Count)
}

// ledgers compares the time of ranks and attempts by category.
func (s said) ledgers(a *answers) {
	if a.jobs > 1 || strings.Contains(strings.Join(a.report.Quality.Remarks, "\n"), "clocks of ranks differ") {
		return // the data set keeps the recorded times
	}
	ranks, attempts := make(map[int]account.Totals), make(map[int]account.Totals)
	add := func(to map[int]account.Totals, at int, c account.Category, ns int64) {
		if to[at] == nil {
			to[at] = account.Totals{}
		}
		to[at][c] += ns
	}
	for _, r := range a.ledger {
		add(ranks, int(r.Rank), account.Category(r.Category), r.Dur)
		if r.Attempt > 0 {
			add(attempts, int(r.Attempt), account.Category(r.Category), r.Dur)
		}
	}
	tell := func(verb, what string, at int, of account.Totals) {
		for c, ns := range of {
			s.say(fmt.Sprintf("%s of %s %d", c, what, at), verb, ns)
		}
		s.say(fmt.Sprintf("time of %s %d", what, at), verb, of.Sum())
	}
	for at, of := range ranks {
		tell("parquet", "rank", at, of)
	}
	for at, of := range attempts {
		tell("parquet", "attempt", at, of)
	}
	for _, r := range a.report.Ledger.Ranks {
		tell("report", "rank", r.Rank, r.Categories)
	}
	for _, r := range a.report.Ledger.Attempts {
		tell("report", "attempt", r.Attempt, r.Categories)
	}
}

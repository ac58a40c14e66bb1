package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/dataset"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/columns"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

type stepsOptions struct {
	json, csv bool
	filter    read.Filter
}

func newSteps(a *ui.App) *cobra.Command {
	var o stepsOptions
	cmd := &cobra.Command{
		Use:   "steps FILE...",
		Short: "Show each training step and its phases",
		Long: `Prints one row per step and rank, with the duration of the step and of its phases.
Steps are chosen as in the report: for example spans named iteration, steps of PyTorch's
profiler, or the intervals between the ends of optimizer steps ("trainspan help steps"
has the rules). A span belongs to the step in which it
begins, a collective to the step that it names. The phases of a row are sums of spans,
so concurrent spans count several times. Rows are in the order of steps.`,
		Example: `  trainspan trace steps trace.pfw.gz
  trainspan trace steps out/ --step 100-110
  trainspan trace steps out/ --csv > steps.csv`,
		ValidArgsFunction: read.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runSteps(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print a JSON object per line")
	f.BoolVar(&o.csv, "csv", false, "print comma-separated values")
	o.filter.NumberFlags(f)
	return cmd
}

func runSteps(ctx context.Context, a *ui.App, args []string, o *stepsOptions) error {
	if o.json && o.csv {
		return ui.Usage("--json and --csv: choose one")
	}
	args, imported, err := withTraces(ctx, a, args)
	if err != nil {
		return err
	}
	defer imported.remove()
	files, err := read.Expand(ctx, args)
	if err != nil {
		return err
	}
	q := &o.filter
	if err := q.Prepare(ctx, files); err != nil {
		return err
	}
	set, err := openSet(ctx, args)
	if err != nil {
		return err
	}
	set.Stop = ctx.Err
	table := newStepTable()
	defer table.close()
	spin := a.StartSpinner("steps")
	jobs, err := set.Read(table.open)
	spin.Finish()
	if stopped := ctx.Err(); stopped != nil {
		return stopped
	}
	if err != nil {
		return err
	}
	dropForeign(set, files)
	if n := len(set.Skipped); len(table.procs) == 0 && n > 0 {
		last := set.Skipped[n-1]
		set.Skipped = set.Skipped[:n-1]
		defer judgeSet(a, set, jobs)
		return ui.BadData("%s: %s; see "+helptopic.NotATrace, last.Path, ui.Explain(last.Err))
	}
	judgeSet(a, set, jobs)
	var relative []string
	for _, j := range jobs {
		for _, p := range slices.Concat(j.Processes, j.Helpers) {
			read.WarnOfSetAside(a, strings.Join(p.Sources, ", "), int64(p.Aside))
			if p.RelativeClock {
				relative = append(relative, p.Sources...)
			}
		}
	}
	read.WarnOfRelativeTimes(a, relative)
	n, first := 0, int64(0)
	keep := func(p *job.Process, r *stepRow) bool {
		us := r.start / 1000
		has := (q.Ranks == nil || q.Ranks[read.RankText(p)]) && (len(q.Steps) == 0 || read.Within(q.Steps, r.step)) && (len(q.Epochs) == 0 || read.Within(q.Epochs, r.epoch)) &&
			q.Window.HasTime(us)
		if has {
			if n++; n == 1 || r.start < first {
				first = r.start
			}
		}
		return has
	}
	show := stepText
	switch {
	case o.json:
		show = writeStepJSON
	case o.csv:
		show = stepCSV
	}
	if err := show(a, table, keep, &first); err != nil {
		return err
	}
	var procs []*job.Process
	for _, j := range jobs {
		procs = append(procs, j.Processes...)
	}
	rules, remarks := job.StepRules(procs)
	for _, text := range remarks {
		a.Note("%s; see "+helptopic.NoTraining, text)
	}
	switch {
	case rules == "" && len(remarks) == 0:
		a.Note("found no training step; see " + helptopic.NoTraining)
	case rules != "" && n == 0:
		a.Note("no training step matches the flags; see " + helptopic.NoTraining)
	}
	return nil
}

// stepJSON is a row as JSON.
type stepJSON struct {
	Run     string           `json:"run,omitempty"` // as in trainspan runs, if there are several
	Attempt int              `json:"attempt"`
	Step    int64            `json:"step"`
	Rank    string           `json:"rank,omitempty"`
	PID     int64            `json:"pid"`
	Epoch   *int64           `json:"epoch,omitempty"`
	Start   int64            `json:"start_us"`
	Dur     *int64           `json:"dur_us,omitempty"`
	Rule    string           `json:"rule"`
	Phases  map[string]int64 `json:"phases_us"`
}

type keepStep func(*job.Process, *stepRow) bool

func writeStepJSON(a *ui.App, t *stepTable, keep keepStep, _ *int64) error {
	w := bufio.NewWriterSize(display.JSON(a.Stdout), 64<<10)
	enc := json.NewEncoder(w)
	err := t.sorted(keep, func(p *job.Process, s *stepRow) error {
		row := stepJSON{Run: p.Run, Attempt: p.Attempt, Step: s.step, Rank: read.RankText(p), PID: p.PID, Start: s.start / 1000, Rule: p.Steps.Rule.String(), Phases: make(map[string]int64)}
		if s.epoch >= 0 {
			row.Epoch = &s.epoch
		}
		if s.dur >= 0 {
			us := s.dur / 1000
			row.Dur = &us
		}
		for i, d := range s.phases {
			if d > 0 {
				row.Phases[phaseNames[i]] = d / 1000
			}
		}
		return enc.Encode(row)
	})
	return errors.Join(err, w.Flush())
}

func stepCSV(a *ui.App, t *stepTable, keep keepStep, _ *int64) error {
	w := bufio.NewWriterSize(a.Stdout, 64<<10)
	c := ui.NewCSV(w)
	head := []string{"attempt", "step", "rank", "pid", "epoch", "start_us", "dur_us"}
	for _, name := range phaseNames {
		head = append(head, name+"_us")
	}
	_ = c.Row(append(head, "rule", "run")) // the writer keeps its error
	err := t.sorted(keep, func(p *job.Process, s *stepRow) error {
		number := func(n int64) string {
			if n < 0 {
				return ""
			}
			return strconv.FormatInt(n, 10)
		}
		row := []string{strconv.Itoa(p.Attempt), number(s.step), read.RankText(p), number(p.PID), number(s.epoch), number(s.start / 1000), number(usOf(s.dur))}
		for _, d := range s.phases {
			row = append(row, number(d/1000))
		}
		return c.Row(append(row, p.Steps.Rule.String(), p.Run))
	})
	c.Flush()
	return errors.Join(err, w.Flush())
}

// usOf converts a duration to microseconds; -1 stays -1.
func usOf(ns int64) int64 { return max(ns/1000, min(ns, 0)) }

// stepText prints tables of a limited number of steps, so that memory does not
// grow.
func stepText(a *ui.App, t *stepTable, keep keepStep, first *int64) error {
	const page = 1000
	heads := append([]string{"attempt", "step", "epoch", "<rank", "start", "wall"}, phaseNames[:]...)
	out := &display.Table{Heads: heads, Drop: []string{"start", "epoch", "copies", "checkpoint"}, Empty: true}
	attempts := slices.ContainsFunc(t.procs, func(p *job.Process) bool { return p != nil && p.Attempt > 1 })
	if !attempts {
		out.Heads = heads[1:]
	}
	cell := func(ns int64) string {
		if ns <= 0 {
			return "-"
		}
		return display.Micros(float64(ns) / 1000)
	}
	err := t.sorted(keep, func(p *job.Process, s *stepRow) error {
		rank, epoch := read.RankText(p), "-"
		if rank == "" {
			rank = "pid " + strconv.FormatInt(p.PID, 10)
		}
		if s.epoch >= 0 {
			epoch = display.Count(s.epoch)
		}
		row := []string{strconv.Itoa(p.Attempt), display.Count(s.step), epoch, rank, "+" + display.Micros(float64(s.start-*first)/1000), cell(s.dur)}
		for _, d := range s.phases {
			row = append(row, cell(d))
		}
		if !attempts {
			row = row[1:]
		}
		if out.Add(row...); out.Len() == page {
			a.Table(a.Stdout, out)
			out.Clear()
		}
		return nil
	})
	if out.Len() > 0 {
		a.Table(a.Stdout, out)
	}
	return err
}

// The phases of a step, as columns.
const (
	phaseData = iota
	phaseCopies
	phaseForward
	phaseBackward
	phaseOptimizer
	phaseComm
	phaseCheckpoint
	phaseCount
)

var phaseNames = [phaseCount]string{"data", "copies", "forward", "backward", "optimizer", "comm", "checkpoint"}

// phaseOf maps classes to phases; other classes have phaseCount. It is an array because it is looked up for
// every span.
var phaseOf = func() (of [vocab.Classes]int) {
	for class := range of {
		of[class] = phaseCount
	}
	for class, phase := range map[vocab.Class]int{
		vocab.ClassInputWait:      phaseData,
		vocab.ClassInputWork:      phaseData,
		vocab.ClassTransfer:       phaseCopies,
		vocab.ClassForward:        phaseForward,
		vocab.ClassBackward:       phaseBackward,
		vocab.ClassOptimizer:      phaseOptimizer,
		vocab.ClassCollective:     phaseComm,
		vocab.ClassCheckpointSave: phaseCheckpoint,
		vocab.ClassCheckpointLoad: phaseCheckpoint,
	} {
		of[class] = phase
	}
	return of
}()

// stepRow is one step of one process, in nanoseconds.
type stepRow struct {
	proc       uint32 // index of the process
	step       int64  // its number in the job or, if unknown, in the process
	raw        int64  // as recorded, -1 without one
	epoch      int64  // -1 without one
	start, dur int64  // dur is -1 if it never ended
	phases     [phaseCount]int64
}

// stepTable collects the steps of the processes of a set, in a file if there
// are many.
type stepTable struct {
	mu    sync.Mutex
	procs []*job.Process
	found *extsort.Sorter[stepRow] // by process
}

const stepMemory = 32 << 20

func newStepTable() *stepTable {
	return &stepTable{found: extsort.New(extsort.Codec[stepRow]{
		Append: appendStep, Decode: decodeStep, Key: func(r *stepRow) extsort.Key { return extsort.Key{First: int64(r.proc)} },
	}, stepMemory, "")}
}

func (t *stepTable) close() { _ = t.found.Close() } // its contents are no longer needed

// reader returns the reader of a process, and open its sink.
func (t *stepTable) reader(p *job.Process) account.Reader { return &stepReader{to: t, proc: p} }

func (t *stepTable) open(p *job.Process) job.Sink { return account.OpenRows(p, t.reader(p)) }

// places returns the place of each process in [job.ByTime]: processes are read at the same time, and end in
// any order.
func (t *stepTable) places() []int64 {
	var order []int
	for i, p := range t.procs {
		if p != nil {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int { return job.ByTime(t.procs[i], t.procs[j]) })
	places := make([]int64, len(t.procs))
	for at, i := range order {
		places[i] = int64(at)
	}
	return places
}

// sorted calls fn with the rows of jobs by attempt, step, rank and process.
func (t *stepTable) sorted(keep func(*job.Process, *stepRow) bool, fn func(*job.Process, *stepRow) error) (err error) {
	places := t.places()
	all := extsort.New(extsort.Codec[stepRow]{Append: appendStep, Decode: decodeStep, Key: func(r *stepRow) extsort.Key {
		p := t.procs[r.proc]
		return extsort.Key{Group: uint32(p.Attempt), First: r.step, Second: int64(p.Rank)<<32 | places[r.proc]}
	}}, stepMemory, "")
	defer func() { err = errors.Join(err, all.Close()) }()
	it := t.found.Iter()
	for r := it.Next(); r != nil; r = it.Next() {
		if p := t.procs[r.proc]; p != nil && keep(p, r) {
			if err := all.Add(r); err != nil {
				return err
			}
		}
	}
	if it.Err() != nil {
		return it.Err()
	}
	it = all.Iter()
	for r := it.Next(); r != nil; r = it.Next() {
		if err := fn(t.procs[r.proc], r); err != nil {
			return err
		}
	}
	return it.Err()
}

// table calls add with the steps of a job as rows of a data set.
func (t *stepTable) table(j *job.Job, add func(*dataset.Step) error) error {
	of := make(map[*job.Process]bool, len(j.Processes))
	for _, p := range j.Processes {
		of[p] = true
	}
	return t.sorted(func(p *job.Process, _ *stepRow) bool { return of[p] }, func(p *job.Process, r *stepRow) error {
		row := dataset.Step{
			Rank: -1, Attempt: int32(p.Attempt), PID: p.PID, Step: r.step, Raw: r.raw, Epoch: r.epoch, Start: r.start / 1000, Dur: r.dur,
			Rule: p.Steps.Rule.String(), Data: r.phases[phaseData], Copies: r.phases[phaseCopies], Forward: r.phases[phaseForward],
			Backward: r.phases[phaseBackward], Optimizer: r.phases[phaseOptimizer], Comm: r.phases[phaseComm], Checkpoint: r.phases[phaseCheckpoint],
		}
		if p.RankKnown {
			row.Rank = int32(p.Rank)
		}
		return add(&row)
	})
}

// stepReader collects the phases of the steps of one process: each step has the spans that begin
// in it, and the collectives with its number, which a device runs later. A span inside another
// span of its phase is not counted again.
type stepReader struct {
	to    *stepTable
	proc  *job.Process
	steps []job.Step
	rows  []stepRow
	named map[int64]int
	at    int // the last step that has begun, -1 before the first one

	threads map[int64]*lastSpans
	thread  int64 // the one of last
	last    *lastSpans
}

// lastSpans holds the last span of each phase on a thread.
type lastSpans [phaseCount]nest.Interval

// on returns the last spans on a thread.
func (s *stepReader) on(thread int64) *lastSpans {
	if s.last == nil || s.thread != thread {
		if s.thread, s.last = thread, s.threads[thread]; s.last == nil {
			s.last = new(lastSpans)
			s.threads[thread] = s.last
		}
	}
	return s.last
}

func (s *stepReader) Begin(*account.Spans) {
	s.steps, s.at, s.threads, s.last = s.proc.Steps.All(), -1, make(map[int64]*lastSpans), nil
	s.rows, s.named = make([]stepRow, len(s.steps)), make(map[int64]int, len(s.steps))
	for i := range s.steps {
		st := &s.steps[i]
		s.rows[i] = stepRow{step: s.proc.Steps.Shown(i), raw: max(st.Raw, job.Unknown), epoch: st.Epoch, start: st.Start, dur: st.End - st.Start}
		if st.End == job.NoEnd {
			s.rows[i].dur = -1
		}
		s.named[st.Raw] = i
	}
	if len(s.named) < len(s.steps) {
		clear(s.named) // they are ambiguous
	}
}

func (s *stepReader) Row(r *account.Row) {
	phase := phaseOf[r.Class]
	if phase == phaseCount || r.OfDevice || r.End == job.NoEnd || r.Background && phase != phaseComm {
		return
	}
	for s.at+1 < len(s.steps) && s.steps[s.at+1].Start <= r.Start {
		s.at++
	}
	to, known := s.at, false
	if phase == phaseComm && r.Number >= 0 {
		to, known = s.named[r.Number]
	}
	if !known {
		if to = s.at; to < 0 || r.Start >= s.steps[to].End {
			return
		}
	}
	at := &s.on(r.Thread)[phase]
	last := *at
	if r.End <= last.End {
		return
	}
	*at = nest.Interval{Start: r.Start, End: r.End}
	from := r.Start
	if from == last.Start { // the outer one of both
		from = last.End
	}
	s.rows[to].phases[phase] += r.End - from
}

func (s *stepReader) End() (err error) {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	for i := range s.rows {
		s.rows[i].proc = uint32(len(s.to.procs))
		if err == nil {
			err = s.to.found.Add(&s.rows[i])
		}
	}
	if old := slices.Index(s.to.procs, s.proc); old >= 0 {
		s.to.procs[old] = nil // its file was read again
	}
	s.to.procs = append(s.to.procs, s.proc)
	return err
}

func appendStep(dst []byte, r *stepRow) []byte {
	for _, n := range [...]int64{int64(r.proc), r.step, r.raw, r.epoch, r.start, r.dur} {
		dst = binary.AppendVarint(dst, n)
	}
	for _, n := range r.phases {
		dst = binary.AppendVarint(dst, n)
	}
	return dst
}

func decodeStep(src []byte, r *stepRow) error {
	n := columns.NewReader(src)
	*r = stepRow{proc: uint32(n.Int()), step: n.Int(), raw: n.Int(), epoch: n.Int(), start: n.Int(), dur: n.Int()}
	for i := range r.phases {
		r.phases[i] = n.Int()
	}
	return n.Err()
}

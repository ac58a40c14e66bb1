package main

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/spill"
)

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

// stepRow is one step of one process.
type stepRow struct {
	step, epoch, pid, start, dur int64 // epoch is -1 without one
	rank                         string
	phases                       [phaseCount]int64
}

// phaseOf returns the phase that a span belongs to, -1 for none.
func phaseOf(cat, name string) int {
	switch strings.ToLower(cat) {
	case "compute":
		switch {
		case name == "forward":
			return phaseForward
		case name == "backward":
			return phaseBackward
		case name == "step" || strings.HasPrefix(name, "step."):
			return phaseOptimizer
		}
	case "dataloader", "data_loader":
		if name == "fetch.iter" || name == "fetch" || name == "loop.iter" {
			return phaseData
		}
	case "device":
		return phaseCopies
	case "comm":
		return phaseComm
	case "checkpoint":
		return phaseCheckpoint
	}
	return -1
}

func isIteration(cat, name string) bool {
	return strings.EqualFold(cat, "pipeline") && (name == "train.iteration" || name == "iteration" || strings.HasPrefix(name, "ProfilerStep"))
}

// stepBuilder puts the steps of the processes of one file together.
type stepBuilder struct {
	to    *stepTable
	ranks *rankTracker
	procs map[procKey]*stepProcess
}

// stepProcess holds the latest steps of a process: spans come in the order in
// which they end, so that those of a step are near each other.
type stepProcess struct {
	rows    map[int64]*stepRow
	order   []*stepRow
	loose   []looseSpan // without a step, waiting for the iteration around them
	counted int64       // iterations that have no number
}

type looseSpan struct {
	start, end int64
	phase      int
}

// stepWindow is how many steps of a process may be unfinished, and looseWindow
// how many spans may wait for their iteration.
const (
	stepWindow  = 1024
	looseWindow = 1 << 14
)

func newStepBuilder(to *stepTable, ranks *rankTracker) *stepBuilder {
	return &stepBuilder{to: to, ranks: ranks, procs: make(map[procKey]*stepProcess)}
}

func (b *stepBuilder) take(ev *dftracer.Event) error {
	phase, iteration := phaseOf(ev.Cat, ev.Name), isIteration(ev.Cat, ev.Name)
	if phase < 0 && !iteration {
		return nil
	}
	key := b.ranks.key(ev)
	p := b.procs[key]
	if p == nil {
		p = &stepProcess{rows: make(map[int64]*stepRow)}
		b.procs[key] = p
	}
	step := numberOf(ev, "step")
	if step == nil && !iteration {
		p.wait(looseSpan{ev.TS, ev.End(), phase})
		return nil
	}
	row, err := b.row(p, ev, step)
	if err != nil {
		return err
	}
	if e := numberOf(ev, "epoch"); e != nil {
		row.epoch = *e
	}
	if phase >= 0 {
		row.phases[phase] += ev.Dur
		if row.start == 0 || row.dur == 0 && ev.TS < row.start {
			row.start = ev.TS
		}
		return nil
	}
	row.start, row.dur = ev.TS, ev.Dur
	p.adopt(row)
	return nil
}

// row returns the row of a step. An iteration without a number is counted.
func (b *stepBuilder) row(p *stepProcess, ev *dftracer.Event, step *int64) (*stepRow, error) {
	n := p.counted
	switch text, ok := strings.CutPrefix(ev.Name, "ProfilerStep#"); {
	case step != nil:
		n = *step
	case ok:
		if k, err := strconv.ParseInt(text, 10, 64); err == nil {
			n = k
		}
	default:
		p.counted++
	}
	if row := p.rows[n]; row != nil {
		return row, nil
	}
	row := &stepRow{step: n, epoch: -1, pid: ev.PID, rank: b.ranks.of(ev)}
	p.rows[n] = row
	p.order = append(p.order, row)
	if len(p.order) > stepWindow {
		return row, b.pass(p, 1)
	}
	return row, nil
}

// wait keeps a span until its iteration comes.
func (p *stepProcess) wait(s looseSpan) {
	if len(p.loose) == looseWindow {
		p.loose = slices.Delete(p.loose, 0, looseWindow/2) // outside of any iteration
	}
	p.loose = append(p.loose, s)
}

// adopt gives an iteration the spans that began in it.
func (p *stepProcess) adopt(row *stepRow) {
	p.loose = slices.DeleteFunc(p.loose, func(s looseSpan) bool {
		inside := s.start >= row.start && s.start < row.start+row.dur
		if inside {
			row.phases[s.phase] += s.end - s.start
		}
		return inside
	})
}

// pass gives the first rows of a process to the table.
func (b *stepBuilder) pass(p *stepProcess, n int) error {
	for _, row := range p.order[:n] {
		p.adopt(row) // what came after the iteration, as in a sorted trace
		if err := b.to.add(row); err != nil {
			return err
		}
		delete(p.rows, row.step)
	}
	p.order = p.order[n:]
	return nil
}

// flush gives all rows to the table.
func (b *stepBuilder) flush() (err error) {
	for _, p := range b.procs {
		err = errors.Join(err, b.pass(p, len(p.order)))
	}
	return err
}

// stepTable sorts rows by step and rank, in a file when there are many.
type stepTable struct {
	rows  *spill.Sorter[stepRow]
	n     int
	first int64 // start of the first of all
}

func newStepTable() *stepTable {
	return &stepTable{rows: spill.New(spill.Codec[stepRow]{Append: appendStep, Decode: decodeStep, Key: func(r *stepRow) spill.Key {
		return spill.Key{First: r.step, Second: rankNumber(r)}
	}}, 32<<20, "")}
}

func rankNumber(r *stepRow) int64 {
	n, err := strconv.ParseInt(r.rank, 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}

func (t *stepTable) add(row *stepRow) error {
	if t.n++; t.n == 1 || row.start < t.first {
		t.first = row.start
	}
	return t.rows.Add(row)
}

func (t *stepTable) each(fn func(*stepRow) error) error {
	it := t.rows.Iter()
	for row := it.Next(); row != nil; row = it.Next() {
		if err := fn(row); err != nil {
			return err
		}
	}
	return it.Err()
}

func (t *stepTable) close() { _ = t.rows.Close() } // nothing in it is needed any more

func appendStep(dst []byte, r *stepRow) []byte {
	for _, n := range [...]int64{r.step, r.epoch, r.pid, r.start, r.dur} {
		dst = binary.AppendVarint(dst, n)
	}
	for _, n := range r.phases {
		dst = binary.AppendVarint(dst, n)
	}
	return append(dst, r.rank...)
}

var errStep = errors.New("a damaged row")

func decodeStep(src []byte, r *stepRow) error {
	bad := 0
	next := func() int64 {
		v, n := binary.Varint(src)
		bad = min(bad, cmp.Compare(n, 1))
		src = src[max(n, 0):]
		return v
	}
	*r = stepRow{step: next(), epoch: next(), pid: next(), start: next(), dur: next()}
	for i := range r.phases {
		r.phases[i] = next()
	}
	if bad < 0 {
		return errStep
	}
	r.rank = string(src)
	return nil
}

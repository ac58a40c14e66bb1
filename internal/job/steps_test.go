package job_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// program makes spans on one thread, one after the other.
type program struct {
	all []job.Span
	now int64
	id  uint64
	// For the following spans:
	step, epoch int64
}

func newProgram() *program { return &program{now: 1e18, step: job.Unknown, epoch: job.Unknown} }

// span makes a span of a duration around others; with a step, those that begin
// after it have it.
func (p *program) span(categoryName string, lasts int64, inside ...func()) {
	p.id++
	s := job.Span{ID: p.id, Start: p.now, Thread: 1, First: job.Unknown}
	category, name, ok := strings.Cut(categoryName, "/")
	if !ok {
		category, name = "", categoryName
	}
	s.SetName(category, name)
	for _, fn := range inside {
		fn()
	}
	p.now += lasts
	s.End, s.Step, s.Epoch = p.now, p.step, p.epoch
	p.all = append(p.all, s)
}

// steps checks where the recorded steps start and end.
func (p *program) steps(t *testing.T, want ...int64) {
	t.Helper()
	var steps job.Steps
	for i := range p.all {
		steps.Add(&p.all[i])
	}
	var got []int64
	for _, st := range steps.All() {
		got = append(got, st.Start-1e18, st.End-1e18)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// batch makes a step of a program that annotates only computing.
func (p *program) batch() {
	p.span("compute/forward", 10)
	p.span("compute/backward", 20)
	p.span("compute/step", 5)
}

func TestStepRules(t *testing.T) {
	loop := func(p *program, body func(i int), n int) {
		for i := range n {
			p.span("dataloader/fetch.iter", 3)
			p.span("dataloader/fetch.block", 1, func() { body(i) })
		}
	}
	for _, c := range []struct {
		name          string
		program       func(p *program)
		rule          vocab.StepRule
		contradiction bool
		numbers       string // of the steps
	}{
		{"nothing", func(p *program) { p.span("compute/forward", 5) }, vocab.StepNone, false, "[]"},
		{"iterations", func(p *program) {
			loop(p, func(i int) { p.step = int64(7 + i); p.span("pipeline/train.iteration", 1, p.batch) }, 3)
		}, vocab.StepIteration, false, "[7 8 9]"},
		{"profiled", func(p *program) {
			for i := range 3 {
				p.span(fmt.Sprintf("pipeline/ProfilerStep#%d", 4+i), 2, p.batch)
			}
		}, vocab.StepProfiler, false, "[4 5 6]"},
		{"bodies", func(p *program) { loop(p, func(int) { p.batch() }, 4) }, vocab.StepBody, false, "[- - - -]"},
		{"bodies of epochs that count anew", func(p *program) {
			for e := range 2 {
				p.epoch = int64(e)
				p.span("pipeline/epoch.block", 1, func() { loop(p, func(i int) { p.step = int64(i); p.batch() }, 3) })
			}
		}, vocab.StepBody, false, "[0 1 2 3 4 5]"},
		{"only computing, not said what", func(p *program) { loop(p, func(int) { p.span("compute/compute", 10) }, 2) }, vocab.StepBody, false, "[- -]"},
		{"accumulation", func(p *program) {
			loop(p, func(i int) {
				p.span("compute/backward", 5)
				if i%2 == 1 {
					p.span("compute/step", 5)
				}
			}, 4)
		}, vocab.StepBody, false, "[- - - -]"},
		{"two optimizers", func(p *program) { loop(p, func(int) { p.batch(); p.batch() }, 3) }, vocab.StepBody, false, "[- - -]"},
		{"an evaluation over a loader", func(p *program) {
			loop(p, func(int) { p.batch() }, 2)
			loop(p, func(int) { p.span("compute/forward", 10) }, 5)
			loop(p, func(int) { p.batch() }, 2)
		}, vocab.StepBody, false, "[- - - -]"},
		{"an evaluation that says so, of computing that does not", func(p *program) {
			loop(p, func(int) { p.span("compute/compute", 10) }, 2)
			p.span("pipeline/evaluate", 1, func() { loop(p, func(int) { p.span("compute/compute", 10) }, 5) })
		}, vocab.StepBody, false, "[- -]"},
		{"no loader", func(p *program) {
			for range 3 {
				p.batch()
			}
		}, vocab.StepOptimizer, false, "[- - -]"},
		{"no loader, and a loop over one in between", func(p *program) {
			for range 3 {
				p.batch()
				loop(p, func(int) { p.span("compute/forward", 1) }, 2)
			}
		}, vocab.StepOptimizer, false, "[- - -]"},
		{"two optimizers and one batch each", func(p *program) {
			for range 4 {
				p.span("dataloader/fetch.iter", 3)
				p.batch()
				p.batch()
			}
		}, vocab.StepNone, true, "[]"},
		{"a loop over a generator that loops over the loader", func(p *program) {
			for range 3 {
				p.span("dataloader/fetch.iter", 1, func() { p.span("data/item.iter", 3) })
				p.span("data/item.block", 1, func() { p.span("dataloader/fetch.block", 1, p.batch) })
			}
		}, vocab.StepBody, false, "[- - -]"},
		{"the same of three loops, killed", func(p *program) {
			for i := range 3 {
				p.span("data/item.block", 1, func() {
					p.span("data/item.block", 1, func() { p.span("dataloader/fetch.block", 1, p.batch) })
				})
				for k := range p.all {
					if i == 2 && k >= len(p.all)-6 && p.all[k].StepRule == vocab.StepBody {
						p.all[k].End = job.NoEnd
					}
				}
			}
		}, vocab.StepBody, false, "[- - -]"},
		{"loops inside of each other", func(p *program) {
			loop(p, func(int) { loop(p, func(int) { p.batch() }, 2) }, 2)
		}, vocab.StepNone, true, "[]"},
		{"optimizers beside the loop", func(p *program) {
			loop(p, func(int) { p.span("compute/backward", 5) }, 2)
			p.batch()
			p.batch()
		}, vocab.StepNone, true, "[]"},
		{"a body that began", func(p *program) {
			loop(p, func(int) { p.batch() }, 2)
			p.span("dataloader/fetch.block", 1, p.batch)
			p.all[len(p.all)-1].End = job.NoEnd
		}, vocab.StepBody, false, "[- - -]"},
		{"a loop that goes on", func(p *program) {
			for _, first := range []int64{100, 50} {
				p.span("pipeline/train", 1, func() {
					for i := range 2 {
						p.step = int64(i)
						p.span("pipeline/train.iteration", 5)
					}
				})
				p.all[len(p.all)-1].First = first
			}
		}, vocab.StepIteration, false, "[100 101 50 51]"},
		{"steps without numbers after a checkpoint", func(p *program) {
			p.step = 40
			p.span("checkpoint/load", 2)
			p.step = job.Unknown
			loop(p, func(int) { p.batch() }, 3)
		}, vocab.StepBody, false, "[40 41 42]"},
	} {
		p := newProgram()
		c.program(p)
		for seed := range uint64(3) { // in any order, and including begins
			list := slices.Clone(p.all)
			for _, s := range p.all[:len(p.all)/2] {
				s.End = job.NoEnd
				list = append(list, s)
			}
			rand.New(rand.NewPCG(1, seed)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			var steps job.Steps
			for i := range list {
				steps.Add(&list[i])
			}
			numbers := []string{}
			last := int64(0)
			for i, st := range steps.All() {
				if st.Number < 0 {
					numbers = append(numbers, "-")
				} else {
					numbers = append(numbers, fmt.Sprint(st.Number))
				}
				if st.Start < last || st.ID != 0 && steps.Find(st.Start, st.ID) != i {
					t.Errorf("%s: step %d: %+v, want rising starts and an ID that Find finds", c.name, i, st)
				}
				last = st.End
			}
			if steps.Rule != c.rule || steps.Contradiction != c.contradiction || fmt.Sprint(numbers) != c.numbers || steps.Count != len(numbers) {
				t.Errorf("%s: %s %v, contradiction %v; want %s %s, %v", c.name, steps.Rule, numbers, steps.Contradiction, c.rule, c.numbers, c.contradiction)
			}
		}
	}
}

// A process that loaded a checkpoint, or whose first step is not the first of a
// training, continues one.
func TestGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		steps []int64
		load  bool
		want  bool
	}{
		"nothing":              {nil, false, false},
		"from the first step":  {[]int64{0, 1, 2}, false, false},
		"from a later one":     {[]int64{7, 8}, false, true},
		"one step, the second": {[]int64{1}, false, true},
		"one step, the first":  {[]int64{0}, false, false},
		"no numbers":           {[]int64{job.Unknown}, false, false},
		"a checkpoint":         {[]int64{0}, true, true},
		"a checkpoint alone":   {nil, true, true},
	} {
		p := newProgram()
		if c.load {
			p.span("checkpoint/load", 2)
		}
		for _, p.step = range c.steps {
			p.span("pipeline/train.iteration", 1)
		}
		var steps job.Steps
		for i := range p.all {
			steps.Add(&p.all[i])
		}
		if steps.All(); steps.GoesOn != c.want {
			t.Errorf("%s: %v, want %v", name, steps.GoesOn, c.want)
		}
	}
}

// TestStepsOfOptimizers checks that a step lasts from the end of the previous
// one, or of an interruption of the training.
func TestStepsOfOptimizers(t *testing.T) {
	p := newProgram()
	p.batch()
	p.span("pipeline/evaluate", 50, func() { p.span("compute/forward", 10) })
	p.batch()
	p.batch()
	p.steps(t, 0, 35, 95, 130, 130, 165)
	p.span("pipeline/evaluate", 60)
	p.all[len(p.all)-1].End = job.NoEnd // with an unknown length
	p.batch()
	p.steps(t, 0, 35, 95, 130, 130, 165, 165, 260)
}

// TestUpdates checks that for a program that did not export its iterations,
// updates of its metrics show how many there were and how long they took.
func TestUpdates(t *testing.T) {
	const ms = int64(1e6)
	update := func(at, iterations, took, current int64) job.Event {
		return job.Event{Name: spans.EventTrainingMetricsUpdate, Time: at * ms, Step: current, Iterations: iterations, Took: took * ms, Through: job.Unknown}
	}
	span := func(cat, name string, from, to int64) job.Span {
		s := job.Span{ID: uint64(from + 1), Start: from * ms, End: to * ms, Step: job.Unknown, Epoch: job.Unknown, First: job.Unknown}
		s.SetName(cat, name)
		return s
	}
	behind := span("checkpoint", "capture", 1010, 1090)
	behind.Background = true
	open := span("pipeline", "evaluate", 1030, 1065)
	open.End = job.NoEnd
	for _, c := range []struct {
		name    string
		updates []job.Event
		spans   []job.Span
		want    string // number, start and end of each, in milliseconds
		rule    vocab.StepRule
	}{
		{"one", []job.Event{update(100, 2, 60, 8)}, nil, "7 40 70, 8 70 100", vocab.StepUpdate},
		{"the second says more", []job.Event{update(200, 3, 100, 9), update(100, 2, 60, 8)}, nil, "7 40 70, 8 70 100, 9 160 200", vocab.StepUpdate},
		{"a copy", []job.Event{update(100, 2, 60, 8), update(100, 2, 60, 8)}, nil, "7 40 70, 8 70 100", vocab.StepUpdate},
		{"counted anew", []job.Event{update(100, 2, 60, 8), update(200, 1, 10, 0)}, nil, "7 40 70, 8 70 100, 0 190 200", vocab.StepUpdate},
		{
			"what holds them up is around them", []job.Event{update(1100, 2, 60, 8)},
			[]job.Span{span("checkpoint", "capture", 1080, 1090), span("pipeline", "evaluate", 1030, 1065)}, "7 970 1000, 8 1000 1030", vocab.StepUpdate,
		},
		{"what is behind them, or did not end, holds them up no more", []job.Event{update(1100, 2, 60, 8)}, []job.Span{behind, open}, "7 1040 1070, 8 1070 1100", vocab.StepUpdate},
		{"more than there was time", []job.Event{update(100, 1, 50, 0), update(120, 2, 100, 1)}, nil, "0 50 100, 1 100 120", vocab.StepUpdate},
		{"without numbers", []job.Event{update(100, 2, 60, job.Unknown)}, nil, "-1 40 70, -1 70 100", vocab.StepUpdate},
		{"iterations say more", []job.Event{update(100, 2, 60, 8)}, []job.Span{span("pipeline", "train.iteration", 10, 50)}, "-1 10 50", vocab.StepIteration},
		{"nothing", []job.Event{update(100, 0, 0, 0)}, nil, "", vocab.StepNone},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s job.Steps
			for i := range c.updates {
				s.AddUpdate(&c.updates[i])
			}
			for i := range c.spans {
				s.Add(&c.spans[i])
			}
			var got []string
			for _, st := range s.All() {
				got = append(got, fmt.Sprint(st.Raw, st.Start/ms, st.End/ms))
			}
			if strings.Join(got, ", ") != c.want || s.Rule != c.rule {
				t.Errorf("%v by %v, want %s by %v", got, s.Rule, c.want, c.rule)
			}
		})
	}
}

// The numbers of a loop are those in the records, even if a step was tried again. Numbers that restart with each
// epoch, and those that several steps share, are counted instead.
func TestNumbersInALoop(t *testing.T) {
	for name, c := range map[string]struct{ recorded, want []int64 }{
		"in order":                {[]int64{5, 6, 7}, []int64{5, 6, 7}},
		"one is tried again":      {[]int64{5, 6, 6, 7, 8, 9}, []int64{5, 6, 6, 7, 8, 9}},
		"the program jumps back":  {[]int64{5, 6, 7, 8, 7, 8, 9, 10}, []int64{5, 6, 7, 8, 7, 8, 9, 10}},
		"from 0 in each epoch":    {[]int64{0, 1, 2, 3, 0, 1, 2, 3}, []int64{0, 1, 2, 3, 4, 5, 6, 7}},
		"the first epoch goes on": {[]int64{2, 3, 0, 1, 2, 3}, []int64{0, 1, 2, 3, 4, 5}},
		"two steps each":          {[]int64{5, 5, 6, 6, 7}, []int64{5, 6, 7, 8, 9}},
	} {
		var s job.Steps
		for i, n := range c.recorded {
			sp := job.Span{ID: uint64(i + 1), Start: int64(10 * i), End: int64(10*i + 9), Step: n, Epoch: job.Unknown, First: job.Unknown}
			sp.SetName("pipeline", "train.iteration")
			s.Add(&sp)
		}
		var got []int64
		for _, st := range s.All() {
			got = append(got, st.Number)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestNumbersOfLoops: a loop for each epoch that counts from the beginning goes on where the one before ended. A loop
// that begins elsewhere, or after a load, or with a recorded number, may repeat steps.
func TestNumbersOfLoops(t *testing.T) {
	type loop struct {
		first    int64 // recorded, or Unknown
		load     int64 // the step in a checkpoint that was loaded before, Unknown if its step is not recorded, or none
		recorded []int64
	}
	const none = -2
	of := func(recorded ...int64) loop { return loop{job.Unknown, none, recorded} }
	for name, c := range map[string]struct {
		loops []loop
		want  []int64
		from  []int64 // of each loop
	}{
		"from 1":                           {[]loop{of(1, 2, 3), of(1, 2, 3), of(1, 2)}, []int64{1, 2, 3, 4, 5, 6, 7, 8}, []int64{1, -1, -1}},
		"from 0":                           {[]loop{of(0, 1), of(), of(0, 1), of(0, 1)}, []int64{0, 1, 2, 3, 4, 5}, []int64{-1, -1, -1, -1}},
		"several epochs in each":           {[]loop{of(0, 1, 0, 1), of(0, 1, 0, 1)}, []int64{0, 1, 2, 3, 4, 5, 6, 7}, []int64{-1, -1}},
		"a step is tried again":            {[]loop{of(1, 2, 2, 3), of(1, 2, 2, 3)}, []int64{1, 2, 2, 3, 4, 5, 5, 6}, []int64{1, -1}},
		"after a checkpoint of step 0":     {[]loop{{job.Unknown, 0, []int64{1, 2}}, of(1, 2)}, []int64{1, 2, 3, 4}, []int64{1, -1}},
		"the first loop began in an epoch": {[]loop{{job.Unknown, 37, []int64{38, 39}}, of(1, 2)}, []int64{38, 39, 40, 41}, []int64{38, -1}},
		"the first loop went on":           {[]loop{{job.Unknown, 100, []int64{0, 1}}, of(0, 1)}, []int64{100, 101, 102, 103}, []int64{100, -1}},
		"the first loop went on, from 1":   {[]loop{{job.Unknown, 300, []int64{1, 2}}, of(1, 2)}, []int64{300, 301, 302, 303}, []int64{300, -1}},
		"the loop before failed":           {[]loop{of(1, 2, 3), of(1, 2)}, []int64{1, 2, 3, 1, 2}, []int64{1, -1}},
		"a rollback":                       {[]loop{of(0, 1, 2, 3), of(2, 3)}, []int64{0, 1, 2, 3, 2, 3}, []int64{-1, 2}},
		"a rollback to the step after 0":   {[]loop{of(0, 1, 2, 3), of(1, 2)}, []int64{0, 1, 2, 3, 1, 2}, []int64{-1, 1}},
		"a rollback that is recorded":      {[]loop{of(1, 2, 3), {1, none, []int64{1, 2}}}, []int64{1, 2, 3, 1, 2}, []int64{1, 1}},
		"a checkpoint is loaded":           {[]loop{of(1, 2, 3), {job.Unknown, 0, []int64{1, 2}}}, []int64{1, 2, 3, 1, 2}, []int64{1, 1}},
		"its step is not recorded":         {[]loop{of(1, 2, 3), {job.Unknown, job.Unknown, []int64{1, 2}}}, []int64{1, 2, 3, 1, 2}, []int64{1, 1}},
	} {
		for _, inside := range []bool{false, true} { // loads before the loop, and in it before its first step
			var s job.Steps
			at, id := int64(0), uint64(0)
			add := func(cat, name string, long int64, change func(sp *job.Span)) {
				id++
				sp := job.Span{ID: id, Start: at, End: at + long, Step: job.Unknown, Epoch: job.Unknown, First: job.Unknown}
				if change != nil {
					change(&sp)
				}
				sp.SetName(cat, name)
				s.Add(&sp)
			}
			for _, l := range c.loops {
				load := func() {
					if l.load != none {
						add("", spans.CheckpointLoad, 5, func(sp *job.Span) { sp.Step = l.load })
						at += 5
					}
				}
				if !inside {
					load()
				}
				add("pipeline", "train", int64(10*len(l.recorded)+5), func(sp *job.Span) {
					sp.First, sp.Failed = l.first, at == 0 && strings.HasSuffix(name, "failed")
				})
				if inside {
					load()
				}
				for _, n := range l.recorded {
					add("pipeline", "train.iteration", 9, func(sp *job.Span) { sp.Step = n })
					at += 10
				}
				at++
			}
			var got, from []int64
			for _, st := range s.All() {
				got = append(got, st.Number)
			}
			for _, l := range s.Loops() {
				from = append(from, l.From)
			}
			if !slices.Equal(got, c.want) || !slices.Equal(from, c.from) {
				t.Errorf("%s, loads inside %v: steps %v, loops from %v; want %v, %v", name, inside, got, from, c.want, c.from)
			}
		}
	}
}

package job_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// foreign writes a trace like programs that trace themselves: no start record,
// metadata without a process, and the step number as an argument.
type foreign struct {
	lines []string
	id    int
}

func (f *foreign) span(cat, name string, tid int, at, dur int64, args string) {
	f.id++
	f.lines = append(f.lines, fmt.Sprintf(`{"id":%d,"name":"%s","cat":"%s","pid":4000,"tid":%d,"ts":%d,"dur":%d,"ph":"X","args":{"hhash":"h"%s}}`, f.id, name, cat, tid, base+at, dur, args))
}

func (f *foreign) text() string {
	out := "[\n" + `{"name":"HH","ph":"M","args":{"hhash":"h","name":"node-a","value":"h"}}` + "\n"
	for _, l := range f.lines {
		out += l + "\n"
	}
	return out
}

// step writes a step of 100 microseconds in parts, with a span around it if it
// has a name.
func (f *foreign) step(around string, at int64, epoch, step int) {
	args := fmt.Sprintf(`,"epoch":%d,"step":%d`, epoch, step)
	f.span("IO", "data_loading", 12, at, 5, args)
	f.span("APP", "forward", 11, at+5, 40, args)
	f.span("APP", "loss", 11, at+45, 5, args)
	f.span("APP", "backward_pass", 11, at+50, 40, args)
	if around != "" {
		f.span("APP", "optimizer_step", 11, at+90, 10, args)
		f.span("APP", around, 11, at, 100, args)
	}
}

func (f *foreign) evaluate(at int64, epoch int) {
	for k := range 2 {
		f.span("APP", "val_forward", 11, at+int64(k)*50, 40, fmt.Sprintf(`,"epoch":%d,"step":%d`, epoch, k))
		f.span("APP", "val_step", 11, at+int64(k)*50, 50, fmt.Sprintf(`,"epoch":%d,"step":%d`, epoch, k))
	}
	f.span("APP", "validation", 11, at, 100, fmt.Sprintf(`,"epoch":%d`, epoch))
}

// Traces of programs that trace themselves have steps and ranks by common names
// and by the arguments of their spans.
func TestForeignTraces(t *testing.T) {
	two := func(around string, more func(f *foreign)) *foreign {
		f := &foreign{}
		for epoch := range 2 {
			from := int64(1000 * epoch)
			for step := range 3 {
				f.step(around, from+int64(step)*100, epoch, step)
			}
			f.evaluate(from+400, epoch)
		}
		if more != nil {
			more(f)
		}
		return f
	}
	six := []int64{0, 1, 2, 3, 4, 5}
	for _, c := range []struct {
		name string
		f    *foreign
		rule vocab.StepRule
		want []int64
	}{
		{"a common name", two("train_step", nil), vocab.StepNamed, six},
		{"a name of the program's own, and a step of the optimizer", two("my_iteration", nil), vocab.StepOptimizer, six},
		{"a word with other meanings, around a backward pass", two("Step", nil), vocab.StepNamed, six},
		{"the same word for a step of an optimizer", two("my_iteration", func(f *foreign) {
			for k := range 6 {
				f.span("optim", "step", 11, int64(k/3)*1000+int64(k%3)*100+92, 6, "")
			}
		}), vocab.StepOptimizer, six},
		{"numbers alone", two("", nil), vocab.StepArgument, six},
		{"spans called step of another thread", two("train_step", func(f *foreign) {
			for k := range 9 {
				f.span("APP", "step", 77, int64(k)*30, 20, fmt.Sprintf(`,"step":%d`, 500+k))
			}
		}), vocab.StepNamed, six},
		{"other numbers of another thread", two("", func(f *foreign) {
			for k := range 9 {
				f.span("net", "poll", 77, int64(k)*30, 20, fmt.Sprintf(`,"step":%d`, 500+k))
			}
		}), vocab.StepArgument, six},
		{"steps in a thread of helpers as well", two("train_step", func(f *foreign) {
			f.span("APP", "train_step", 77, 20, 30, `,"step":0`)
		}), vocab.StepNamed, six},
		{"a step inside of a step", two("train_step", func(f *foreign) {
			f.span("APP", "train_batch", 11, 10, 50, `,"epoch":0,"step":0`)
		}), vocab.StepNamed, six},
		{"iterations of this vocabulary", two("train_step", func(f *foreign) {
			f.span("pipeline", "train.iteration", 11, 0, 100, `,"step":0`)
			f.span("pipeline", "train.iteration", 11, 100, 100, `,"step":1`)
		}), vocab.StepIteration, []int64{0, 1}},
		{"numbers that come and go", func() *foreign {
			f := &foreign{}
			for k, n := range []int{0, 1, 2, 1, 2, 3, 2} {
				f.span("APP", "stage", 11, int64(k)*100, 50, fmt.Sprintf(`,"step":%d`, n))
			}
			return f
		}(), vocab.StepNone, nil},
	} {
		dir := files(t, map[string]string{"rank_3.pfw": c.f.text()})
		set, err := job.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		got := &settled{}
		if _, err := set.Read(func(p *job.Process) job.Sink { *got = settled{proc: p}; return got }); err != nil {
			t.Fatal(err)
		}
		if p := got.proc; p.Steps.Rule != c.rule || !slices.Equal(got.steps, c.want) || p.Rank != 3 || !p.RankKnown {
			t.Errorf("%s: rule %v, steps %v, rank %d (known %v); want %v, %v, rank 3", c.name, p.Steps.Rule, got.steps, p.Rank, p.RankKnown, c.rule, c.want)
		}
	}
}

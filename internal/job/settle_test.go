package job_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/spans"
)

// The kind of a span is determined at its end, whatever it was while it was
// open.
func TestKindIsSettledAtTheEnd(t *testing.T) {
	const (
		opened = `{"id":ID,"name":"CM","cat":"dftracer","pid":PID,"tid":1,"ph":"M","args":{"hhash":"h","level":2,"p_idx":-1,"name":"span.begin","value":"%s","begin_id":%d,"begin_cat":"pipeline","begin_ts":%d,"step":%d}}`
		closed = `{"id":%d,"name":"%s","cat":"pipeline","pid":PID,"tid":1,"ts":%d,"dur":%d,"ph":"X","args":{"hhash":"h","level":2,"p_idx":-1%s}}`
	)
	begin := func(id int, at int64, step int) string {
		return fmt.Sprintf(opened, "train.iteration", id, base+at, step)
	}
	end := func(id int, name string, at, dur int64, args string) string {
		return fmt.Sprintf(closed, id, name, base+at, dur, args)
	}
	step := func(n int, at int64) string {
		return end(100+n, "train.iteration", at, 90, fmt.Sprintf(`,"step":%d`, n))
	}
	for _, c := range []struct {
		name       string
		lines      []string
		wantSteps  []int64
		unfinished int
		evaluated  int
	}{
		{"a batch that was evaluated",
			[]string{step(0, 0), begin(150, 100, 1), end(150, "evaluate.iteration", 100, 1000, ""), step(1, 1200), step(2, 1300)}, []int64{0, 1, 2}, 0, 1},
		{"a batch that was asked for and not used",
			[]string{step(0, 0), begin(150, 100, 1), step(1, 1200), step(2, 1300)}, []int64{0, 1, 2}, 0, 0},
		{"a long step",
			[]string{step(0, 0), begin(150, 100, 1), end(150, "train.iteration", 100, 1000, ""), step(2, 1300)}, []int64{0, 1, 2}, 0, 0},
		{"a begin with a time of its own",
			[]string{step(0, 0), begin(150, 103, 1), end(150, "train.iteration", 100, 1000, ""), step(2, 1300)}, []int64{0, 1, 2}, 0, 0},
		{"a step that never ended",
			[]string{step(0, 0), step(1, 100), begin(150, 200, 2)}, []int64{0, 1, 2}, 1, 0},
		{"one that a repair closed",
			[]string{step(0, 0), begin(150, 200, 1), end(150, "train.iteration", 200, 1000, `,"truncated":1`)}, []int64{0, 1}, 1, 0},
	} {
		for _, workers := range []int{1, 4} {
			dir := files(t, map[string]string{"t.pfw": process(7, 0, 2000, "", c.lines...)})
			set, err := job.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			set.Workers = workers
			got := &settled{}
			if _, err := set.Read(func(p *job.Process) job.Sink { *got = settled{proc: p}; return got }); err != nil {
				t.Fatal(err)
			}
			var evaluated int
			ids := make(map[uint64]int)
			for _, s := range got.spans {
				ids[s.ID]++
				if s.Name == spans.ValidationIteration {
					evaluated++
				}
			}
			if !slices.Equal(got.steps, c.wantSteps) || got.open != c.unfinished || evaluated != c.evaluated {
				t.Errorf("%s, %d workers: steps %v, %d unfinished, %d evaluations, want %v, %d, %d", c.name, workers, got.steps, got.open, evaluated, c.wantSteps, c.unfinished, c.evaluated)
			}
			for id, n := range ids {
				if n != 1 {
					t.Errorf("%s, %d workers: span %d was delivered %d times, want once", c.name, workers, id, n)
				}
			}
		}
	}
}

// settled keeps the steps as they are after reading.
type settled struct {
	sink
	proc  *job.Process
	steps []int64
	open  int
}

func (s *settled) Close() error {
	for _, st := range s.proc.Steps.All() {
		s.steps = append(s.steps, st.Number)
		if st.End == job.NoEnd {
			s.open++
		}
	}
	return s.sink.Close()
}

// The step that a profiler opened when it was stopped does not count.
func TestTheTailOfAProfilerIsNoStep(t *testing.T) {
	for _, c := range []struct {
		last int64
		want []int64
	}{{43, []int64{5, 6}}, {2000, []int64{5, 6, 7}}} {
		p := newProgram()
		var steps job.Steps
		for k, dur := range []int64{50_000, 48_000, c.last} {
			p.span(fmt.Sprintf("pipeline/ProfilerStep#%d", 5+k), dur)
			steps.Add(&p.all[k])
		}
		var got []int64
		for _, st := range steps.All() {
			got = append(got, st.Number)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("with a last step of %d ns: steps %v, want %v", c.last, got, c.want)
		}
	}
}

// A process without steps is not a rank if its parent or child made steps: it waits and evaluates. A process
// to which a launcher gave a rank is one, and so is a child that failed.
func TestRelativesWithoutStepsAreNotRanks(t *testing.T) {
	const (
		step     = `{"id":ID,"name":"train.iteration","cat":"pipeline","pid":PID,"tid":1,"ts":FROM,"dur":LEN,"ph":"X","args":{"hhash":"h","level":2,"p_idx":-1,"step":0}}`
		evaluate = `{"id":ID,"name":"evaluate","cat":"pipeline","pid":PID,"tid":1,"ts":TO,"dur":1,"ph":"X","args":{"hhash":"h","level":2,"p_idx":-1}}`
		failure  = `{"id":ID,"name":"CM","cat":"dftracer","pid":PID,"tid":1,"ph":"M","args":{"hhash":"h","name":"error","value":"TO","exception_type":"ValueError","exception_message":"x"}}`
	)
	parent := func(pid int) string { return fmt.Sprintf(`,"ppid":%d`, pid) }
	child := process(8, 100, 200, parent(7), app, step)
	for _, c := range []struct {
		name string
		text []string
		want []string
	}{
		{"a parent that evaluates", []string{process(7, 0, 300, "", app, evaluate), child, process(9, 110, 210, parent(7), app, step)}, []string{"r0 a1 pid8", "r1 a1 pid9"}},
		{"a parent of ranks", []string{process(7, 0, 300, "", app), process(8, 100, 200, parent(7)+`,"rank":0`, app, step)}, []string{"r0 a1 pid8"}},
		{"a parent that trains", []string{process(7, 0, 300, "", app, step), child}, []string{"r0 a1 pid7", "r1 a1 pid8"}},
		{"an evaluation beside the training", []string{process(7, 0, 300, "", app, step), process(8, 100, 200, parent(7), app, evaluate)}, []string{"r0 a1 pid7"}},
		{"a child that failed", []string{process(7, 0, 300, "", app, step), process(8, 100, 200, parent(7), app, failure)}, []string{"r0 a1 pid7", "r1 a1 pid8"}},
		{"a rank that only evaluates", []string{process(7, 0, 300, `,"rank":1`, app, evaluate), process(8, 100, 200, parent(7)+`,"rank":0`, app, step)}, []string{"r0 a1 pid8", "r1 a1 pid7"}},
		{"another process with the number of the parent", []string{process(7, 0, 50, "", app, evaluate), child}, []string{"r0 a1 pid7", "r0 a2 pid8"}},
		{"processes that only evaluate", []string{process(7, 0, 300, "", app, evaluate), process(8, 100, 200, parent(7), app, evaluate)}, []string{"r0 a1 pid7", "r1 a1 pid8"}},
	} {
		all := make(map[string]string)
		for i, text := range c.text {
			all[fmt.Sprintf("%d.pfw", i)] = text
		}
		r := readAll(t, files(t, all))
		if len(r.jobs) != 1 || !slices.Equal(describe(r.jobs[0]), c.want) {
			t.Errorf("%s: %d jobs, got %q, want %q", c.name, len(r.jobs), describe(r.jobs[0]), c.want)
		}
	}
}

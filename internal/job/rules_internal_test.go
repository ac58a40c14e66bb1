package job

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Processes with other ids that are the same rank of the same attempt at the
// same time belong to other jobs; a process without an id belongs to the first.
func TestApart(t *testing.T) {
	type proc struct {
		id             string
		rank, from, to int
	}
	for name, c := range map[string]struct {
		procs []proc
		want  []string
	}{
		"at once":              {[]proc{{"a", 0, 0, 9}, {"b", 0, 5, 14}}, []string{"[a0]", "[b0]"}},
		"one after the other":  {[]proc{{"a", 0, 0, 9}, {"b", 0, 9, 14}}, []string{"[a0 b0]"}},
		"other ranks":          {[]proc{{"a", 0, 0, 9}, {"b", 1, 0, 9}}, []string{"[a0 b1]"}},
		"one rank at once":     {[]proc{{"a", 0, 0, 9}, {"a", 1, 0, 9}, {"b", 1, 0, 9}, {"b", 2, 0, 9}}, []string{"[a0 a1]", "[b1 b2]"}},
		"one id":               {[]proc{{"a", 0, 0, 9}, {"a", 0, 0, 9}}, []string{"[a0 a0]"}},
		"no id":                {[]proc{{"a", 0, 0, 9}, {"b", 0, 0, 9}, {"", 0, 0, 9}}, []string{"[a0 0]", "[b0]"}},
		"three":                {[]proc{{"a", 0, 0, 9}, {"b", 0, 0, 9}, {"c", 0, 8, 19}}, []string{"[a0]", "[b0]", "[c0]"}},
		"the third beside two": {[]proc{{"a", 0, 0, 9}, {"b", 0, 0, 9}, {"c", 0, 9, 19}}, []string{"[a0 c0]", "[b0]"}},
	} {
		var j Job
		for _, x := range c.procs {
			p := newProcess()
			p.JobID, p.Rank, p.RankKnown, p.Attempt, p.AttemptKnown = x.id, x.rank, true, 1, true
			p.Start, p.LastSeen = int64(x.from), int64(x.to)
			j.add(p)
		}
		var got []string
		for _, part := range j.splitDuplicates() {
			var of []string
			for _, p := range part.Processes {
				of = append(of, fmt.Sprint(p.JobID, p.Rank))
			}
			got = append(got, fmt.Sprint(of))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// An attempt lasts from its first process to its last, and has each id once.
func TestAttemptStarts(t *testing.T) {
	var j Job
	for i, id := range []string{"b", "", "a", "b"} {
		p := newProcess()
		p.Attempt, p.JobID, p.Start, p.LastSeen = 2, id, int64(10-i), int64(20-i)
		j.Processes = append(j.Processes, p)
	}
	p := newProcess()
	p.Attempt, p.Start, p.LastSeen = 1, 1, 2
	j.Processes = append(j.Processes, p)
	list := j.attemptStarts()
	if len(list) != 2 || list[0].number != 1 || list[0].jobs != nil {
		t.Fatalf("starts %+v, want two, the first number 1 without jobs", list)
	}
	if a := list[1]; a.number != 2 || a.start != 7 || a.stop != 20 || len(a.procs) != 4 || !slices.Equal(a.jobs, []string{"b", "a"}) {
		t.Errorf("second start %+v, want number 2, from 7 to 20, 4 processes of jobs b and a", a)
	}
}

// Starts without any record are one attempt if they share a folder and a
// launcher id.
func TestSilentAttempts(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0).UTC() }
	failed := 1
	start := func(job string, attempt, from int) *rundir.Run {
		return &rundir.Run{Program: "python", Job: job, Attempt: attempt, Started: at(from), Seen: at(from + 5), ExitStatus: &failed}
	}
	told := start("x", 0, 0)
	list := []*attemptStarts{{number: 1, start: at(0).UnixNano(), stop: at(5).UnixNano(), starts: []*rundir.Run{told}}, {number: 4, start: at(100).UnixNano(), stop: at(110).UnixNano()}}
	j := Job{Starts: []*rundir.Run{told}}
	ended := start("x", 1, 50)
	ended.ExitStatus = new(int)
	j.silent([]*rundir.Run{start("x", 1, 12), start("x", 1, 10), start("y", 1, 20), start("x", 3, 30), ended}, list)
	var got []string
	for _, s := range j.Silent {
		got = append(got, fmt.Sprintf("%s: attempt %d, %d starts from %d to %d", s.job, s.Attempt, s.Starts, s.Start/1e9, s.Stop/1e9))
	}
	want := []string{"x: attempt 2, 2 starts from 10 to 17", "y: attempt 2, 1 starts from 20 to 25", "x: attempt 0, 1 starts from 30 to 35"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// An error is dropped if a step began after it, not if there were no steps.
func TestSettledFailures(t *testing.T) {
	for _, steps := range []int{0, 1} {
		p := newProcess()
		for i := range steps {
			p.Steps.Add(&Span{ID: uint64(i + 1), Start: 10, End: 20, StepRule: vocab.StepIteration, Step: Unknown, Epoch: Unknown})
		}
		p.Failures = []Failure{{Time: 0}, {Time: 9}, {Time: 10}, {Time: 5, Child: 7}}
		p.settleFailures()
		if want := 4 - 2*steps; len(p.Failures) != want {
			t.Errorf("after %d steps %v are left, want %d", steps, p.Failures, want)
		}
	}
}

// Events that show steps are kept when spans are added up by name.
func TestEventsThatShowSteps(t *testing.T) {
	for categoryName, want := range map[[2]string]bool{
		{"pipeline", "train"}: true, {"pipeline", "train.iteration"}: true, {"pipeline", "epoch.block"}: true, {"", "training_loop"}: true,
		{"dataloader", "fetch.iter"}: true, {"compute", "forward"}: true, {"compute", "backward"}: true, {"compute", "step"}: true,
		{"pipeline", "evaluate"}: true, {"pipeline", "test"}: true, {"checkpoint", "load"}: true,
		{"checkpoint", "capture"}: false, {"comm", "all_reduce"}: false, {"POSIX", "read"}: false, {"", "application"}: false, {"mine", "mine"}: false,
	} {
		m := vocab.Of(categoryName[0], categoryName[1])
		if got := SaysSteps(&m, &dftracer.Event{}); got != want {
			t.Errorf("SaysSteps(%v) = %v, want %v", categoryName, got, want)
		}
		numbered := want || m.Class == vocab.ClassOther || m.Class == vocab.ClassCollective
		if got := SaysSteps(&m, &dftracer.Event{Args: []dftracer.Arg{dftracer.Int("step", 3)}}); got != numbered {
			t.Errorf("SaysSteps(%v) with a step = %v, want %v", categoryName, got, numbered)
		}
	}
}

// A checkpoint written while training continues is in the background, and the
// step of a span is kept if something uses it.
func TestMark(t *testing.T) {
	for categoryName, want := range map[[2]string]Span{
		{"", "checkpoint_save_finalization"}: {Background: true, Step: 3},
		{"checkpoint", "capture"}:            {Step: 3},
		{"comm", "all_reduce"}:               {Step: 3},
		{"pipeline", "train.iteration"}:      {Step: 3},
		{"compute", "forward"}:               {Step: Unknown},
	} {
		s := Span{Step: 3}
		s.SetName(categoryName[0], categoryName[1])
		if s.mark(); s.Background != want.Background || s.Step != want.Step {
			t.Errorf("%v: %+v, want background %v, step %v", categoryName, s, want.Background, want.Step)
		}
	}
}

// A loop begins with its first step, also if both begin at one time.
func TestLoopOfItsFirstStep(t *testing.T) {
	for _, before := range []int64{0, 1} {
		var s Steps
		for i, name := range []string{"train", "train.iteration", "train.iteration"} {
			sp := Span{ID: uint64(i + 1), Start: 10 * int64(i), End: 10*int64(i) + 5, Step: Unknown, Epoch: Unknown, First: Unknown}
			if i == 0 {
				sp.Start, sp.End, sp.First = 10-before, 100, 50
			}
			sp.SetName("pipeline", name)
			s.Add(&sp)
		}
		all := s.All()
		if loops := s.Loops(); len(loops) != 1 || len(all) != 2 || all[0].Loop != 0 || all[0].Number != 50 || all[1].Number != 51 {
			t.Errorf("%d before: loops %+v, steps %+v; want one loop with steps 50 and 51", before, loops, all)
		}
	}
}

// Steps are determined once, and again after a new span. Numbers are local if a
// continued loop counts from 0.
func TestStepsAreFoundOnce(t *testing.T) {
	for _, first := range []int64{Unknown, 0, 100} {
		var s Steps
		loop := Span{Start: 1, End: 100, Step: Unknown, Epoch: Unknown, First: first}
		loop.SetName("pipeline", "train")
		s.Add(&loop)
		for i := range int64(5) {
			sp := Span{ID: uint64(i + 1), Start: 10 * (i + 1), End: 10*(i+1) + 5, Step: i, Epoch: Unknown, First: Unknown}
			sp.SetName("pipeline", "train.iteration")
			s.Add(&sp)
		}
		if n := len(s.All()); n != 5 || s.Local != (first > 0) {
			t.Errorf("from %d: %d steps, local %v; want 5, %v", first, n, s.Local, first > 0)
		}
		if !s.made {
			t.Error("the result is not cached")
		}
	}
}

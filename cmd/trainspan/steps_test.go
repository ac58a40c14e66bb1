package main

import (
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/spans"
)

// TestPhasesOfSteps: a span inside another one of its phase counts once, also if both begin together and
// whichever is recorded first; a span that was also recorded while it was open counts once; a collective belongs
// to the step that it names; and background work is of no step.
func TestPhasesOfSteps(t *testing.T) {
	table := newStepTable()
	defer table.close()
	p := &job.Process{RankKnown: true, Attempt: 1, Start: 1e18, End: 2e18, LastSeen: 2e18}
	var list []job.Span
	span := func(id uint64, cat, name string, from, to, step int64) *job.Span {
		sp := job.Span{ID: id, Start: 1e18 + from*1e6, End: 1e18 + to*1e6, Step: step, First: job.Unknown, Epoch: job.Unknown, Thread: 1}
		sp.SetName(cat, name)
		list = append(list, sp)
		return &list[len(list)-1]
	}
	span(1, "", spans.DataLoading, 10, 20, job.Unknown)
	span(2, "", spans.DataLoading, 10, 40, job.Unknown)
	span(3, "", spans.DataLoading, 30, 35, job.Unknown)
	span(4, "", spans.ModelForward, 50, 70, job.Unknown)
	span(4, "", spans.ModelForward, 50, 0, job.Unknown).End = job.NoEnd
	span(5, "comm", "all_reduce", 120, 130, 0)
	span(6, "", spans.CheckpointSaveSync, 80, 90, job.Unknown).Background = true
	span(7, "", spans.TrainingIteration, 0, 100, 0)
	span(8, "", spans.TrainingIteration, 100, 200, 1)
	for range 2 {
		slices.Reverse(list)
		sink := table.open(p)
		p.Steps = job.Steps{}
		for i := range list {
			p.Steps.Add(&list[i])
			sink.Span(&list[i])
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
		var got [][phaseCount]int64
		err := table.sorted(func(*job.Process, *stepRow) bool { return true }, func(_ *job.Process, r *stepRow) error {
			got = append(got, r.phases)
			return nil
		})
		if want := [][phaseCount]int64{{phaseData: 30e6, phaseForward: 20e6, phaseComm: 10e6}, {}}; err != nil || !slices.Equal(got, want) {
			t.Errorf("phases of the steps: got %v, %v; want %v", got, err, want)
		}
	}
}

// TestStepsInAnyOrderOfReading: the steps of processes with the same rank have one order, whichever process was
// read first.
func TestStepsInAnyOrderOfReading(t *testing.T) {
	for _, pids := range [][]int64{{3, 9}, {9, 3}} {
		table := newStepTable()
		for _, pid := range pids {
			p := &job.Process{PID: pid, Attempt: 1, Start: 1e18, End: 2e18, LastSeen: 2e18}
			sink := table.open(p)
			for step := range int64(2) {
				sp := job.Span{ID: uint64(step) + 1, Start: 1e18 + step*1e6, End: 1e18 + (step+1)*1e6, Step: step, First: job.Unknown, Epoch: job.Unknown, Thread: 1}
				sp.SetName("", spans.TrainingIteration)
				p.Steps.Add(&sp)
				sink.Span(&sp)
			}
			if err := sink.Close(); err != nil {
				t.Fatal(err)
			}
		}
		type at struct{ step, pid int64 }
		var got []at
		err := table.sorted(func(*job.Process, *stepRow) bool { return true }, func(p *job.Process, r *stepRow) error {
			got = append(got, at{r.step, p.PID})
			return nil
		})
		table.close()
		if want := []at{{0, 3}, {0, 9}, {1, 3}, {1, 9}}; err != nil || !slices.Equal(got, want) {
			t.Errorf("read in the order %v: got %v, %v; want %v", pids, got, err, want)
		}
	}
}

package fromjob_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

func write(t *testing.T, dir string, a simjob.Attempt) {
	t.Helper()
	if _, err := a.Write(dir); err != nil {
		t.Fatal(err)
	}
}

// open returns the sink of a process whose steps c collects.
func open(c *fromjob.Collector, p *job.Process) job.Sink {
	return account.OpenRows(p, c.Reader(p))
}

func attempts(t *testing.T, dir string) []fromjob.Attempt {
	t.Helper()
	set, err := job.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := fromjob.New(nil)
	jobs, err := set.Read(func(p *job.Process) job.Sink { return open(c, p) })
	if err != nil || len(jobs) != 1 {
		t.Fatalf("read %d jobs, want 1: %v", len(jobs), err)
	}
	return c.Attempts(jobs[0])
}

func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		a     simjob.Attempt
		kind  finding.Kind
		rank  int
		cause string
	}{
		"healthy":      {simjob.Attempt{Ranks: 4, Steps: 60}, finding.Fine, -1, ""},
		"input":        {simjob.Attempt{Ranks: 4, Steps: 60, Slow: 2, Extra: [4]float64{15}}, finding.SlowRanks, 2, "input"},
		"compute":      {simjob.Attempt{Ranks: 8, Steps: 60, Slow: 5, Extra: [4]float64{0, 4, 8}}, finding.SlowRanks, 5, "compute"},
		"optimizer":    {simjob.Attempt{Ranks: 4, Steps: 60, Slow: 1, Extra: [4]float64{0, 0, 0, 9}}, finding.SlowRanks, 1, "optimizer"},
		"more work":    {simjob.Attempt{Ranks: 4, Steps: 60, Weights: map[int]float64{3: 1.4}}, finding.Imbalance, 3, "work"},
		"hidden":       {simjob.Attempt{Ranks: 4, Steps: 60, Slow: 2, Extra: [4]float64{0, 0, 15}, NoComm: true}, finding.Unknown, -1, ""},
		"alone":        {simjob.Attempt{Ranks: 1, Steps: 60}, finding.Unknown, -1, ""},
		"missing rank": {simjob.Attempt{Ranks: 4, Steps: 60, Slow: 2, Extra: [4]float64{15}, Skip: map[int]bool{2: true}}, finding.Unknown, -1, ""},
		"all killed":   {simjob.Attempt{Ranks: 4, Steps: 60, Killed: true}, finding.Fine, -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, c.a)
			all := attempts(t, dir)
			if len(all) != 1 || all[0].Number != 1 {
				t.Fatalf("attempts %+v, want one, number 1", all)
			}
			v := all[0].State.Verdict()
			if v.Kind != c.kind || c.cause != "" && (v.Cause != c.cause || !slices.Equal(v.Ranks, []int{c.rank})) {
				t.Errorf("got %s %v %s, want %s [%d] %s: %s", v.Kind, v.Ranks, v.Cause, c.kind, c.rank, c.cause, v.Sentence)
			}
			if v.Coverage.Expected != c.a.Ranks {
				t.Errorf("expected %d ranks: %+v", c.a.Ranks, v.Coverage)
			}
		})
	}
}

func TestAttempts(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, simjob.Attempt{Ranks: 4, Steps: 60, Killed: true})
	write(t, dir, simjob.Attempt{Ranks: 4, Steps: 80, Number: 1, First: 40, Slow: 1, Extra: [4]float64{20}})
	all := attempts(t, dir)
	if len(all) != 2 || all[1].Number != 2 {
		t.Fatalf("attempts %+v, want two, the second number 2", all)
	}
	a, b := all[0].State.Verdict(), all[1].State.Verdict()
	if a.Kind != finding.Fine || b.Kind != finding.SlowRanks || b.Ranks[0] != 1 || b.Hosts[0] != "node-a0" {
		t.Errorf("attempts: %s\n%s\nwant the first fine, the second slow by rank 1 on node-a0", a.Sentence, b.Sentence)
	}
}

// TestUnevenFiles: ranks are killed together, and the newest records of one of them are not written yet. That
// rank did not stop before the others.
func TestUnevenFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, simjob.Attempt{Ranks: 4, Steps: 60, Killed: true, Plain: true})
	shorten := func(rank, lines int) {
		t.Helper()
		path := filepath.Join(dir, fmt.Sprintf("attempt0-rank%d.pfw", rank))
		text, err := os.ReadFile(path)
		if err == nil {
			all := bytes.SplitAfter(text, []byte("\n"))
			err = os.WriteFile(path, bytes.Join(all[:len(all)-1-lines], nil), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for rank := range 4 {
		shorten(rank, 1) // the collective of the last step
	}
	for cut := 1; cut < 8; cut++ {
		shorten(2, 1)
		if v := attempts(t, dir)[0].State.Verdict(); v.Kind != finding.Fine {
			t.Errorf("files with %d lines less: %s; want no finding", cut, v.Sentence)
		}
	}
}

// TestOrderOfLines: the order of lines and copies of files do not change the verdict.
func TestOrderOfLines(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, simjob.Attempt{Ranks: 2, Steps: 50, Plain: true, Slow: 1, Extra: [4]float64{0, 0, 9}})
	want := attempts(t, dir)[0].State.Verdict()
	files, err := filepath.Glob(filepath.Join(dir, "*.pfw"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files %v, %v; want two", files, err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for i, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.SplitAfter(text, []byte("\n"))
		r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		if err := os.WriteFile(f, bytes.Join(lines, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("copy%d.pfw", i)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	have := attempts(t, dir)[0].State.Verdict()
	if have.Sentence != want.Sentence || have.Kind != finding.SlowRanks || have.Coverage.Disputed != 0 {
		t.Errorf("%s\nwant %s", have.Sentence, want.Sentence)
	}
}

// TestManySteps: steps that a process hands on early are the same as those it hands on at the end, also if the
// records come in the reverse order.
func TestManySteps(t *testing.T) {
	for name, reverse := range map[string]bool{"in order": false, "in reverse": true} {
		t.Run(name, func(t *testing.T) { manySteps(t, reverse) })
	}
}

func manySteps(t *testing.T, reverse bool) {
	t.Helper()
	feed := func(p *job.Process, sink job.Sink, n int) {
		id := uint64(1)
		span := func(name, cat string, from, to, step int64) {
			id++
			sp := job.Span{ID: id, Start: from, End: to, Step: step, First: job.Unknown, Thread: 1}
			sp.SetName(cat, name)
			p.Steps.Add(&sp)
			sink.Span(&sp)
		}
		for i := range int64(n) {
			if reverse {
				i = int64(n) - 1 - i
			}
			at := 1e18 + i*600e3
			span("data_loading", "", at, at+100e3, job.Unknown)
			span("model_forward", "", at+100e3, at+300e3, job.Unknown)
			span("all_reduce", "comm", at+300e3, at+500e3, job.Unknown)
			span("training_single_iteration", "", at+100e3, at+600e3, i)
		}
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
	}
	const steps = 200_000 // 800,000 spans: more than maxRows
	c := fromjob.New(nil)
	j := &job.Job{Ranks: 1}
	p := &job.Process{Attempt: 1, Start: 1e18, End: 2e18, LastSeen: 2e18}
	feed(p, open(c, p), steps)
	j.Processes = append(j.Processes, p)
	a := c.Attempts(j)[0]
	if a.State.Len() != steps {
		t.Fatalf("got %d steps, want %d", a.State.Len(), steps)
	}
	_, tab := a.State.Judge()
	if len(tab.Steps) != steps-1 || tab.Period[7] != 600e3 || tab.Phase(straggler.Input, 0, 7) != 100e3 || tab.Own(0, 7) != 400e3 {
		t.Errorf("%d steps; step 7: period %v, input %v, own %v; want %d steps and 600, 100, 400 µs", len(tab.Steps), tab.Period[7], tab.Phase(straggler.Input, 0, 7), tab.Own(0, 7), steps-1)
	}
}

// TestInputWork: a batch that the training thread makes itself counts as input, as in goodput accounting. A
// batch that another thread makes is not part of the step, and one with a duration of 0 takes no time.
func TestInputWork(t *testing.T) {
	const steps = 30
	c := fromjob.New(nil)
	p := &job.Process{Attempt: 1, Start: 1e18, End: 2e18, LastSeen: 2e18}
	sink := open(c, p)
	id := uint64(1)
	span := func(cat, name string, from, to, thread int64) {
		id++
		sp := job.Span{ID: id, Start: from, End: to, Step: job.Unknown, First: job.Unknown, Thread: thread}
		sp.SetName(cat, name)
		p.Steps.Add(&sp)
		sink.Span(&sp)
	}
	at := int64(1e18)
	for range steps {
		span("data", "item", at+10e3, at+90e3, 1)
		span("data", "preprocess", at+90e3, at+90e3, 1)
		span("data", "item", at+200e3, at+300e3, 2)
		span("compute", "forward", at+100e3, at+300e3, 1)
		span("comm", "barrier", at+300e3, at+300e3, 1)
		span("comm", "all_reduce", at+300e3, at+500e3, 1)
		span("pipeline", "train.iteration", at, at+600e3, 1)
		at += 600e3
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	a := c.Attempts(&job.Job{Ranks: 1, Processes: []*job.Process{p}})[0]
	_, tab := a.State.Judge()
	if tab == nil || len(tab.Steps) != steps-1 {
		t.Fatalf("table %+v, want %d steps", tab, steps-1)
	}
	for i := range tab.Steps {
		if in, own := tab.Phase(straggler.Input, 0, i), tab.Own(0, i); in != 80e3 || own != 400e3 {
			t.Fatalf("step %d: input %v, own %v; want 80 and 400 µs", i, in, own)
		}
	}
}

// TestLoopOverLoop: in a loop over a generator that loops over the loader, a wait counts once, in the step
// that it is for.
func TestLoopOverLoop(t *testing.T) {
	const steps = 30
	c := fromjob.New(nil)
	p := &job.Process{Attempt: 1, Start: 1e18, End: 2e18, LastSeen: 2e18}
	sink := open(c, p)
	id := uint64(1)
	span := func(cat, name string, from, to int64) {
		id++
		sp := job.Span{ID: id, Start: from, End: to, Step: job.Unknown, First: job.Unknown, Thread: 1}
		sp.SetName(cat, name)
		p.Steps.Add(&sp)
		sink.Span(&sp)
	}
	at := int64(1e18)
	for range steps {
		span("dataloader", "fetch.iter", at-30e3, at+10e3) // the outer loop resumes the inner one and waits for it
		span("data", "item.iter", at-20e3, at)
		span("data", "item.block", at, at+980e3)
		span("dataloader", "fetch.block", at+10e3, at+970e3)
		span("compute", "forward", at+20e3, at+300e3)
		span("compute", "backward", at+300e3, at+900e3)
		span("compute", "step", at+900e3, at+960e3)
		at += 1000e3
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	if p.Steps.Rule != vocab.StepBody || p.Steps.Count != steps {
		t.Fatalf("%d steps by rule %s, want %d by %s", p.Steps.Count, p.Steps.Rule, steps, vocab.StepBody)
	}
	_, tab := c.Attempts(&job.Job{Ranks: 1, Processes: []*job.Process{p}})[0].State.Judge()
	if tab == nil || len(tab.Steps) != steps-1 {
		t.Fatalf("table %+v, want %d steps", tab, steps-1)
	}
	for i := range tab.Steps {
		if in, forward, backward := tab.Phase(straggler.Input, 0, i), tab.Phase(straggler.Forward, 0, i), tab.Phase(straggler.Backward, 0, i); in != 40e3 || forward != 280e3 || backward != 600e3 {
			t.Fatalf("step %d: input %v, forward %v, backward %v; want 40, 280, 600 µs", i, in, forward, backward)
		}
	}
}

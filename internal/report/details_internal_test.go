package report

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/spans"
)

// TestSlowestInAnyOrder adds more names and more spans of equal length than a process keeps,
// in several orders: the result is always the same, and names of the vocabulary are always
// counted.
func TestSlowestInAnyOrder(t *testing.T) {
	var list []job.Span
	for i := range 2 * maxNames {
		for k := range 3 {
			list = append(list, job.Span{ID: uint64(10*i + k), Name: fmt.Sprintf("a %d", i), Start: int64(k), End: int64(k + 5)})
		}
	}
	for k := range 2 * topSpans {
		list = append(list, job.Span{ID: uint64(1e6 + k), Name: spans.ModelForward, Start: int64(k), End: int64(k + 9)})
	}
	var want []byte
	for seed := range uint64(8) {
		d := newDetailSink(nil)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for i := range list {
			d.Span(&list[i])
		}
		if n := d.names[spans.ModelForward]; len(d.names) != maxNames || n == nil || n.count != 2*topSpans {
			t.Fatalf("%d names, forward %+v; want %d names and %d spans of forward", len(d.names), n, maxNames, 2*topSpans)
		}
		got, err := d.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("order %d gives other names or spans, want the same in every order", seed)
		}
	}
}

// TestFailedSaves checks that saves that failed are not counted as saved: by the outcome of their
// span, by the failure of a step, or by that of their part in the background.
func TestFailedSaves(t *testing.T) {
	type sv = job.Span
	failure := func(step, at int64) *job.Event {
		return &job.Event{Name: spans.EventSaveCheckpointFailure, Step: step, Time: at}
	}
	for name, c := range map[string]struct {
		spans []job.Span
		event *job.Event
		want  string // the step of each checkpoint, with a mark if it failed
	}{
		"saved":             {[]sv{{ID: 1, Name: spans.CheckpointSaveSync, Step: 5, Start: 10, End: 20}}, nil, "5"},
		"failed":            {[]sv{{ID: 1, Name: spans.CheckpointSaveSync, Step: 5, Start: 10, End: 20, Failed: true}}, nil, "5!"},
		"without a step":    {[]sv{{ID: 1, Name: spans.CheckpointSaveSync, Step: job.Unknown, Start: 10, End: 20, Failed: true}}, nil, "-1!"},
		"saved again":       {[]sv{{ID: 1, Name: spans.CheckpointSaveSync, Step: 5, Start: 10, End: 20, Failed: true}, {ID: 2, Name: spans.CheckpointSaveSync, Step: 5, Start: 30, End: 40}}, nil, "5! 5"},
		"one of its files":  {[]sv{{ID: 1, Name: spans.CheckpointSaveSync, Step: 5, Start: 10, End: 20}, {ID: 2, Name: spans.CheckpointSaveSync, Step: 5, Start: 30, End: 40, Failed: true}}, nil, "5!"},
		"an event later":    {[]sv{{ID: 1, Name: spans.CheckpointSaveSync, Step: 5, Start: 10, End: 20}, {ID: 2, Name: spans.CheckpointSaveSync, Step: 9, Start: 30, End: 40}}, failure(5, 25), "5! 9"},
		"an event before":   {[]sv{{ID: 1, Name: spans.CheckpointSaveSync, Step: 5, Start: 10, End: 20}}, failure(5, 9), "5"},
		"in the background": {[]sv{{ID: 1, Name: spans.CheckpointSaveAsync, Step: 5, Start: 10, End: 20}, {ID: 2, Name: spans.CheckpointSaveFinalization, Step: 5, Start: 15, End: 90, Failed: true}}, nil, "5!"},
		"a load":            {[]sv{{ID: 1, Name: spans.CheckpointLoad, Step: 5, Start: 10, End: 20, Failed: true}}, failure(5, 25), "5!"},
	} {
		p := &job.Process{}
		d := newDetailSink(p)
		for i := range c.spans {
			d.Span(&c.spans[i])
		}
		if c.event != nil {
			d.Event(c.event)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		body, err := d.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		read := new(detailSink)
		if err := read.UnmarshalBinary(body); err != nil {
			t.Fatal(err)
		}
		for kind, d := range map[string]*detailSink{"": d, "digest": read} {
			got := ""
			for _, c := range detailsOf(&job.Job{Processes: []*job.Process{p}}, func(*job.Process) *detailSink { return d }).checkpoints {
				if got += fmt.Sprint(" ", c.Step); c.Failed {
					got += "!"
				}
			}
			if strings.TrimSpace(got) != c.want {
				t.Errorf("%s %s: checkpoints%s, want %s", name, kind, got, c.want)
			}
		}
	}
}

// TestShardThatFails checks that a checkpoint that one of the ranks could not save is not saved.
func TestShardThatFails(t *testing.T) {
	var procs []*job.Process
	of := make(map[*job.Process]*detailSink)
	for rank := range 3 {
		p := &job.Process{Rank: rank}
		procs, of[p] = append(procs, p), newDetailSink(p)
		for step := range int64(2) {
			of[p].Span(&job.Span{ID: uint64(step + 1), Name: spans.CheckpointSaveSync, Step: step, Start: 100 * step, End: 100*step + 50, Failed: rank == 1 && step == 1})
		}
		if err := of[p].Close(); err != nil {
			t.Fatal(err)
		}
	}
	list := detailsOf(&job.Job{Processes: procs}, func(p *job.Process) *detailSink { return of[p] }).checkpoints
	if len(list) != 2 || list[0].Failed || !list[1].Failed {
		t.Errorf("checkpoints %+v, want one that is saved and one that failed", list)
	}
}

// TestMoreSavesThanAreKept checks that saves beyond the bound are counted, once for each step and
// attempt, and also in a digest.
func TestMoreSavesThanAreKept(t *testing.T) {
	var procs []*job.Process
	of := make(map[*job.Process]*detailSink)
	for i, n := range []int64{maxSaves + 5, maxSaves + 3, maxSaves + 2, 9} {
		p := &job.Process{Rank: i, Attempt: i / 2}
		d := newDetailSink(p)
		for k := range n {
			d.Span(&job.Span{ID: uint64(2*k + 1), Name: spans.CheckpointSaveSync, Step: k, Start: 10 * k, End: 10*k + 1})
			if k >= maxSaves {
				d.Span(&job.Span{ID: uint64(2*k + 2), Name: spans.CheckpointSaveSync, Step: k, Start: 10*k + 2, End: 10*k + 3})
				d.Span(&job.Span{ID: uint64(3 * k), Name: spans.CheckpointSaveFinalization, Step: k, Start: 10*k + 2, End: 10*k + 3})
			}
		}
		d.Span(&job.Span{ID: 1 << 60, Name: spans.CheckpointSaveSync, Step: n, Start: 10 * n, End: 10*n + 1, Failed: true})
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		body, err := d.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		of[p] = new(detailSink)
		if err := of[p].UnmarshalBinary(body); err != nil {
			t.Fatal(err)
		}
		procs = append(procs, p)
	}
	all := detailsOf(&job.Job{Processes: procs}, func(p *job.Process) *detailSink { return of[p] })
	if all.moreSaves != 5+2 {
		t.Errorf("%d more saves, want 7", all.moreSaves)
	}
}

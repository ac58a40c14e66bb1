package spanstats_test

import (
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// feed adds the spans of a process that lasts from start for dur, half of it
// computing.
func feed(agg *spanstats.Aggregator, pid int64, rank string, start, dur int64, facts ...dftracer.Arg) {
	agg.NextFile(nil)
	host := "h"
	if rank != "" {
		agg.Add(&dftracer.Event{Phase: dftracer.PhaseMetadata, Name: tracefile.NameProcess, Cat: dftracer.CatDFTracer, PID: pid, HostHash: host,
			Args: []dftracer.Arg{dftracer.String("name", "rank"), dftracer.String("value", rank)}})
	}
	agg.Add(&dftracer.Event{Phase: dftracer.PhaseComplete, Name: tracefile.NameStart, Cat: dftracer.CatDFTracer, PID: pid, HostHash: host, TS: start, Args: facts})
	for _, ev := range []dftracer.Event{
		{Cat: "pipeline", Name: "epoch.block", TS: start, Dur: dur, Args: []dftracer.Arg{dftracer.Int("epoch", 0)}},
		{Cat: "compute", Name: "forward", TS: start, Dur: dur / 2},
	} {
		ev.Phase, ev.PID, ev.TID, ev.HostHash = dftracer.PhaseComplete, pid, pid, host
		agg.Add(&ev)
	}
}

// TestAttemptsAreNotRanks checks that attempts of a rank add up and are not
// separate ranks.
func TestAttemptsAreNotRanks(t *testing.T) {
	agg := spanstats.New(nil)
	feed(agg, 10, "0", 1000, 100)
	feed(agg, 11, "1", 1000, 100)
	feed(agg, 20, "0", 5000, 300)
	feed(agg, 21, "1", 5000, 300)
	r := agg.Result()
	mean, ranks := r.Mean()
	if ranks != 2 || mean.Wall != 400 || mean.Compute != 200 || mean.Idle != 200 {
		t.Errorf("mean of %d ranks %+v, want 2 ranks: wall 400, compute 200, idle 200", ranks, mean)
	}
	for i, want := range []int64{1, 2, 1, 2} {
		if p := r.Processes[i]; p.Attempt != want || p.Rank != []string{"0", "0", "1", "1"}[i] {
			t.Errorf("process %d has rank %s, attempt %d; want %s, %d", i, p.Rank, p.Attempt, []string{"0", "0", "1", "1"}[i], want)
		}
	}
	if e := r.EpochMeans(); len(e) != 1 || e[0].Ranks != 2 || e[0].Wall != 400 {
		t.Errorf("EpochMeans() = %+v, want one epoch of 2 ranks, 400 µs", e)
	}
}

// TestMeansOfRanks checks that every part of the use has a separate mean, over
// the ranks and for an epoch.
func TestMeansOfRanks(t *testing.T) {
	agg := spanstats.New(nil)
	for rank := range int64(2) {
		at := 1000 * (rank + 1)
		feed(agg, 10+rank, []string{"0", "1"}[rank], at, 200)
		for _, ev := range []dftracer.Event{
			{Cat: "comm", Name: "all_reduce", TID: 2, TS: at + 80, Dur: 60 + 20*rank}, // in parallel to forward, which ends at 100
			{Cat: "POSIX", Name: "read", TID: 3, TS: at + 90, Dur: 20 + 40*rank},
			{Cat: "device", Name: "transfer", TID: 4, TS: at, Dur: 10 + 10*rank},
			{Cat: "pipeline", Name: "train.iteration", TID: 5, TS: at, Dur: 100},
			{Cat: "pipeline", Name: "evaluate.iteration", TID: 5, TS: at + 100, Dur: 20},
		} {
			ev.Phase, ev.PID, ev.HostHash, ev.Args = dftracer.PhaseComplete, 10+rank, "h", []dftracer.Arg{dftracer.Int("epoch", 0)}
			agg.Add(&ev)
		}
	}
	r := agg.Result()
	want := spanstats.Use{Wall: 200, Compute: 100, IO: 40, IOStall: 30, Comm: 70, CommStall: 50, Copies: 15, Idle: 50}
	if mean, ranks := r.Mean(); ranks != 2 || mean != want {
		t.Errorf("%d ranks, %+v, want %+v", ranks, mean, want)
	}
	if e := r.EpochMeans(); len(e) != 1 || e[0].Use != want || e[0].Steps != 1 || e[0].Ranks != 2 || e[0].Events != 12 {
		t.Errorf("EpochMeans() = %+v, want one epoch of 2 ranks with 1 step, 12 events and %+v", e, want)
	}
}

// TestWhatIsAnAttempt checks that the start record takes precedence, and counts
// from 0; parallel processes of a rank, and processes without a rank, are
// separate.
func TestWhatIsAnAttempt(t *testing.T) {
	agg := spanstats.New(nil)
	feed(agg, 10, "0", 1000, 100, dftracer.Int("attempt", 4))
	feed(agg, 11, "0", 5000, 100)
	feed(agg, 12, "0", 5050, 500)
	feed(agg, 13, "", 1000, 100)
	feed(agg, 14, "", 9000, 100)
	r := agg.Result()
	for i, want := range []int64{5, 6, 6, 5, 7} {
		if p := r.Processes[i]; p.Attempt != want {
			t.Errorf("pid %d has attempt %d, want %d", p.PID, p.Attempt, want)
		}
	}
	if mean, ranks := r.Mean(); ranks != 4 || mean.Wall != (200+500+100+100)/4 {
		t.Errorf("mean of %d ranks %+v, want 4 ranks with wall 225", ranks, mean)
	}
	if again := agg.Result(); again.Processes[1].Attempt != 6 {
		t.Errorf("a second result has attempt %d, want 6", again.Processes[1].Attempt)
	}
}

// TestRunsGoOn checks that a start of the same command under another id of the
// launcher continues a run that failed, if it continues its steps, whichever
// file has that.
func TestRunsGoOn(t *testing.T) {
	failed := 1
	start := func(job string, from, to int64) *rundir.Run {
		return &rundir.Run{Program: "python", Script: "train.py", Session: "mine", Job: job, State: rundir.Ended, Started: time.UnixMicro(from), Seen: time.UnixMicro(to), ExitStatus: &failed}
	}
	step := func(number int64) *dftracer.Event {
		return &dftracer.Event{Phase: dftracer.PhaseComplete, PID: 11, TID: 11, HostHash: "h", Cat: "pipeline", Name: "train.iteration", TS: 5100 + number, Dur: 1, ID: uint64(100 + number),
			Args: []dftracer.Arg{dftracer.Int("step", number)}}
	}
	for name, c := range map[string]struct {
		first, second []int64 // steps of the files
		load          bool    // of a checkpoint, in the second
		sameRun       bool
	}{
		"the first file says so":       {[]int64{7}, nil, false, true},
		"the last does":                {nil, []int64{7}, false, true},
		"they do not begin with one":   {[]int64{0}, []int64{1}, false, false},
		"both go on":                   {[]int64{7}, []int64{8}, false, true},
		"the last loads a checkpoint":  {[]int64{0}, []int64{1}, true, true},
		"neither says a number at all": {nil, nil, false, false},
	} {
		agg := spanstats.New(&spanstats.Options{Starts: []*rundir.Run{start("1", 1000, 2000), start("2", 5000, 6000)}})
		tag := dftracer.String("session_tag", "mine")
		feed(agg, 10, "0", 1000, 900, tag, dftracer.String("job_id", "1"))
		feed(agg, 11, "0", 5000, 900, tag, dftracer.String("job_id", "2"))
		for _, n := range c.first {
			agg.Add(step(n))
		}
		agg.NextFile(nil)
		for _, n := range c.second {
			agg.Add(step(n))
		}
		if c.load {
			agg.Add(&dftracer.Event{Phase: dftracer.PhaseComplete, PID: 11, TID: 11, HostHash: "h", Cat: "checkpoint", Name: "load", TS: 5300, Dur: 5, ID: 300})
		}
		if p := agg.Result().Processes; len(p) != 2 || (p[1].Run == p[0].Run) != c.sameRun {
			t.Errorf("%s: processes %+v, want two, of the same run: %v", name, p, c.sameRun)
		}
	}
}

// TestBodiesOfIteratorsAreNoIO checks that the body of a loop over a loader
// does not count as loading.
func TestBodiesOfIteratorsAreNoIO(t *testing.T) {
	agg := spanstats.New(nil)
	for step := range int64(10) {
		at := 1000 + step*10_200
		agg.Add(complete("dataloader", "fetch.iter", 1, at, 200))
		agg.Add(complete("dataloader", "fetch.block", 1, at+200, 10_000))
		agg.Add(complete("dataloader", "loop.yield", 1, at+200, 10_000))
	}
	p := agg.Result().Processes[0]
	if p.IO != 2000 || p.IOStall != 2000 || p.Idle != 100_000 {
		t.Errorf("use %+v, want 2000 µs of I/O, all stalled, 100,000 idle", p.Use)
	}
}

// TestCopies checks that copies are a separate class, on devices and between
// them and the host.
func TestCopies(t *testing.T) {
	kind := func(k string) dftracer.Arg { return dftracer.String("kind", k) }
	agg := spanstats.New(nil)
	agg.Add(complete("device", "transfer", 1, 1000, 10))
	agg.Add(complete("PP", "Memcpy HtoD", 2, 1020, 10, kind("gpu_memcpy"), dftracer.String("class", "copy")))
	agg.Add(complete("PP", "Memset", 2, 1030, 10, kind("gpu_memset")))
	agg.Add(complete("PP", "symm_mem_copy", 2, 1040, 10, kind("gpu_memcpy"), dftracer.String("class", "comm")))
	agg.Add(complete("PP", "gemm", 2, 1050, 10, kind("kernel"), dftracer.String("class", "compute")))
	agg.Add(complete("PP", "cudaMemcpyAsync", 1, 1000, 60, kind("cuda_runtime"), dftracer.String("class", "copy")))
	p := agg.Result().Processes[0]
	if want := (spanstats.Use{Wall: 60, Compute: 10, Comm: 10, CommStall: 10, Copies: 30, Idle: 10}); p.Use != want {
		t.Errorf("%+v, want %+v", p.Use, want)
	}
}

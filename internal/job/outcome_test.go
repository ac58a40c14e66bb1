package job_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
)

// TestOutcome checks that starts and errors give one outcome, in any order.
func TestOutcome(t *testing.T) {
	base := time.Unix(1_700_000_000, 0).UTC()
	at := func(s float64) time.Time { return base.Add(time.Duration(s * 1e9)) }
	// A start from second 0, last seen at another second, as in a run.json.
	start := func(rank int, seen float64, end string) *rundir.Run {
		r := &rundir.Run{Version: 1, State: rundir.Ended}
		if err := json.Unmarshal([]byte(end), r); err != nil {
			t.Fatal(err)
		}
		r.Started, r.Seen, r.Host = base, at(seen), "a"
		if rank >= 0 {
			r.Rank = &rank
		}
		return r
	}
	asked := func(r *rundir.Run, signal string, s float64) *rundir.Run {
		when := at(s)
		r.Stopped, r.StoppedAt = signal, &when
		return r
	}
	inSlurm := func(r *rundir.Run, limit float64) *rundir.Run {
		when := at(limit)
		r.Scheduler, r.TimeLimit = "Slurm", &when
		return r
	}
	proc := func(rank int, fs ...job.Failure) *job.Process {
		return &job.Process{Rank: max(rank, 0), RankKnown: rank >= 0, PID: int64(100 + rank), Host: "a", Failures: fs}
	}
	trained := func(rank int, seen float64) *job.Process {
		p := proc(rank)
		p.Training, p.End, p.LastSeen = true, job.NoEnd, at(seen).UnixNano()
		return p
	}
	own := func(s float64, kind, text string) job.Failure {
		return job.Failure{Time: at(s).UnixNano(), Type: kind, Text: text, Rank: job.Unknown}
	}
	child := func(s float64, pid, rank, status int64) job.Failure {
		return job.Failure{Time: at(s).UnixNano(), Child: pid, Rank: rank, Status: status}
	}
	const (
		well, bad, killed = `{"ended_by":"exit","exit_status":0}`, `{"ended_by":"exit","exit_status":1}`, `{"ended_by":"signal","signal":"SIGKILL"}`
		term              = `{"ended_by":"signal","signal":"SIGTERM"}`
		memory            = `{"ended_by":"out_of_memory","signal":"SIGKILL","oom_kills":1}`
		elastic           = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
	)
	type starts = []*rundir.Run
	type procs = []*job.Process
	for name, c := range map[string]struct {
		starts starts
		procs  procs
		want   string
		how    job.How
	}{
		"nothing is known":                         {nil, procs{proc(0)}, "", ""},
		"well":                                     {starts{start(0, 9, well), start(1, 9, well)}, nil, "completed", job.Completed},
		"well after errors on the way":             {starts{start(-1, 9, well)}, procs{proc(0, own(3, "OSError", "OSError: x"))}, "completed", job.Completed},
		"a status":                                 {starts{start(-1, 9, bad)}, nil, "failed: status 1", job.Failed},
		"a status of one rank":                     {starts{start(0, 9, well), start(1, 9, bad)}, nil, "failed: rank 1, status 1", job.Failed},
		"an exception":                             {starts{start(-1, 9, bad)}, procs{proc(-1, own(8, "ValueError", "ValueError: x"))}, "failed: ValueError: x", job.Failed},
		"without trainspan run":                    {nil, procs{proc(2, own(8, "ValueError", "ValueError: x"))}, "failed: rank 2, ValueError: x", job.Failed},
		"the first of two":                         {starts{start(-1, 9, bad)}, procs{proc(0, own(8.1, "RuntimeError", "RuntimeError: later")), proc(1, own(8, "ValueError", "ValueError: x"))}, "failed: rank 1, ValueError: x, the first of 2 ranks that failed", job.Failed},
		"the others are ended":                     {starts{start(0, 8.2, term), start(1, 9, bad), start(2, 8.3, term)}, procs{proc(1, own(8, "ValueError", "ValueError: x"))}, "failed: rank 1, ValueError: x", job.Failed},
		"one is killed, others notice":             {starts{start(0, 9, bad), start(1, 9.1, killed)}, procs{proc(0, own(8, "RuntimeError", "RuntimeError: reset"))}, "ended by SIGKILL: rank 1, the first of 2 ranks that failed", job.Killed},
		"memory":                                   {starts{start(0, 9, killed), start(1, 9.1, memory)}, nil, "ended by SIGKILL: rank 0, the first of 2 ranks that failed", job.Killed},
		"memory alone":                             {starts{start(1, 9.1, memory), start(0, 9.2, term)}, nil, "out of memory: rank 1", job.OutOfMemory},
		"torchrun tells of a status":               {starts{start(-1, 9, bad)}, procs{proc(-1, own(8, elastic, elastic+": "), child(8, 101, 1, 3))}, "failed: rank 1, status 3", job.Failed},
		"torchrun tells of a kill":                 {starts{start(-1, 9, bad)}, procs{proc(0, own(7, "RuntimeError", "RuntimeError: reset")), proc(-1, own(8, elastic, elastic+": "), child(8, 101, 1, -9))}, "ended by SIGKILL: rank 1, the first of 2 ranks that failed", job.Killed},
		"a child that is known by its pid":         {starts{start(-1, 9, bad)}, procs{proc(1), proc(-1, own(8, "torch.multiprocessing.spawn.ProcessExitedException", "x"), child(8, 101, -1, 7))}, "failed: rank 1, status 7", job.Failed},
		"one says nothing, the other notices":      {starts{start(-1, 9, bad)}, procs{proc(0, own(7, "RuntimeError", "RuntimeError: Read error: Connection reset by peer")), proc(-1, own(8, elastic, elastic+": "), child(8, 101, 1, 7))}, "failed: rank 1, status 7", job.Failed},
		"one rank says nothing, the other notices": {starts{start(0, 8, bad), start(1, 9, bad)}, procs{proc(0, own(7, "RuntimeError", "RuntimeError: Connection reset by peer"))}, "failed: rank 1, status 1", job.Failed},
		"on two nodes":                             {starts{start(-1, 8, term), start(-1, 9, bad)}, nil, "failed: status 1", job.Failed},
		"the status of a shell":                    {starts{start(-1, 9, `{"ended_by":"exit","exit_status":137}`)}, nil, "failed: status 137 (SIGKILL of its child process)", job.Failed},
		"one ends without a word":                  {starts{start(-1, 9, `{"ended_by":"exit","exit_status":137}`)}, procs{trained(1, 8), proc(0, own(7, "RuntimeError", "RuntimeError: Broken pipe"))}, "ended without an end record: rank 1, last seen 2023-11-14 22:13:28 UTC", job.Killed},
		"two end without a word":                   {starts{start(-1, 9, bad)}, procs{trained(1, 8), trained(2, 8), proc(0, own(7, "RuntimeError", "RuntimeError: Broken pipe"))}, "failed: rank 0, RuntimeError: Broken pipe", job.Failed},
		"aborts after its exception":               {starts{start(-1, 9, bad)}, procs{proc(1, own(7, "ValueError", "ValueError: x")), proc(-1, own(8, elastic, elastic+": "), child(8, 101, 1, -6))}, "failed: rank 1, ValueError: x", job.Failed},
		"a launcher sees both at once":             {starts{start(-1, 9, bad)}, procs{proc(0, own(7, "RuntimeError", "RuntimeError: Connection closed by peer")), proc(-1, own(8, elastic, elastic+": "), child(8, 100, 0, 1), child(8, 101, 1, 7))}, "failed: rank 1, status 7", job.Failed},
		"a launcher sees the wrong one":            {starts{start(-1, 9, bad)}, procs{proc(0, own(7, "RuntimeError", "RuntimeError: Connection closed by peer")), trained(1, 6), proc(-1, own(8, "torch.multiprocessing.spawn.ProcessRaisedException", "RuntimeError: Connection closed by peer"), child(8, 100, -1, 1))}, "ended without an end record: rank 1, last seen 2023-11-14 22:13:26 UTC", job.Killed},
		"all notice":                               {starts{start(-1, 9, bad)}, procs{proc(0, own(7, "RuntimeError", "RuntimeError: Broken pipe")), proc(1, own(6, "RuntimeError", "RuntimeError: Connection closed by peer"))}, "failed: rank 1, RuntimeError: Connection closed by peer", job.Failed},
		"Ctrl-C":                                   {starts{asked(start(-1, 9, `{"ended_by":"signal","signal":"SIGINT"}`), "SIGINT", 8.9)}, procs{proc(0, own(8.95, "KeyboardInterrupt", "KeyboardInterrupt"))}, "stopped by Ctrl-C", job.Stopped},
		"Ctrl-C, by what Python says":              {nil, procs{proc(0, own(8.95, "KeyboardInterrupt", "KeyboardInterrupt"))}, "stopped by Ctrl-C", job.Stopped},
		"a scheduler":                              {starts{inSlurm(asked(start(-1, 9, term), "SIGTERM", 8), 5000)}, nil, "stopped by SIGTERM in a job of Slurm", job.Stopped},
		"its time limit":                           {starts{inSlurm(asked(start(-1, 9, `{"ended_by":"exit","exit_status":0}`), "SIGTERM", 8), 9)}, nil, "stopped by SIGTERM at the time limit of its job of Slurm", job.Stopped},
		"Slurm's signal is early":                  {starts{inSlurm(asked(start(-1, 9, term), "SIGTERM", 8), 8+120)}, nil, "stopped by SIGTERM at the time limit of its job of Slurm", job.Stopped},
		"too early for its time limit":             {starts{inSlurm(asked(start(-1, 9, term), "SIGTERM", 8), 8+181)}, nil, "stopped by SIGTERM in a job of Slurm", job.Stopped},
		"it failed, then all are ended":            {starts{start(1, 8.5, bad), asked(start(0, 9, term), "SIGTERM", 8.6)}, procs{proc(1, own(8, "ValueError", "ValueError: x"))}, "failed: rank 1, ValueError: x", job.Failed},
		"asked long before":                        {starts{asked(start(-1, 5000, bad), "SIGHUP", 8)}, nil, "failed: status 1", job.Failed},
		"still there":                              {starts{start(-1, 9, `{"state":"running"}`)}, nil, "running when it was last seen, 2023-11-14 22:13:29 UTC", job.Unfinished},
		"one rank is still there":                  {starts{start(0, 9, `{"state":"running"}`), start(1, 9, bad)}, nil, "failed: rank 1, status 1", job.Failed},
		"nobody saw it":                            {starts{start(-1, 9, `{"ended_by":"unknown"}`)}, nil, "ended, cause unknown: last seen 2023-11-14 22:13:29 UTC", job.Lost},
		"nobody saw it, but Python":                {starts{start(-1, 9, `{"ended_by":"unknown"}`)}, procs{proc(-1, own(8, "ValueError", "ValueError: x"))}, "failed: ValueError: x", job.Failed},
		"no such program":                          {starts{start(-1, 0, `{"ended_by":"not_started"}`)}, nil, "could not be started", job.NotStarted},
		"torchelastic's error file":                {starts{start(3, 9, `{"ended_by":"exit","exit_status":1,"error":"KeyError: 'x'"}`)}, nil, "failed: rank 3, KeyError: 'x'", job.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				o := job.OutcomeOf(c.starts, c.procs, nil)
				text, how := "", job.How("")
				if o != nil {
					text, how = o.Text, o.How
				}
				if text != c.want || how != c.how {
					t.Errorf("%s, %q; want %s, %q", how, text, c.how, c.want)
				}
				slices.Reverse(c.starts)
				slices.Reverse(c.procs)
			}
		})
	}
	raised := own(8, "ValueError", "ValueError: x")
	raised.Place, raised.Code = "train.py:7", "raise ValueError"
	if o := job.OutcomeOf(starts{start(1, 9, bad)}, procs{proc(0, own(8.5, "RuntimeError", "RuntimeError: later")), proc(1, raised)}, nil); o.ErrorAt != "train.py:7" || o.ErrorCode != "raise ValueError" {
		t.Errorf("error at %q, code %q; want train.py:7, raise ValueError", o.ErrorAt, o.ErrorCode)
	}
	o := job.OutcomeOf(starts{start(-1, 9, bad)}, procs{proc(-1, own(8, "ValueError", "ValueError: x"))}, nil)
	if got := o.Sentence(9e9); got != "Failed after 9.0 s: ValueError: x." {
		t.Errorf(`Sentence() = %q, want "Failed after 9.0 s: ValueError: x."`, got)
	}
	if o.Status == nil || *o.Status != 1 || o.At != at(9).UnixNano() || o.Error != "ValueError: x" {
		t.Errorf(`outcome %+v, want status 1 at 9 s, "ValueError: x"`, o)
	}
}

// TestFirstFailureByCorrectedClocks: the failures of ranks on two hosts are ordered by their corrected clocks.
func TestFirstFailureByCorrectedClocks(t *testing.T) {
	fails := func(rank int, host, kind string, at int64) *job.Process {
		return &job.Process{Rank: rank, RankKnown: true, Training: true, Host: host, Failures: []job.Failure{{Time: at, Type: kind, Text: kind, Rank: job.Unknown}}}
	}
	procs := []*job.Process{fails(0, "a", "RuntimeError", 100e9), fails(5, "b", "ValueError", 102e9)}
	for _, c := range []struct {
		clocks map[int]int64
		want   int
	}{{nil, 0}, {map[int]int64{0: 0, 5: -3e9}, 5}} {
		if o := job.OutcomeOf(nil, procs, c.clocks); o.Rank == nil || *o.Rank != c.want {
			t.Errorf("clocks %v: %s, want rank %d as the first", c.clocks, o.Text, c.want)
		}
	}
}

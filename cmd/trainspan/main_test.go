package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// TestMain defines the commands that the scripts in testdata/script run as
// separate processes.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"trainspan": func() { os.Exit(realMain()) },
		// status N ARGS... runs trainspan and fails unless its status is N.
		"status": func() {
			want, args := os.Args[1], os.Args[2:]
			got := run(context.Background(), args, ui.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Lookup: os.LookupEnv})
			if strconv.Itoa(got) != want {
				_, _ = fmt.Fprintf(os.Stderr, "status %d, want %s\n", got, want)
				os.Exit(1)
			}
		},
		// mktrace FILE makes a small trace of a job with known numbers. mktrace FILE
		// RANK PID HOST makes the trace of one rank.
		"mktrace": func() { check(makeTrace(os.Args[1:])) },
		// runjob WHAT runs a job for trainspan run.
		"runjob": func() { os.Exit(runJob(os.Args[1:])) },
		// cutoff FILE BYTES removes bytes at the end of a file.
		"cutoff": func() {
			n, err := strconv.ParseInt(os.Args[2], 10, 64)
			check(err)
			info, err := os.Stat(os.Args[1])
			check(err)
			check(os.Truncate(os.Args[1], info.Size()-n))
		},
	})
}

func check(err error) {
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			repo, err := filepath.Abs(filepath.Join("..", ".."))
			if err != nil {
				return err
			}
			env.Setenv("REPO", repo)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each of hundreds of processes would wait a second
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Getuid() == 0, nil
			case "full":
				_, err := os.Stat("/dev/full")
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// makeTrace writes two epochs of two steps. A step has, in microseconds, 100 of
// data loading, 400 of forward that include 50 of kernels, 300 of communication
// (100 overlap with computing on another lane), and 200 without spans. An epoch
// also has 150 of reading on a separate lane, always during computing.
func makeTrace(args []string) error {
	opts := dftracer.Options{Process: dftracer.Process{PID: 100, PPID: 1, Host: "node1", Exec: "train", Command: "train;-x", Dir: "/job"}}
	rank := 0
	if len(args) == 4 {
		var errRank, errPID error
		rank, errRank = strconv.Atoi(args[1])
		opts.Process.PID, errPID = strconv.Atoi(args[2])
		opts.Process.Host = args[3]
		if errRank != nil || errPID != nil {
			return fmt.Errorf("mktrace: %v %v", errRank, errPID)
		}
	}
	opts.Process.Rank = &rank
	w, err := dftracer.Create(args[0], &opts)
	if err != nil {
		return err
	}
	const second = int64(1_700_000_000_000_000)
	lane := int64(opts.Process.PID)
	file := w.Hash(tracefile.NameFileHash, "/data/train.bin")
	span := func(id uint64, cat, name string, tid, at, dur int64, level int, parent uint64, args ...dftracer.Arg) {
		w.Write(&dftracer.Event{ID: id, Cat: cat, Name: name, TID: tid, TS: second + at, Dur: dur, Level: level, Parent: int64(parent), Args: args})
	}
	root := w.NextID()
	for epoch := range int64(2) {
		e, block := dftracer.Int("epoch", epoch), w.NextID()
		for step := range int64(2) {
			at, it, s := epoch*2000+step*1000, w.NextID(), dftracer.Int("step", epoch*2+step)
			fwd := w.NextID()
			span(w.NextID(), "dataloader", "fetch.iter", lane, at, 100, 4, it, e, s)
			span(w.NextID(), "mine", "kernel \"α\"", lane, at+200, 50, 5, fwd, e, s)
			span(fwd, "compute", "forward", lane, at+100, 400, 4, it, e, s)
			span(w.NextID(), "comm", "all_reduce", lane, at+500, 300, 4, it, e, s)
			span(w.NextID(), "compute", "overlap", lane+1, at+500, 100, 4, it, e, s)
			span(it, "pipeline", "train.iteration", lane, at, 1000, 3, block, e, s)
		}
		span(w.NextID(), "POSIX", "read", lane+2, epoch*2000+450, 150, 3, block, e, tracefile.HashArg("fhash", file), dftracer.Int("ret", 4096))
		span(block, "pipeline", "epoch.block", lane, epoch*2000, 2000, 2, root, e)
	}
	span(root, "ai_root", "ai_root", lane, 0, 4000, 1, 0)
	return w.Close()
}

// cli runs a command line in this process.
func cli(t testing.TB, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(context.Background(), args, ui.Streams{Out: &out, Err: &errs})
	return status, out.String(), errs.String()
}

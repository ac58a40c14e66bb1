package run_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/run"
)

// nothing takes what a process recorded.
type nothing struct{}

func (nothing) Span(*run.Span)   {}
func (nothing) Event(*run.Event) {}
func (nothing) Close() error     { return nil }

// A process that was recorded in two ways at once counts once; a later process
// with its number is another one.
func TestOneProcessRecordedTwice(t *testing.T) {
	dir := t.TempDir()
	base := time.Unix(1_700_000_000, 0)
	write := func(name string, pid int, from, steps int) {
		begin := base.Add(time.Duration(from) * time.Second)
		w, err := dftracer.Create(filepath.Join(dir, name), &dftracer.Options{
			Start: begin, Process: dftracer.Process{PID: pid, Host: "h", SessionTag: "job"},
		})
		if err != nil {
			t.Fatal(err)
		}
		key := dftracer.NewKey("pipeline", "train.iteration")
		for i := range steps {
			w.WriteComplete(&key, dftracer.Span{TS: begin.Add(time.Duration(i) * time.Second).UnixMicro(), Dur: 900_000}, dftracer.Int("step", int64(i)))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write("own.pfw.gz", 7, 0, 10)
	write("profile.pfw.gz", 7, 3, 4)
	write("later.pfw.gz", 7, 100, 10)
	set, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := set.Read(func(*run.Process) run.Sink { return nothing{} })
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	j := jobs[0]
	if len(j.Processes) != 2 || len(j.Helpers) != 1 {
		t.Fatalf("%d processes and %d helpers", len(j.Processes), len(j.Helpers))
	}
	for i, p := range j.Processes {
		if p.Spans != 10 || p.Attempt != i+1 || p.Rank != 0 {
			t.Errorf("process %d is %+v", i, p)
		}
	}
}

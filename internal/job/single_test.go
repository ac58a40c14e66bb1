package job_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
)

// nothing ignores all records.
type nothing struct{}

func (nothing) Span(*job.Span)   {}
func (nothing) Event(*job.Event) {}
func (nothing) Close() error     { return nil }

// A process that was recorded in two ways at once counts once; a later process
// with its process id is another one.
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
	set, err := job.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := set.Read(func(*job.Process) job.Sink { return nothing{} })
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, want 1: %v", len(jobs), err)
	}
	j := jobs[0]
	if len(j.Processes) != 2 || len(j.Helpers) != 1 {
		t.Fatalf("%d processes, %d helpers; want 2, 1", len(j.Processes), len(j.Helpers))
	}
	for i, p := range j.Processes {
		if p.Spans != 10 || p.Attempt != i+1 || p.Rank != 0 {
			t.Errorf("process %d is %+v, want 10 spans, attempt %d, rank 0", i, p, i+1)
		}
	}
}

// One process is one record however many files it has: processor samples that
// begin before its first span take nothing from it.
func TestSamplesAreOfTheirProcess(t *testing.T) {
	sample := func(at int64) string {
		return fmt.Sprintf(`{"id":ID,"name":"cpu","cat":"resources","pid":7,"tid":7,"ts":%d,"ph":"C","args":{"hhash":"h","user_cores":1}}`, base+at)
	}
	var lines []string
	for k := range int64(5) {
		lines = append(lines, fmt.Sprintf(`{"id":%d,"name":"fetch.block","cat":"dataloader","pid":7,"tid":1,"ts":%d,"dur":50,"ph":"X","args":{"hhash":"h","level":1,"p_idx":-1}}`, 10+k, base+1500+100*k))
	}
	dir := files(t, map[string]string{
		"resources.pfw": process(3, 0, 2000, "", sample(1), sample(1000), sample(2100)),
		"trace-7.pfw":   process(7, 1500, 2000, "", lines...),
	})
	r := readAll(t, dir)
	if len(r.jobs) != 1 || len(r.jobs[0].Processes) != 1 {
		t.Fatalf("got %d jobs, want one of one process", len(r.jobs))
	}
	if p := r.jobs[0].Processes[0]; p.Spans != 5 || p.Steps.Count != 5 || len(p.Sources) != 2 {
		t.Errorf("the process has %d spans, %d steps, files %v; want 5, 5, and both files", p.Spans, p.Steps.Count, p.Sources)
	}
	for _, p := range r.jobs[0].Helpers {
		if p.PID == 7 {
			t.Errorf("samples are a process of their own: %v", p.Sources)
		}
	}
}

// A launcher without spans of its own that reports how a rank failed is used,
// even if samples of its processor cover more of its time.
func TestSamplesDoNotHideAFailure(t *testing.T) {
	sample := func(at int64) string {
		return fmt.Sprintf(`{"id":ID,"name":"cpu","cat":"resources","pid":7,"tid":7,"ts":%d,"ph":"C","args":{"hhash":"h","user_cores":1}}`, base+at)
	}
	failed := fmt.Sprintf(`{"id":10,"name":"CM","cat":"dftracer","pid":7,"tid":7,"ph":"M","args":{"hhash":"h","name":"error","value":"%d","failed_pid":8,"exit_status":7}}`, base+1600)
	dir := files(t, map[string]string{
		"resources.pfw": process(3, 0, 2000, "", sample(1), sample(1000), sample(2100)),
		"trace-7.pfw":   process(7, 1500, 1700, "", failed),
		"trace-8.pfw":   process(8, 200, 1500, "", fmt.Sprintf(`{"id":10,"name":"train.iteration","cat":"pipeline","pid":8,"tid":1,"ts":%d,"dur":50,"ph":"X","args":{"hhash":"h","level":1,"p_idx":-1,"step":0}}`, base+300)),
	})
	r := readAll(t, dir)
	if len(r.jobs) != 1 {
		t.Fatalf("got %d jobs, want 1", len(r.jobs))
	}
	var got []job.Failure
	for _, p := range append(r.jobs[0].Processes, r.jobs[0].Helpers...) {
		got = append(got, p.Failures...)
	}
	if len(got) != 1 || got[0].Child != 8 || got[0].Status != 7 {
		t.Errorf("Failures = %+v, want status 7 of process 8", got)
	}
}

// A profile of a few steps does not replace the steps of the same process that came by OTLP.
func TestProfileOfAProcessOfOTLP(t *testing.T) {
	const row = `{"id":%d,"name":"aten::mm","cat":"pp","pid":77,"tid":1,"ts":%d,"dur":9,"ph":"X","args":{"hhash":"h","level":1,"p_idx":-1}}`
	const host = `{"id":2,"name":"HH","cat":"dftracer","pid":77,"tid":1,"ph":"M","args":{"hhash":"h","name":"n1","value":"h"}}`
	var steps []string
	for i := range int64(10) {
		steps = append(steps, otlpSpan(fmt.Sprint(i+1), "", "training_single_iteration", 10*i, 10*i+9))
	}
	at := otlpStart * 1e6
	profile := fmt.Sprintf(`{"id":1,"name":"start","cat":"dftracer","pid":77,"tid":1,"ts":%d,"dur":0,"ph":"X","args":{"hhash":"h","level":1,"p_idx":-1,"rank":3}}`+"\n"+host+"\n"+row+"\n"+row+"\n", at+20e6, 3, at+21e6, 4, at+22e6)
	r := readAll(t, files(t, map[string]string{"a.otlp.jsonl": otlpLine(steps...), "prof.pfw": profile}))
	var got []string
	for _, j := range r.jobs {
		for _, p := range j.Processes {
			got = append(got, fmt.Sprint(p.Steps.Count, p.Exported))
		}
	}
	if len(got) != 1 || got[0] != "10 true" {
		t.Errorf("processes with steps %v, want one with 10 that were sent", got)
	}
}

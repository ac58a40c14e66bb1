package job_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
)

// A stop without a time is ignored: the span ends with the stop that has one.
func TestStopWithoutATime(t *testing.T) {
	const ms = base / 1000
	start := fmt.Sprintf(`{"type":"start","id":"5","name":"training_loop","start_event":{"attributes":{"timestamp_msec":%d}},"count":1,"pid":4}`, ms)
	stop := fmt.Sprintf(`{"type":"stop","id":"5","name":"training_loop","stop_event":{"attributes":{"timestamp_msec":%d}},"count":2,"pid":4}`, ms+7)
	none := `{"type":"stop","id":"5","name":"training_loop","stop_event":{"attributes":{}},"count":3,"pid":4}`
	r := readAll(t, files(t, map[string]string{"a.jsonl": strings.Join([]string{none, start, none, stop, none, ""}, "\n")}))
	p := r.jobs[0].Processes[0]
	if got := r.sinks[p].spans; len(got) != 1 || got[0].Start != ms*1e6 || got[0].End != (ms+7)*1e6 || p.Aside != 0 {
		t.Errorf("spans %+v, %d aside; want one of 7 ms from %d, none", got, p.Aside, int64(ms*1e6))
	}
}

// Applications that had one process id one after the other are separate
// processes, each with the events of its time.
func TestOneNumberTwice(t *testing.T) {
	const ms = base / 1000
	span := func(id, name string, from, to int64) string {
		return fmt.Sprintf(`{"type":"complete","id":%q,"name":%q,"start_event":{"attributes":{"timestamp_msec":%d}},"stop_event":{"attributes":{"timestamp_msec":%d}},"count":1,"pid":4}`+"\n", id, name, ms+from, ms+to)
	}
	r := readAll(t, files(t, map[string]string{"a.jsonl": span("1", "application", 0, 100) + span("2", "training_loop", 10, 20) +
		span("3", "application", 200, 300) + span("4", "training_loop", 210, 220) + span("5", "validation_loop", 230, 240)}))
	var got []string
	for _, j := range r.jobs {
		for _, p := range j.Processes {
			got = append(got, fmt.Sprintf("%d to %d: %d", p.Start/1e6-ms, p.LastSeen/1e6-ms, len(r.sinks[p].spans)))
		}
	}
	if want := []string{"0 to 100: 2", "200 to 300: 3"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A host has its name in the trace, or its hash if there is no name. A file
// that is read again because of a wrong clock has its processes once.
func TestHostsAndFilesReadAgain(t *testing.T) {
	named := `{"id":ID,"name":"HH","cat":"dftracer","pid":PID,"tid":1,"ph":"M","args":{"hhash":"h","name":"node-7","value":"h"}}`
	var wrong strings.Builder // most of the file is far from its begin
	for i := range int64(99) {
		wrong.WriteString(at(int(100+i), 5, 5))
	}
	var right strings.Builder
	for i := range int64(100) {
		right.WriteString(at(int(1000+i), base+i*1000, 900))
	}
	for name, c := range map[string]struct{ text, host string }{
		"named":      {process(7, 0, 500, "", app, named), "node-7"},
		"not named":  {process(7, 0, 500, "", app), "h"},
		"read again": {"[\n" + wrong.String() + right.String(), "h"},
	} {
		r := readAll2(t, files(t, map[string]string{"a.pfw": c.text}))
		if len(r.jobs) != 1 || len(r.jobs[0].Processes) != 1 {
			t.Errorf("%s: %d jobs of %v, want one of one process", name, len(r.jobs), describe(r.jobs[0]))
		} else if p := r.jobs[0].Processes[0]; p.Host != c.host {
			t.Errorf("%s: the host is %q, want %q", name, p.Host, c.host)
		}
	}
	set, err := job.Open(files(t, map[string]string{"a.pfw": "[\n" + wrong.String() + right.String()}))
	if err != nil {
		t.Fatal(err)
	}
	procs, err := set.Processes(func(*job.Process) job.Sink { return nothing{} })
	if err != nil || len(procs) != 1 {
		t.Errorf("%d processes, %v; want 1", len(procs), err)
	}
}

// The time of an evaluation over a loader is not part of the step after it.
func TestStepsAroundEvaluations(t *testing.T) {
	p := newProgram()
	p.batch()
	for range 2 {
		p.span("dataloader/fetch.iter", 3)
		p.span("dataloader/fetch.block", 1, func() { p.span("compute/forward", 10) })
	}
	p.batch()
	p.batch()
	p.steps(t, 0, 35, 63, 98, 98, 133)
}

// A single process whose records contradict each other is reported, whichever
// it is.
func TestContradictionIsReported(t *testing.T) {
	for odd := range 3 {
		var procs []*job.Process
		for i := range 2 {
			p := &job.Process{}
			p.Steps.Contradiction = i == odd
			procs = append(procs, p)
		}
		_, remarks := job.StepRules(procs)
		if told := len(remarks) > 0; told != (odd < 2) {
			t.Errorf("process %d: remarks %q, want some for 0 and 1 only", odd, remarks)
		}
	}
}

package report_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
)

// digested returns the job of a directory after a round trip through a digest.
func digested(t *testing.T, dir string) *report.Job {
	t.Helper()
	s, err := report.Load(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := s.WriteDigest(&file); err != nil {
		t.Fatal(err)
	}
	if s, err = report.ReadDigest(&file); err != nil {
		t.Fatal(err)
	}
	return s.Jobs()[0]
}

// The outcome of an attempt and the evidence about resources come from run.json.
func TestStarts(t *testing.T) {
	dir := t.TempDir()
	base := time.Unix(1_700_000_000, 0).UTC()
	for n := range 2 {
		begin := base.Add(time.Duration(n) * time.Minute)
		w, err := dftracer.Create(filepath.Join(dir, fmt.Sprintf("trace%d.pfw.gz", n)), &dftracer.Options{
			Start: begin, Process: dftracer.Process{PID: 100 + n, Attempt: &n, SessionTag: "job"},
		})
		if err != nil {
			t.Fatal(err)
		}
		key := dftracer.NewKey("pipeline", "train.iteration")
		for i := range 10 {
			at := begin.Add(time.Duration(i) * time.Second)
			w.WriteComplete(&key, dftracer.Span{TS: at.UnixMicro(), Dur: 900_000}, dftracer.Int("step", int64(i)))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		file := func(name, format string, args ...any) {
			text := fmt.Sprintf(`{"version":1,"state":"ended","started":%q,"seen":%q,`, begin.Format(time.RFC3339Nano), begin.Add(10*time.Second).Format(time.RFC3339Nano)) + fmt.Sprintf(format, args...)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if n == 0 {
			file("run.json", `"session_tag":"job","host":"a","rank":1,"ended_by":"signal","signal":"SIGTERM"}`)
			file("run.run2.json", `"session_tag":"job","host":"b","rank":0,"ended_by":"out_of_memory","signal":"SIGKILL","evidence":["memory grows 40 MB a minute"]}`)
			file("run.run3.json", `"session_tag":"another","host":"c","ended_by":"out_of_memory","evidence":["of another job"]}`)
		} else {
			file("run.run4.json", `"session_tag":"job","host":"a","ended_by":"exit","exit_status":0}`)
			file("run.run5.json", `not JSON`)
		}
	}
	set, err := job.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := report.Read(set)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("read %d jobs, want 1: %v", len(jobs), err)
	}
	r := report.Build(jobs[0])
	if through := report.Build(digested(t, dir)); !reflect.DeepEqual(through.Evidence, r.Evidence) || !reflect.DeepEqual(through.Attempts[0].Outcome, r.Attempts[0].Outcome) {
		t.Errorf("report through a digest: evidence %q, attempts %+v; want those of the report without", through.Evidence, through.Attempts)
	}
	if len(r.Attempts) != 2 || r.Attempts[0].Outcome.Text != "out of memory: rank 0" || r.Attempts[1].Outcome.How != job.Completed || r.Outcome != r.Attempts[1].Outcome {
		t.Errorf("attempts %+v, want rank 0 out of memory, then completed", r.Attempts)
	}
	if next := r.Verdict.Next; len(next) == 0 || strings.HasPrefix(next[0], "give the job more memory") { // the run continued
		t.Errorf("Next = %q, want advice, first not to give the job more memory", next)
	}
	if len(r.Evidence) != 1 || !strings.HasPrefix(r.Evidence[0], "b, rank 0, ") {
		t.Errorf(`evidence %q, want one that begins with "b, rank 0, "`, r.Evidence)
	}
	if first := strings.Join(r.First(80), "\n"); !strings.Contains(first, "Resources  b, rank 0") || !strings.Contains(strings.Join(strings.Fields(first), " "), "memory grows 40 MB a minute") {
		t.Errorf("the first screen has no line about the growing memory:\n%s", first)
	}
	var screen bytes.Buffer
	if err := report.Full(&screen, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"DOWN  ", "out of memory: rank 0", "RESOURCES", "memory grows 40 MB a minute"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("no %q on the screen\n%s", want, screen.String())
		}
	}
}

// TestBadLoss checks that the first screen names the step from which on the loss is NaN or
// infinite, also from a digest, unless a later loss is finite.
func TestBadLoss(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		losses []float64
		arg    string // name of the step argument; if empty, the event is named metric
		want   string
	}{
		"numbers":   {losses: []float64{3, 2, 1, 0.5}},
		"none":      {},
		"NaN":       {losses: []float64{3, 2, nan, nan}, want: "Loss NaN or infinite from step 2 to the last one on record"},
		"infinite":  {losses: []float64{3, 2, 1, inf}, want: "Loss NaN or infinite from step 3 to the last one on record"},
		"again":     {losses: []float64{3, nan, 1, inf, inf}, want: "Loss NaN or infinite from step 3 to the last one on record"},
		"recovered": {losses: []float64{3, nan, nan, 0.5}},
		"of steps":  {losses: []float64{3, 2, nan, nan}, arg: "loss", want: "Loss NaN or infinite from step 2 to the last one on record"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			w, err := dftracer.Create(filepath.Join(dir, "trace.pfw.gz"), &dftracer.Options{Start: time.Unix(1_700_000_000, 0), Process: dftracer.Process{PID: 100, SessionTag: "job"}})
			if err != nil {
				t.Fatal(err)
			}
			step, metric := dftracer.NewKey("pipeline", "train.iteration"), dftracer.NewKey("metric", "metric")
			for i := range 10 {
				at, args := time.Unix(1_700_000_000+int64(i), 0).UnixMicro(), []dftracer.Arg{dftracer.Int("step", int64(i))}
				if i < len(c.losses) && c.arg != "" {
					args = append(args, dftracer.Float(c.arg, c.losses[i]))
				} else if i < len(c.losses) {
					w.WriteComplete(&metric, dftracer.Span{TS: at + 800_000}, dftracer.Int("step", int64(i)), dftracer.Float("loss", c.losses[i]))
				}
				w.WriteComplete(&step, dftracer.Span{TS: at, Dur: 900_000}, args...)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			set, err := job.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			jobs, err := report.Read(set)
			if err != nil {
				t.Fatal(err)
			}
			for from, j := range map[string]*report.Job{"trace": jobs[0], "digest": digested(t, dir)} {
				got := strings.Join(strings.Fields(strings.Join(report.Build(j).First(80), " ")), " ")
				if is := strings.Contains(got, "Loss "); is != (c.want != "") || !strings.Contains(got, c.want) {
					t.Errorf("from a %s the screen is %q, want %q on it", from, got, c.want)
				}
			}
		})
	}
}

// If no step was recorded, and an imported framework needs changes in the program, the action
// names the page with these changes, also from a digest.
func TestFrameworkWithoutSteps(t *testing.T) {
	for name, want := range map[string]string{
		`"xgboost"`:     "record the training steps: xgboost was imported, and trainspan help recipes has the lines for it",
		`"jax","keras"`: "record the training steps: jax and keras were imported, and trainspan help recipes has the lines for it",
		``:              "record the training steps: a span for each iteration, or the loop over the data loader",
	} {
		dir, begin := t.TempDir(), time.Unix(1_700_000_000, 0).UTC()
		w, err := dftracer.Create(filepath.Join(dir, "trace.pfw.gz"), &dftracer.Options{Start: begin, Process: dftracer.Process{PID: 100, SessionTag: "job"}})
		if err != nil {
			t.Fatal(err)
		}
		key := dftracer.NewKey("span", "generate")
		w.WriteComplete(&key, dftracer.Span{TS: begin.UnixMicro(), Dur: 900_000})
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"version":1,"state":"ended","started":%q,"seen":%q,"session_tag":"job","host":"a","ended_by":"exit","exit_status":0,"frameworks":[%s]}`,
			begin.Format(time.RFC3339Nano), begin.Add(time.Second).Format(time.RFC3339Nano), name)
		if err := os.WriteFile(filepath.Join(dir, "run.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		set, err := job.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := report.Read(set)
		if err != nil || len(jobs) != 1 {
			t.Fatalf("read %d jobs, want 1: %v", len(jobs), err)
		}
		for _, j := range []*report.Job{jobs[0], digested(t, dir)} {
			if got := report.Build(j).Verdict.Next; len(got) == 0 || got[0] != want {
				t.Errorf("%s: next is %q, want %q", name, got, want)
			}
		}
	}
}

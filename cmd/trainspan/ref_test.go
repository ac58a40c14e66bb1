package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
)

// makeRuns makes four starts below trainspan-runs in the working directory, an
// hour apart: train.1, train.2, then train.3, which continues train.2, and
// eval.1. The last but one still runs.
func makeRuns(t *testing.T) {
	t.Helper()
	now := time.Now()
	for i, s := range []struct {
		name    string
		attempt int
		failed  bool
		key     string
		running bool
	}{{"train", 0, false, "a", false}, {"train", 1, true, "b", false}, {"train", 2, false, "b", false}, {"eval", 0, false, "c", true}, {"last", 0, false, "d", false}} {
		at := now.Add(time.Duration(i-8) * time.Hour).Truncate(time.Microsecond)
		where, err := rundir.Wanted{Name: s.name, Attempt: -1, Host: "h", PID: 10 + i}.Make()
		if err != nil {
			t.Fatal(err)
		}
		if where.Attempt != s.attempt {
			t.Fatalf("attempt %d, want %d", where.Attempt, s.attempt)
		}
		w, err := dftracer.Create(filepath.Join(where.Dir, "trace.pfw.gz"), &dftracer.Options{
			Start: at, Process: dftracer.Process{PID: 100 + i, Host: "h", Attempt: &s.attempt, SessionTag: s.name, JobID: s.key},
		})
		if err != nil {
			t.Fatal(err)
		}
		key := dftracer.NewKey("pipeline", "train.iteration")
		for n := range 10 {
			w.WriteComplete(&key, dftracer.Span{TS: at.Add(time.Duration(n) * time.Second).UnixMicro(), Dur: 900_000}, dftracer.Int("step", int64(n)))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		end, status := at.Add(10*time.Second), 0
		if s.failed {
			status = 1
		}
		r := &rundir.Run{
			Name: s.name, Session: s.name, Job: s.key, Key: s.key, Start: fmt.Sprint(s.attempt), Attempt: s.attempt, Program: "python", Host: "h", PID: 10 + i,
			State: rundir.Ended, EndedBy: rundir.ByExit, ExitStatus: &status, Started: at, Seen: end, Ended: &end,
		}
		if s.running {
			r.State, r.EndedBy, r.ExitStatus, r.Ended, r.Seen = rundir.Running, "", nil, nil, time.Now()
		}
		file, _, err := rundir.CreateFile(where.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Write(r); err != nil {
			t.Fatal(err)
		}
	}
}

// references are what users may write, with the run that each means or a part
// of the error.
var references = []struct{ ref, run, refused string }{
	{"", "eval.1", ""}, // the one that runs
	{"latest", "eval.1", ""},
	{"latest~0", "eval.1", ""},
	{"latest~1", "last.1", ""},
	{"latest~2", "train.2", ""},
	{"latest~3", "train.1", ""},
	{"latest~4", "", "latest~4: there is no such file or run"},
	{"latest~x", "", "latest~x: there is no such file or run"},
	{"train", "train.2", ""},
	{"train~1", "train.1", ""},
	{"train.1", "train.1", ""},
	{"train.2", "train.2", ""},
	{"train.3", "train.2", ""}, // attempt 3 is the second of train.2
	{"train.4", "", "train.4: there is no such file or run; did you mean train."},
	{"trian.1", "", "trian.1: there is no such file or run; did you mean train."},
	{"eval", "eval.1", ""},
	{"eval.1", "eval.1", ""},
	{"last.1", "last.1", ""},
	{"trainspan-runs/train/attempt-1", "train.1", ""},
	{"trainspan-runs/eval/attempt-?", "eval.1", ""},
	{"trainspan-runs/none", "", "trainspan-runs/none: there is no such file"},
	{"profiles/", "profiles", ""},
	{"profiles/rank?.json", "profiles", ""},
}

// TestReferences checks that each command that reads resolves each reference to
// the same run, and refuses words for no run or file with the same error.
func TestReferences(t *testing.T) {
	t.Chdir(t.TempDir())
	makeRuns(t)
	if err := os.Mkdir("profiles", 0o700); err != nil {
		t.Fatal(err)
	}
	writeProfile(t, "profiles/rank0.json", 2026, 0, 200)
	writeProfile(t, "profiles/rank1.json", 2026, 1, 201)
	pid := map[string]string{"train.1": "100", "train.2": "101", "eval.1": "103", "last.1": "104", "profiles": "201"}
	out := filepath.Join(t.TempDir(), "out")
	for command, args := range map[string][]string{
		"report": {"--json"}, "trace summary": {"--json"}, "trace info": {"--json"}, "trace steps": {"--csv"}, "trace events": {"--json", "--metadata"}, "trace validate": nil,
		"trace digest": {"-o", out, "--force"}, "trace merge": {"-o", out + ".pfw", "--force"}, "trace convert": nil, "open": nil, "top": nil, "alert": nil, "compare": {"train.1"},
	} {
		for _, r := range references {
			t.Run(command+" "+r.ref, func(t *testing.T) {
				line := strings.Fields(command)
				if r.ref != "" {
					line = append(line, r.ref)
				}
				if command == "trace convert" {
					line = append(line, "--to", "parquet", "-o", filepath.Join(t.TempDir(), "lake"), "--run", "x")
				}
				if r.refused == "" && (command == "open" || command == "top" || command == "alert" || command == "compare") {
					return // these do not end, draw on a terminal, or take two; they resolve like the others
				}
				status, said, wrong := cli(t, append(line, args...)...)
				switch {
				case r.run == "profiles" && command == "trace digest": // a digest has accounts, and a profile has none
					if status != ui.StatusUse || !strings.Contains(wrong, "which trainspan trace import reads") {
						t.Errorf("status %d, %q, want %d and that trainspan trace import reads profiles", status, wrong, ui.StatusUse)
					}
				case r.run == "profiles" && command == "trace validate": // it would validate what it made itself
					if status == ui.StatusOK || r.ref == "profiles/" && !strings.Contains(wrong, "make one with trainspan trace import profiles/") {
						t.Errorf("status %d, %q, want the command that makes a trace", status, wrong)
					}
				case r.refused != "" && (command == "top" || command == "open" || command == "alert"):
					if status != ui.StatusUse {
						t.Errorf("status %d, want %d: %s", status, ui.StatusUse, wrong)
					}
				case r.refused != "":
					if status != ui.StatusUse || !strings.Contains(wrong, r.refused) {
						t.Errorf("status %d, %q, want %d and %q", status, wrong, ui.StatusUse, r.refused)
					}
				case status != ui.StatusOK:
					t.Errorf("status %d: %s", status, wrong)
				case command == "trace summary" || command == "trace info" || command == "trace events":
					if !strings.Contains(said, pid[r.run]) {
						t.Errorf("process %s of %s is not in %s", pid[r.run], r.run, said)
					}
				}
			})
		}
	}
}

// TestIDsAgree checks that commands accept the id in the list, whatever
// characters the name of the job has.
func TestIDsAgree(t *testing.T) {
	t.Chdir(t.TempDir())
	for i, name := range []string{"org/llm:7b", "学習 v2", "a*b"} {
		n, at := 0, time.Date(2026, 3, 1+i, 10, 0, 0, 0, time.UTC)
		where, err := rundir.Wanted{Name: name, Attempt: -1, Host: "h", PID: 10 + i}.Make()
		if err != nil {
			t.Fatal(err)
		}
		w, err := dftracer.Create(filepath.Join(where.Dir, "trace.pfw.gz"), &dftracer.Options{Start: at, Process: dftracer.Process{PID: 100 + i, Host: "h", Attempt: &n, SessionTag: name, JobID: name}})
		if err != nil {
			t.Fatal(err)
		}
		key := dftracer.NewKey("pipeline", "train.iteration")
		for k := range 10 {
			w.WriteComplete(&key, dftracer.Span{TS: at.Add(time.Duration(k) * time.Second).UnixMicro(), Dur: 900_000}, dftracer.Int("step", int64(k)))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		rows := lines[runRow](t, "runs", "--json")
		refs, err := read.Resolve(t.Context(), []string{rows[0].ID})
		if err != nil || refs[0].Run != rows[0].ID || rows[0].ID != rundir.Clean(name)+".1" || rows[0].Job != rundir.Clean(name) {
			t.Errorf("%q is listed as %q of %q, and resolved to %+v, %v", name, rows[0].ID, rows[0].Job, refs, err)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Chdir(t.TempDir())
	makeRuns(t)
	for _, r := range references {
		var args []string
		if r.ref != "" {
			args = []string{r.ref}
		}
		refs, err := read.Resolve(context.Background(), args)
		switch path := strings.Contains(r.ref, "/"); {
		case path:
			if err != nil || refs[0].Run != "" || refs[0].Name() != r.ref {
				t.Errorf("Resolve(%q) = %+v, %v, want the path", r.ref, refs, err)
			}
		case r.refused != "":
			if err == nil || !strings.Contains(err.Error(), r.refused) {
				t.Errorf("Resolve(%q) = %+v, %v, want %q", r.ref, refs, err, r.refused)
			}
		case err != nil || refs[0].Run != r.run:
			t.Errorf("Resolve(%q) = %+v, %v, want %s", r.ref, refs, err, r.run)
		}
	}
	if err := os.Mkdir("eval", 0o700); err != nil {
		t.Fatal(err)
	}
	if refs, err := read.Resolve(context.Background(), []string{"eval"}); err != nil || refs[0].Run != "" {
		t.Errorf("a folder with the name of a run: %+v, %v", refs, err)
	}
}

// TestTopFollows checks that without an argument top switches to a newer run,
// and shows the running one of several in one folder.
func TestTopFollows(t *testing.T) {
	t.Chdir(t.TempDir())
	makeRuns(t)
	r, err := newTopReader(t.Context(), nil, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.read(t.Context(), true); got.report == nil || r.name() != "eval.1" {
		t.Errorf("top shows %q, %+v, want eval.1", r.name(), got)
	}
	where, err := rundir.Wanted{Name: "newer", Attempt: -1, Host: "h", PID: 1}.Make()
	if err != nil {
		t.Fatal(err)
	}
	file, _, err := rundir.CreateFile(where.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Write(&rundir.Run{Name: "newer", State: rundir.Running, Started: time.Now(), Seen: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if got := r.read(t.Context(), false); r.name() != "newer.1" || got.waiting == "" {
		t.Errorf("top shows %q, %+v, want newer.1, and that it is waited for", r.name(), got)
	}
}

// TestRefusedWithoutRuns checks that a wrong name is refused with the same
// words if no run is recorded.
func TestRefusedWithoutRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, command := range []string{"report", "open", "top", "trace summary"} {
		line := append(strings.Fields(command), "none")
		if status, _, wrong := cli(t, line...); status != ui.StatusUse || !strings.Contains(wrong, "none: there is no such file or run; ") {
			t.Errorf("%s: status %d, %q, want %d and that there is no such file or run", command, status, wrong, ui.StatusUse)
		}
	}
}

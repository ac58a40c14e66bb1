package main

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// makeRuns makes five starts below trainspan-runs in the working directory, at
// intervals of an hour: train.1, train.2, which fails, attempt 3 of train, which
// continues train.2, eval.1, which is still running, and last.1.
func makeRuns(t *testing.T) {
	t.Helper()
	now := time.Now()
	for i, r := range []madeRun{
		{"train", 0, false, "a", false, 0}, {"train", 1, true, "b", false, 0}, {"train", 2, false, "b", false, 0}, {"eval", 0, false, "c", true, 0}, {"last", 0, false, "d", false, 0},
	} {
		r.write(t, i, now.Add(time.Duration(i-8)*time.Hour))
	}
}

// madeRun is an attempt of a run, written by a test.
type madeRun struct {
	name    string
	attempt int
	failed  bool
	key     string // attempts with the same key are one run
	running bool
	first   int // number of the first step
}

// write writes the attempt below trainspan-runs: ten steps from at on, by the
// process with number i.
func (m *madeRun) write(t *testing.T, i int, at time.Time) {
	t.Helper()
	m.record(t, m.begin(t, i, at), i, at)
}

// begin makes the folder of the attempt, with a run.json, and returns it.
func (m *madeRun) begin(t *testing.T, i int, at time.Time) (dir string) {
	t.Helper()
	at = at.Truncate(time.Microsecond)
	where, err := rundir.Wanted{Name: m.name, Attempt: -1, Host: "h", PID: 10 + i}.Make()
	if err != nil {
		t.Fatal(err)
	}
	if where.Attempt != m.attempt {
		t.Fatalf("attempt %d, want %d", where.Attempt, m.attempt)
	}
	end, status := at.Add(10*time.Second), 0
	if m.failed {
		status = 1
	}
	r := &rundir.Run{
		Name: m.name, Session: m.name, Job: m.key, Key: m.key, Start: fmt.Sprint(m.attempt), Attempt: m.attempt, Program: "python", Host: "h", PID: 10 + i,
		State: rundir.Ended, EndedBy: rundir.ByExit, ExitStatus: &status, Started: at, Seen: end, Ended: &end,
	}
	if m.running {
		r.State, r.EndedBy, r.ExitStatus, r.Ended, r.Seen = rundir.Running, "", nil, nil, whileTested()
	}
	file, _, err := rundir.CreateFile(where.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Write(r); err != nil {
		t.Fatal(err)
	}
	return where.Dir
}

// record writes the trace of the attempt.
func (m *madeRun) record(t *testing.T, dir string, i int, at time.Time) {
	t.Helper()
	at = at.Truncate(time.Microsecond)
	w, err := dftracer.Create(filepath.Join(dir, "trace.pfw.gz"), &dftracer.Options{
		Start: at, Process: dftracer.Process{PID: 100 + i, Host: "h", Attempt: &m.attempt, SessionTag: m.name, JobID: m.key},
	})
	if err != nil {
		t.Fatal(err)
	}
	key := dftracer.NewKey("pipeline", "train.iteration")
	for n := range 10 {
		w.WriteComplete(&key, dftracer.Span{TS: at.Add(time.Duration(n) * time.Second).UnixMicro(), Dur: 900_000}, dftracer.Int("step", int64(m.first+n)))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// whileTested returns a time at which a run was seen that goes on until the test is over, however long
// that takes: a run that nobody has seen for half a minute is over.
func whileTested() time.Time { return time.Now().Add(time.Hour) }

// Targets of references that are not runs.
const (
	aProfile = "profile" // the folder of profiles, or all profiles in it
	aDigest  = "digest"
	nothing  = "nothing" // all commands refuse it
)

// references has references that users may write, with the run that each means, by the id of its
// first process, or another meaning, and a part of the error if it is refused.
var references = []struct{ ref, run, refused string }{
	{"", "eval.1", ""}, // the one that runs
	{"latest", "eval.1", ""},
	{"latest~0", "eval.1", ""},
	{"latest~1", "last.1", ""},
	{"latest~2", "train.2", ""},
	{"latest~3", "train.1", ""},
	{"latest~4", nothing, "latest~4: there is no such file or run"},
	{"latest~x", nothing, "latest~x: there is no such file or run"},
	{"train", "train.2", ""},
	{"train~1", "train.1", ""},
	{"train.1", "train.1", ""},
	{"train.2", "train.2", ""},
	{"train.3", "train.2", ""}, // attempt 3 is the second of train.2
	{"train.4", nothing, "train.4: there is no such file or run; did you mean train."},
	{"trian.1", nothing, "trian.1: there is no such file or run; did you mean train."},
	{"eval", "eval.1", ""},
	{"eval.1", "eval.1", ""},
	{"last.1", "last.1", ""},
	{"trainspan-runs/train/attempt-1", "train.1", ""},
	{"trainspan-runs/train/attempt-1/h-10/trace.pfw.gz", "train.1", ""},
	{"trainspan-runs/eval/attempt-?", "eval.1", ""},
	{"trainspan-runs/none", nothing, "trainspan-runs/none: there is no such file"},
	{"trainspan-runs/none*", nothing, "trainspan-runs/none*: no file matches; check the pattern"},
	{"profiles/", aProfile, "trainspan trace import"},
	{"profiles/rank?.json", aProfile, "trainspan trace import"},
	{"profiles/rank0.json", aProfile, "trainspan trace import"},
	{"profiles.tar", aProfile, "trainspan trace import"},
	{"run.digest", aDigest, "run.digest: not a trace: a digest (it has no spans: name the traces that it was made of"},
	{"digests/", aDigest, "digests/profile.digest: not a trace: a digest (it has no spans: name the traces that it was made of"},
	{"notes.txt", nothing, "notes.txt: not a trace: it begins with \"nothing\"; see trainspan help a-file-is-not-a-trace"},
	{"empty/", nothing, "empty/: found no trace in this directory; name another one"},
}

// makeReferences makes the runs and files of references.
func makeReferences(t *testing.T) {
	t.Helper()
	makeRuns(t)
	for _, dir := range []string{"profiles", "digests", "empty"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeProfile(t, "profiles/rank0.json", 2026, 0, 200)
	writeProfile(t, "profiles/rank1.json", 2026, 1, 201)
	archive, err := os.Create("profiles.tar")
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(archive)
	if err := errors.Join(w.AddFS(os.DirFS("profiles")), w.Close(), archive.Close(), os.WriteFile("notes.txt", []byte("nothing"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"train.1", "-o", "run.digest"}, {"profiles", "-o", "digests/profile.digest"}} {
		if status, _, wrong := cli(t, append([]string{"trace", "digest"}, args...)...); status != ui.StatusOK {
			t.Fatalf("digest of %s: status %d, want %d: %s", args[0], status, ui.StatusOK, wrong)
		}
	}
}

// TestReferences checks that each reading command resolves each reference to the same run, profile
// or digest, or refuses it with the same message, which has a remedy.
func TestReferences(t *testing.T) {
	t.Chdir(t.TempDir())
	makeReferences(t)
	pid := map[string]string{"train.1": "100", "train.2": "101", "eval.1": "103", "last.1": "104", aProfile: "200"}
	out := filepath.Join(t.TempDir(), "out")
	// The inputs of a command: any means spans and digests, spans all files with spans, lines only traces, runs all but profiles.
	const any, spans, lines, runs = "any", "spans", "lines", "runs"
	readers := []struct{ command, reads, args string }{
		{"report", any, "--json"},
		{"compare", any, "--json"},
		{"alert", any, ""},
		{"top", any, ""},
		{"runs", runs, "--json"},
		{"trace digest", any, "--force -o " + out},
		{"open", spans, "--no-browser --port 0"},
		{"trace summary", spans, "--json"},
		{"trace info", spans, "--json"},
		{"trace steps", spans, "--csv"},
		{"trace events", spans, "--json --metadata"},
		{"trace merge", spans, "--force -o " + out + ".pfw"},
		{"trace split", spans, "--force -o " + out + ".pieces"},
		{"trace convert", spans, "--to parquet --run x --force -o " + out + ".lake"},
		{"trace validate", lines, ""},
		{"trace recover", lines, ""},
	}
	root := newRoot(ui.New(ui.Streams{Out: io.Discard, Err: io.Discard}))
	trace, _, err := root.Find([]string{"trace"})
	if err != nil {
		t.Fatal(err)
	}
	// These read no run: they record one, or take the files of other programs.
	others := []string{"run", "demo", "help", "version", "completion", "trace", "trace import", "trace watch", "trace replay"}
	for _, cmd := range append(root.Commands(), trace.Commands()...) {
		name := strings.TrimPrefix(cmd.CommandPath(), "trainspan ")
		if in := slices.ContainsFunc(readers, func(c struct{ command, reads, args string }) bool { return c.command == name }); !cmd.Hidden && in == slices.Contains(others, name) {
			t.Errorf("%s is in the table: %v, want every command that reads runs and no other", name, in)
		}
	}
	for i, c := range readers {
		for j, r := range references {
			if testing.Short() && (i+j)%2 != 0 { // each command and each reference is in some pair
				continue
			}
			t.Run(c.command+" "+r.ref, func(t *testing.T) {
				line := append(strings.Fields(c.command), strings.Fields(c.args)...)
				switch {
				case r.ref == "" && (c.command == "compare" || c.command == "trace recover" || c.command == "trace split"):
					t.Skip("it takes a name, not what happens to be the newest")
				case c.command == "compare":
					line = append(line, "train.1")
				case c.command == "trace recover" && r.run == "eval.1":
					t.Skip("its program may still run")
				case c.command == "trace split" && r.run == "train.2" && !strings.Contains(r.ref, "/"):
					t.Skip("it has two traces, and split takes one")
				case r.ref == "empty/" && (c.command == "alert" || c.command == "top"):
					t.Skip("they wait for what a job will write there")
				}
				if r.ref != "" {
					line = append(line, r.ref)
				}
				refused := r.run == nothing || r.run == aDigest && c.reads != any && c.reads != runs || r.run == aProfile && (c.reads == lines || c.reads == runs)
				status, said, wrong := 0, "", ""
				if c.command == "alert" || c.command == "top" {
					status, said, wrong = firstReading(t, c.command, line, refused)
				} else if c.command == "open" && !refused {
					status, said = openOnce(t, line)
				} else {
					status, said, wrong = cli(t, line...)
				}
				switch {
				case r.ref == "notes.txt" && c.command == "trace validate":
					if status != ui.StatusData || !strings.Contains(said, "not a trace") {
						t.Errorf("status %d, %s, want the problems of each line", status, said)
					}
				case r.ref == "notes.txt" && c.command == "trace recover":
					if status != ui.StatusUse || !strings.Contains(wrong, "notes.txt: not a trace: it has no record; nothing was changed") {
						t.Errorf("status %d, %q, want that nothing was changed", status, wrong)
					}
				case refused:
					if status != ui.StatusUse || !strings.Contains(wrong, r.refused) {
						t.Errorf("status %d, %q, want %d and %q", status, wrong, ui.StatusUse, r.refused)
					}
				case c.command == "compare": // its status depends on the number of steps
					if !strings.Contains(said, `"kind"`) || strings.Contains(wrong, "trainspan: "+r.ref) {
						t.Errorf("status %d, want a diagnosis and no complaint about the reference: %s%s", status, said, wrong)
					}
				case status != ui.StatusOK:
					t.Errorf("status %d, want 0: %s", status, wrong)
				case c.command == "runs" && pid[r.run] != "" && r.run != aProfile && r.ref != "":
					if strings.Count(said, `"id":`) != 1 || !strings.Contains(said, `"id":"`+r.run+`"`) {
						t.Errorf("%s, want %s alone", said, r.run)
					}
				case c.command == "trace summary" || c.command == "trace info" || c.command == "trace events":
					if !strings.Contains(said, pid[r.run]) {
						t.Errorf("want process %s of %s, got %s", pid[r.run], r.run, said)
					}
				case c.command == "report" && pid[r.run] != "" && r.run != aProfile && !strings.Contains(r.ref, "/"):
					if !strings.Contains(said, `"name": "`+r.run+`"`) {
						t.Errorf("%s is not the name in %.200s, want %q in it", r.run, said, `"name": "`+r.run+`"`)
					}
				}
			})
		}
	}
}

// firstReading runs a command that does not end by itself up to its first
// reading.
func firstReading(t *testing.T, command string, line []string, refused bool) (status int, said, wrong string) {
	t.Helper()
	if refused {
		if command == "alert" {
			line = append(line, "--exec", "true")
		}
		return cli(t, line...)
	}
	r, err := newTopReader(t.Context(), line[1:], time.Second)
	if err != nil {
		return ui.StatusUse, "", err.Error()
	}
	if got := r.read(t.Context(), true); got.report == nil {
		return ui.StatusData, "", fmt.Sprintf("nothing is shown: %q, %v", got.waiting, got.err)
	}
	return ui.StatusOK, r.name(), ""
}

// openOnce runs open until it has printed the link.
func openOnce(t *testing.T, line []string) (status int, link string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, line, ui.Streams{Out: in, Err: io.Discard})
		_ = in.Close()
	}()
	link, _ = bufio.NewReader(out).ReadString('\n')
	cancel()
	return <-ended, link
}

// TestIDsAgree checks that commands accept the ids of the list, whatever characters the name of the
// job has.
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
			t.Errorf("%q is listed as %q of job %q and resolves to %+v, %v; want one ID for both", name, rows[0].ID, rows[0].Job, refs, err)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Chdir(t.TempDir())
	makeReferences(t)
	for _, r := range references {
		var args []string
		if r.ref != "" {
			args = []string{r.ref}
		}
		refs, err := read.Resolve(context.Background(), args)
		_, missing := os.Lstat(r.ref)
		switch path := strings.Contains(r.ref, "/") || missing == nil; {
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
		t.Errorf("Resolve of a directory with the name of a run: %+v, %v; want the directory", refs, err)
	}
}

// TestTopFollows checks that top without an argument switches to a newer run,
// and shows the one that is running if a folder has several.
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
	if err := file.Write(&rundir.Run{Name: "newer", State: rundir.Running, Started: time.Now(), Seen: whileTested()}); err != nil {
		t.Fatal(err)
	}
	if got := r.read(t.Context(), false); r.name() != "newer.1" || got.waiting == "" {
		t.Errorf("top shows %q, %+v, want newer.1, and that it is waited for", r.name(), got)
	}
}

// TestTopFollowsARestart checks that top shows the restart of a run, whether
// the run is named or not, and whether a launcher or the steps show that it is one.
func TestTopFollowsARestart(t *testing.T) {
	for name, c := range map[string]struct {
		args     string
		keys     [2]string // of the two attempts
		first    int       // step of the restart
		want     string
		attempts int
	}{
		"a launcher, by id":        {"train.1", [2]string{"a", "a"}, 0, "train.1", 2},
		"a launcher, by job":       {"train", [2]string{"a", "a"}, 0, "train.1", 2},
		"a launcher, the newest":   {"", [2]string{"a", "a"}, 0, "train.1", 2},
		"the steps, by id":         {"train.1", [2]string{"a", "b"}, 8, "train.1", 2},
		"the steps, the newest":    {"latest", [2]string{"a", "b"}, 8, "train.1", 2},
		"another run, by id":       {"train.1", [2]string{"a", "b"}, 0, "train.1", 1},
		"another run, the newest":  {"", [2]string{"a", "b"}, 0, "train.2", 1},
		"the run before stays one": {"latest~0", [2]string{"a", "b"}, 0, "train.1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			start := time.Now().Add(-time.Hour)
			(&madeRun{name: "train", failed: true, key: c.keys[0]}).write(t, 0, start)
			var args []string
			if c.args != "" {
				args = []string{c.args}
			}
			r, err := newTopReader(t.Context(), args, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			clock := time.Now()
			r.now = func() time.Time { return clock }
			next := func(force bool) topReading { // resolving runs in a row is limited
				clock = clock.Add(10 * time.Minute)
				return r.read(t.Context(), force)
			}
			if got := r.read(t.Context(), true); got.report == nil || r.name() != "train.1" || len(got.report.Attempts) != 1 {
				t.Fatalf("top shows %q, %+v, want one attempt of train.1", r.name(), got)
			}
			// A start appears, records that it began, and then its steps.
			second := &madeRun{name: "train", attempt: 1, key: c.keys[1], running: true, first: c.first}
			at := start.Add(10 * time.Minute)
			where := second.begin(t, 1, at)
			next(false)
			if err := os.WriteFile(filepath.Join(where, "other.log"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			next(false)
			second.record(t, where, 1, at)
			unchanged := c.want == "train.1" && c.attempts == 1
			got := next(unchanged)
			if got.report == nil || r.name() != c.want || len(got.report.Attempts) != c.attempts {
				t.Errorf("top shows %q, %+v, want %d attempts of %s", r.name(), got, c.attempts, c.want)
			}
			if got := r.read(t.Context(), false); !got.same || got.rest != r.interval || len(r.open) > 0 {
				t.Errorf("read without changes: %+v, open %q; want same, and nothing that has to be resolved again", got, r.open)
			}
		})
	}
}

// TestTopFollowsARestartInAFolder checks that the restart of a named run with a folder of
// trainspan run --dir is seen when its steps show that it continues the run.
func TestTopFollowsARestartInAFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := filepath.Join("trainspan-runs", "x")
	begun := time.Now().Add(-time.Hour)
	write := func(n, first, steps int, end string) {
		t.Helper()
		at := begun.Add(time.Duration(n) * 10 * time.Minute)
		trace := filepath.Join(dir, fmt.Sprintf("trace%d.pfw.gz", n))
		if err := os.RemoveAll(trace); err != nil {
			t.Fatal(err)
		}
		w, err := dftracer.Create(trace, &dftracer.Options{Start: at, Process: dftracer.Process{PID: 100 + n, Attempt: &n, SessionTag: "x", JobID: string(rune('a' + n))}})
		if err != nil {
			t.Fatal(err)
		}
		key := dftracer.NewKey("pipeline", "train.iteration")
		for i := range steps {
			w.WriteComplete(&key, dftracer.Span{TS: at.Add(time.Duration(i+1) * time.Second).UnixMicro(), Dur: 900_000}, dftracer.Int("step", int64(first+i)))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"version":1,"session_tag":"x","job":%q,"program":"python","script":"t.py","started":%q,"seen":%q,%s}`,
			string(rune('a'+n)), at.Format(time.RFC3339Nano), at.Add(12*time.Second).Format(time.RFC3339Nano), end)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("run.run%d.json", n+2)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(0, 0, 10, `"state":"ended","ended_by":"signal","signal":"SIGKILL"`)
	r, err := newTopReader(t.Context(), []string{"x.1"}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Now()
	r.now = func() time.Time { return clock }
	next := func() topReading {
		clock = clock.Add(10 * time.Minute)
		return r.read(t.Context(), true)
	}
	if got := next(); got.report == nil || len(got.report.Attempts) != 1 {
		t.Fatalf("top shows %+v, want one attempt", got)
	}
	write(1, 0, 0, `"state":"running"`)
	next()
	write(1, 7, 5, `"state":"running"`)
	if got := next(); got.report == nil || r.name() != "x.1" || len(got.report.Attempts) != 2 {
		t.Errorf("top shows %q, %+v, want two attempts of x.1", r.name(), got)
	}
}

// TestTopFollowsFolders checks that the newest run is the latest one, not the
// first that was recorded, if all runs have a folder of trainspan run --dir.
func TestTopFollowsFolders(t *testing.T) {
	t.Chdir(t.TempDir())
	job := func(tag string, start time.Time) {
		t.Helper()
		makeJob(t, filepath.Join("trainspan-runs", tag), simjob.Attempt{Ranks: 1, Steps: 40, Tag: tag, Start: start})
	}
	job("a", noon.Add(-2*time.Hour))
	job("b", noon.Add(-time.Hour))
	r, err := newTopReader(t.Context(), nil, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.read(t.Context(), true); got.report == nil || r.name() != "b.1" {
		t.Errorf("top shows %q, %+v, want b.1", r.name(), got)
	}
	job("c", noon)
	if got := r.read(t.Context(), false); got.report == nil || r.name() != "c.1" {
		t.Errorf("top shows %q, %+v, want c.1", r.name(), got)
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

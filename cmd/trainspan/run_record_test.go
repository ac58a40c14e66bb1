//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/internal/tracefile"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestRunAttempts checks that starts that continue a failed one are attempts of
// one run, and that repeated steps count as lost work. A start after a success
// is a new run.
func TestRunAttempts(t *testing.T) {
	dir := t.TempDir()
	for i, args := range [][]string{{"10", "0", "fail"}, {"10", "5", "fail"}, {"10", "15"}, {"10", "0"}} {
		s := prepare(t, dir, append([]string{"--name", "job", "--", "runjob", "train"}, args...)...)
		if status := s.finish(); status != len(args)-2 {
			t.Fatalf("start %d: status %d, want %d: %s", i, status, len(args)-2, s.err.String())
		}
		if i == 2 && (!strings.Contains(s.err.String(), "5 steps repeated") || !strings.Contains(s.err.String(), "after 2 restarts") && !strings.Contains(s.err.String(), "in attempt 3")) {
			t.Errorf("report of attempt 3: want 5 steps repeated after 2 restarts, got %s", s.err.String())
		}
		if i == 3 && (strings.Contains(s.err.String(), "Restart ") || !strings.Contains(s.err.String(), "10")) {
			t.Errorf("report of another run: want 10 steps and no restart, got %s", s.err.String())
		}
	}
	for i := range 3 {
		r, at := theRun(t, filepath.Join(dir, rundir.Root, "job", fmt.Sprintf("attempt-%d", i+1)))
		if r.Attempt != i || r.Name != "job" {
			t.Errorf("attempt %d: run.json is %+v, want this attempt of job", i, r)
		}
		for _, name := range []string{"trace.pfw.gz", "telemetry.jsonl", "resources.pfw.gz", "report.html"} {
			if _, err := os.Stat(filepath.Join(at, name)); err != nil {
				t.Error(err)
			}
		}
	}
	s := prepare(t, dir, "--name", "job", "--attempt", "1", "--quiet", "--", "true")
	if status := s.finish(); status != 0 {
		t.Fatalf("status %d, want 0: %s", status, s.err.String())
	}
	joined, _ := filepath.Glob(filepath.Join(dir, rundir.Root, "job", "attempt-2", "*", rundir.FileName))
	if len(joined) != 2 {
		t.Errorf("attempt 1 has %v, want 2", joined)
	}
}

// TestRunLeavesOtherPages checks that a foreign page in the directory is not
// changed, not even through a link, and that an earlier page of trainspan is
// replaced.
func TestRunLeavesOtherPages(t *testing.T) {
	for name, put := range map[string]func(path, victim string) error{
		"file": func(path, _ string) error { return os.WriteFile(path, []byte("<!doctype html> precious"), 0o600) },
		"link": func(path, victim string) error { return os.Symlink(victim, path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			victim, page, ours := filepath.Join(dir, "victim"), filepath.Join(dir, "out", "report.html"), filepath.Join(dir, "out", "report.run2.html")
			if err := errors.Join(os.Mkdir(filepath.Dir(page), 0o700), os.WriteFile(victim, []byte("<!doctype html> precious"), 0o600), put(page, victim)); err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				s := prepare(t, dir, "--dir", "out", "--no-resources", "--", "runjob", "train", "10", "0")
				if status := s.finish(); status != 0 {
					t.Fatalf("status %d, want 0: %s", status, s.err.String())
				}
				for _, path := range []string{victim, page} {
					if text, err := os.ReadFile(path); err != nil || string(text) != "<!doctype html> precious" {
						t.Errorf("start %d: %s contains %.40q, %v; want the page of the user as before", i, path, text, err)
					}
				}
				if text, err := os.ReadFile(ours); err != nil || !bytes.Contains(text, []byte(`content="trainspan"`)) {
					t.Errorf("start %d: the report page is %.40q, %v; want one of trainspan", i, text, err)
				}
			}
			if more, _ := filepath.Glob(filepath.Join(dir, "out", "report.run3*")); len(more) > 0 {
				t.Errorf("there is %v, want none", more)
			}
		})
	}
}

// TestRunJoinsByJobID checks that processes of one start of a launcher share an
// attempt, and that another start has a separate one.
func TestRunJoinsByJobID(t *testing.T) {
	dir := t.TempDir()
	start := func(env ...string) *started {
		s := prepare(t, dir, "--name", "job", "--quiet", "--no-resources", "--", "true")
		s.Env = append(s.Env, env...)
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	attempts := func() map[string]int {
		n := make(map[string]int)
		paths, _ := filepath.Glob(filepath.Join(dir, rundir.Root, "job", "attempt-*", "*", rundir.FileName))
		for _, path := range paths {
			n[filepath.Base(filepath.Dir(filepath.Dir(path)))]++
		}
		return n
	}
	for _, env := range [][]string{{"SLURM_JOB_ID=7"}, {"SLURM_JOB_ID=7", "SLURM_RESTART_COUNT=1"}, {"SLURM_JOB_ID=8"}} {
		var all []*started
		for rank := range 4 {
			all = append(all, start(append(env, fmt.Sprintf("SLURM_PROCID=%d", rank), "SLURM_NTASKS=4")...))
		}
		for _, s := range all {
			if err := s.Wait(); err != nil {
				t.Errorf("trainspan run: %v: %s", err, s.err.String())
			}
		}
	}
	if got := fmt.Sprint(attempts()); got != "map[attempt-1:4 attempt-2:4 attempt-3:4]" {
		t.Errorf("attempts are %s, want \"map[attempt-1:4 attempt-2:4 attempt-3:4]\"", got)
	}
}

// TestRunJoinsByLauncher checks a launcher like torchrun, which sets ranks but
// by default no job id: processes that it starts together share an attempt, and
// restarted ones have another attempt.
func TestRunJoinsByLauncher(t *testing.T) {
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const launcher = `for round in 1 2 3; do
		for rank in 0 1 2; do RANK=$rank TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=$((round / 3)) trainspan run --name job -q --no-resources -- true & done
		wait
	done`
	cmd := exec.Command("sh", "-c", launcher)
	tmp := "TMPDIR=" + t.TempDir()
	cmd.Dir, cmd.Env = dir, append(clean(bin), tmp)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v, output %s; want no error and no output", err, out)
	}
	settled(t, tmp)
	paths, _ := filepath.Glob(filepath.Join(dir, rundir.Root, "job", "attempt-*", "*", rundir.FileName))
	ranks, ids := make(map[int][]int), make(map[string]bool)
	for _, path := range paths {
		r, err := rundir.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		ids[r.Job] = true
		ranks[r.Attempt] = append(ranks[r.Attempt], *r.Rank)
		slices.Sort(ranks[r.Attempt])
	}
	if got := fmt.Sprint(ranks); got != "map[0:[0 1 2] 1:[0 1 2] 2:[0 1 2]]" || len(ids) != 1 {
		t.Errorf("ranks by attempt %s, jobs %v; want ranks 0 to 2 in three attempts of one job", got, ids)
	}
}

// TestRunUnpacksTheClientSomewhere checks that the client is unpacked to a
// usable folder if TMPDIR is relative, does not exist, or contains a colon.
func TestRunUnpacksTheClientSomewhere(t *testing.T) {
	for name, tmp := range map[string]string{"relative": "tmp", "missing": "/no-such-folder", "a colon": "a:b"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, d := range []string{"tmp", "a:b"} {
				if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			s := prepare(t, dir, "-q", "--", "sh", "-c", `cd /; cat "${PYTHONPATH%%:*}/sitecustomize.py"; for d in $(echo "$TRAINSPAN_RING" | tr : ' '); do ls -d "$d"; done`)
			s.tmp = "TEST_DIR=" + dir // settle finds the telemetry process by this variable
			s.Env = append(s.Env, "TMPDIR="+tmp, s.tmp)
			if status := s.finish(); status != 0 || s.err.Len() > 0 || !strings.Contains(s.out.String(), "sys.path") {
				t.Errorf("status %d, output %q, stderr %q; want 0 and the sys.path of the client", status, s.out.String(), s.err.String())
			}
		})
	}
}

// TestRunNested checks that a trainspan run under another one does not record,
// and that only the outer one does.
func TestRunNested(t *testing.T) {
	dir := t.TempDir()
	s := prepare(t, dir, "--quiet", "--", "trainspan", "run", "--", "trainspan", "run", "sh", "-c", "exit 6")
	if status := s.finish(); status != 6 {
		t.Errorf("status %d, want 6: %s", status, s.err.String())
	}
	theRun(t, dir)
}

// TestRunBelowAnother checks that trainspan run records if the variable names a
// process that is not a trainspan run: a process that outlives its trainspan
// run keeps the variable, and the process id may be reused.
func TestRunBelowAnother(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := prepare(t, dir, "--quiet", "--", "true")
	s.Env = append(s.Env, fmt.Sprintf("TRAINSPAN_RUN=%s:%d", host, os.Getpid()), "RANK=first")
	if status := s.finish(); status != 0 {
		t.Errorf("status %d, want 0: %s", status, s.err.String())
	}
	if r, _ := theRun(t, dir); len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "RANK") {
		t.Errorf("problems %q, want one about RANK", r.Problems)
	}
}

// TestRunReceivesOTLP checks that spans are received by either protocol, and a
// job of this library does not count twice.
func TestRunReceivesOTLP(t *testing.T) {
	dir := t.TempDir()
	s := prepare(t, dir, "--otlp", "--", "sh", "-c", "runjob send http 5; OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=${OTEL_EXPORTER_OTLP_TRACES_ENDPOINT%/v1/traces} runjob send grpc 7; runjob train 10 0")
	if status := s.finish(); status != 0 {
		t.Fatalf("status %d, want 0: %s%s", status, s.out.String(), s.err.String())
	}
	r, at := theRun(t, dir)
	if o := r.OTLP; o == nil || o.Own == 0 || o.Spans != 6+8+o.Own || o.Refused+o.Rejected != 0 {
		t.Errorf("run.json has OTLP %+v, want 14 spans of the job, its own, none refused", r.OTLP)
	}
	steps := make(map[int]int)
	paths, _ := filepath.Glob(filepath.Join(at, "otlp-*.pfw.gz"))
	for _, path := range paths {
		steps[dftest.Check(t, path).Counts["pipeline/train.iteration/X"]]++
	}
	if fmt.Sprint(steps) != "map[5:1 7:1]" { // each process has a separate file, although the resources have no process ids
		t.Errorf("%v have steps %v, want steps 5 and 7 once each", paths, steps)
	}
	own, _ := filepath.Glob(filepath.Join(at, "trace*.pfw.gz"))
	if len(own) != 1 {
		t.Errorf("the job's own files are %v, want one", own)
	}
	if strings.Contains(s.err.String(), "telemetry could not deliver") {
		t.Errorf("stderr reports undelivered telemetry: %s", s.err.String())
	}
}

// TestRunForwards checks that received spans are forwarded to the user's
// backend, with its headers, and counted.
func TestRunForwards(t *testing.T) {
	var spans atomic.Int64
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req collectorpb.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &req) != nil || r.Header.Get("Authorization") != "token" || r.URL.Path != "/v1/traces" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, rs := range req.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				spans.Add(int64(len(ss.GetSpans())))
			}
		}
	}))
	defer backend.Close()
	dir := t.TempDir()
	s := prepare(t, dir, "--quiet", "--forward", backend.URL, "--", "sh", "-c", "runjob send http 5; runjob train 3 0")
	s.Env = append(s.Env, "OTEL_EXPORTER_OTLP_HEADERS=authorization=token")
	if status := s.finish(); status != 0 {
		t.Fatalf("status %d, want 0: %s%s", status, s.out.String(), s.err.String())
	}
	r, _ := theRun(t, dir)
	if f := r.Forward; f == nil || f.Lost != 0 || f.Sent != f.Spans || f.Sent != r.OTLP.Spans || f.Sent != spans.Load() || f.Sent <= 6 {
		t.Errorf("run.json has %+v of %+v, the backend got %d; want all spans forwarded and received", r.Forward, r.OTLP, spans.Load())
	}
	backend.Close()
	s = prepare(t, t.TempDir(), "--forward", backend.URL, "--", "runjob", "send", "http", "5")
	if status := s.finish(); status != 0 || !strings.Contains(s.err.String(), "6 of 6 spans were not forwarded") {
		t.Errorf("status %d, want 0 and 6 spans not forwarded: %s%s", status, s.out.String(), s.err.String())
	}
	// An error is reported without the contents, and the spans are recorded.
	for _, endpoint := range []string{backend.URL + "?key=hunter2", "http://user:hunter2@backend:4318", "no endpoint"} {
		dir := t.TempDir()
		s = prepare(t, dir, "--forward", endpoint, "--", "runjob", "send", "http", "5")
		if status := s.finish(); status != 0 || !strings.Contains(s.err.String(), "cannot forward spans") && !strings.Contains(s.err.String(), "spans were not forwarded") {
			t.Errorf("%s: status %d, want 0 and a message about spans not forwarded: %s%s", endpoint, status, s.out.String(), s.err.String())
		}
		r, at := theRun(t, dir)
		text, err := os.ReadFile(filepath.Join(at, rundir.FileName))
		if err != nil || bytes.Contains(text, []byte("hunter2")) || strings.Contains(s.err.String(), "hunter2") {
			t.Errorf("%s: the password is in run.json %s (%v) or in stderr %s", endpoint, text, err, s.err.String())
		}
		if r.OTLP == nil || r.OTLP.Spans != 6 {
			t.Errorf("%s: run.json has OTLP %+v, want 6 spans", endpoint, r.OTLP)
		}
	}
}

// TestRunSendsTheOutcome checks that a receiver gets the metrics of the ended
// job, when the files are complete.
func TestRunSendsTheOutcome(t *testing.T) {
	dir := t.TempDir()
	outcome, state := "", ""
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var req metricspb.ExportMetricsServiceRequest
		body, err := io.ReadAll(r.Body)
		if err != nil || proto.Unmarshal(body, &req) != nil {
			t.Errorf("%s: not a request with metrics", r.URL.Path)
		}
		for _, rm := range req.GetResourceMetrics() {
			for _, m := range rm.GetScopeMetrics()[0].GetMetrics() {
				if m.GetName() == "training.outcome" {
					outcome = m.GetGauge().GetDataPoints()[0].GetAttributes()[0].GetValue().GetStringValue()
				}
			}
		}
		run, at := theRun(t, dir)
		state = string(run.State)
		dftest.Check(t, filepath.Join(at, "resources.pfw.gz"))
	}))
	defer backend.Close()
	s := prepare(t, dir, "--quiet", "--metrics", backend.URL, "--", "runjob", "train", "3", "0", "fail")
	if status := s.finish(); status != 1 || s.err.Len() != 0 {
		t.Fatalf("status %d, want 1 and no message: %s", status, s.err.String())
	}
	if outcome != "failed" || state != string(rundir.Ended) {
		t.Errorf("the last request has the outcome %q in the state %q, want failed, ended", outcome, state)
	}
}

// TestRunImportsProfiles checks that profiles of this start are imported, those
// of earlier ones are not.
func TestRunImportsProfiles(t *testing.T) {
	dir := t.TempDir()
	const profile = `{"schemaVersion":1,"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","pid":100,"tid":100,"ts":1778000000000000,"dur":1000,"args":{"External id":1}},
{"ph":"X","cat":"cpu_op","name":"aten::add","pid":100,"tid":100,"ts":1778000000000100,"dur":10,"args":{"External id":2}}
],"traceName":"x"}`
	prof := filepath.Join(dir, "prof")
	if err := os.Mkdir(prof, 0o755); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(prof, "old.pt.trace.json")
	for n, path := range []string{old, filepath.Join(dir, "new")} {
		if err := os.WriteFile(path, fmt.Appendf(nil, profile, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if other := time.Now().Add(time.Hour); os.Chtimes(old, other, other) != nil { // the clock of a file server may differ
		t.Fatal("Chtimes failed")
	}
	s := prepare(t, dir, "--quiet", "--profiles", "prof", "--", "sh", "-c", "cat new > prof/new.pt.trace.json; head -c 200 new > prof/cut.pt.trace.json; date > prof/events.out.tfevents.1")
	if status := s.finish(); status != 0 || s.err.Len() != 0 {
		t.Fatalf("status %d, want 0 and no message: %s", status, s.err.String())
	}
	r, at := theRun(t, dir)
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "cut.pt.trace.json: not imported") {
		t.Errorf("problems %q, want one about cut.pt.trace.json", r.Problems)
	}
	counts := dftest.Check(t, filepath.Join(at, "profiles.pfw.gz")).Counts
	if counts["pipeline/train.iteration/X"] != 1 {
		t.Errorf("counts %v, want one train.iteration", counts)
	}
	if left, _ := filepath.Glob(filepath.Join(prof, ".*")); len(left) != 0 {
		t.Errorf("%v were left in the directory of the profiler, want none", left)
	}
	// Of the commands that share the directory, one imports.
	const write = "cat new > prof/$LOCAL_RANK.pt.trace.json"
	for rank, n := range []int{1, 0} {
		dir := t.TempDir()
		prof := filepath.Join(dir, "prof")
		if err := errors.Join(os.Mkdir(prof, 0o755), os.WriteFile(filepath.Join(dir, "new"), fmt.Appendf(nil, profile, 1), 0o600)); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			f, err := os.Open(prof)
			if err != nil || !fswrite.Lock(f) {
				t.Fatalf("cannot lock %s: %v", prof, err)
			}
			defer f.Close()
		}
		s := prepare(t, dir, "--quiet", "--profiles", "prof", "--", "sh", "-c", write)
		s.Env = append(s.Env, "WORLD_SIZE=2", fmt.Sprint("RANK=", rank), fmt.Sprint("LOCAL_RANK=", rank))
		if status := s.finish(); status != 0 || s.err.Len() != 0 {
			t.Fatalf("rank %d: status %d, want 0 and no message: %s", rank, status, s.err.String())
		}
		_, at := theRun(t, dir)
		if paths, _ := filepath.Glob(filepath.Join(at, "profiles.pfw.gz")); len(paths) != n {
			t.Errorf("local rank %d has %q, want %d", rank, paths, n)
		}
	}
	// When that one ends, the next one continues.
	dir = t.TempDir()
	prof = filepath.Join(dir, "prof")
	if err := errors.Join(os.Mkdir(prof, 0o755), os.WriteFile(filepath.Join(dir, "new"), fmt.Appendf(nil, profile, 1), 0o600)); err != nil {
		t.Fatal(err)
	}
	holder, err := os.Open(prof)
	if err != nil || !fswrite.Lock(holder) {
		t.Fatalf("cannot lock %s: %v", prof, err)
	}
	s = prepare(t, dir, "--quiet", "--profiles", "prof", "--", "sh", "-c", "touch begun; until [ -e go ]; do sleep 0.01; done; "+write)
	s.Env = append(s.Env, "WORLD_SIZE=2", "RANK=1", "LOCAL_RANK=1")
	s.Cmd.Stdout = &s.out
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	until.True(t, "the start of the command", func() bool { _, err := os.Stat(filepath.Join(dir, "begun")); return err == nil })
	if err := errors.Join(holder.Close(), os.WriteFile(filepath.Join(dir, "go"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if status := s.status(s.Wait()); status != 0 || s.err.Len() != 0 {
		t.Fatalf("after the end of the importer: status %d, want 0 and no message: %s", status, s.err.String())
	}
	_, at = theRun(t, dir)
	if counts := dftest.Check(t, filepath.Join(at, "profiles.pfw.gz")).Counts; counts["pipeline/train.iteration/X"] != 1 {
		t.Errorf("after the end of the importer: counts %v, want one train.iteration", counts)
	}
	if states, _ := filepath.Glob(filepath.Join(filepath.Dir(at), "profiles-*.json")); len(states) != 1 {
		t.Errorf("states of the import %q, want one that the ranks share", states)
	}
	s = prepare(t, t.TempDir(), "--profiles", "proof", "--", "true")
	if status := s.finish(); status != 0 || !strings.Contains(s.err.String(), "proof: no profile was imported") {
		t.Errorf("status %d, want 0 and that no profile was imported: %s", status, s.err.String())
	}
}

// TestRunReceivesFromPython checks that JSON from Python's http module is
// received.
func TestRunReceivesFromPython(t *testing.T) {
	python := pyrun.Interpreter(t)
	const program = `
import json, os, time, urllib.request
now = time.time_ns()
span = lambda i, name, a, b, parent, attrs: dict(traceId="5b8efff798038103d269b633813fc60c", spanId="%016x" % i, parentSpanId=parent, name=name,
    kind=1, startTimeUnixNano=str(a), endTimeUnixNano=str(b), attributes=attrs)
step = lambda i: [{"key": "rl.step", "value": {"intValue": str(i)}}]
spans = [span(1, "rl.sft.job", now - 10**9, now, "", [])]
spans += [span(2 + i, "rl.sft.step", now - 10**9 + i * 10**8, now - 10**9 + (i + 1) * 10**8, "%016x" % 1, step(i)) for i in range(9)]
body = {"resourceSpans": [{"resource": {"attributes": [{"key": "nv.dl.rank", "value": {"stringValue": "3"}}]},
    "scopeSpans": [{"scope": {"name": "nemo_rl"}, "spans": spans}]}]}
headers = dict(h.split("=", 1) for h in os.environ["OTEL_EXPORTER_OTLP_TRACES_HEADERS"].split(","))
headers["Content-Type"] = "application/json"
request = urllib.request.Request(os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"], json.dumps(body).encode(), headers)
print(urllib.request.urlopen(request).read().decode())
`
	dir := t.TempDir()
	s := prepare(t, dir, "--otlp", "--quiet", "--", python, "-c", program)
	if status := s.finish(); status != 0 || s.out.String() != "{}\n" {
		t.Fatalf("status %d, want 0 and {}: %s%s", status, s.out.String(), s.err.String())
	}
	_, at := theRun(t, dir)
	paths, _ := filepath.Glob(filepath.Join(at, "otlp-*.pfw.gz"))
	if len(paths) != 1 {
		t.Fatalf("the files are %v, want one", paths)
	}
	steps := 0
	for _, ev := range dftest.Events(t, paths[0]) {
		if a, ok := ev.Arg("step"); ok && ev.Name == "train.iteration" && tracefile.KindOf(a) == tracefile.KindInt {
			steps++
		}
	}
	if steps != 9 {
		t.Errorf("%d steps, want 9", steps)
	}
}

// TestRunSamplesResources checks that the trace of resources has counters of
// every process.
func TestRunSamplesResources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := prepare(t, dir, "--quiet", "--", "sh", "-c", "runjob grow 50; sleep 2.5; exit 0")
	if status := s.finish(); status != 0 {
		t.Fatalf("status %d, want 0: %s", status, s.err.String())
	}
	r, at := theRun(t, dir)
	names := make(map[string]int)
	for _, ev := range dftest.Events(t, filepath.Join(at, "resources.pfw.gz")) {
		if ev.Phase == dftracer.PhaseCounter {
			names[ev.Name]++
		}
	}
	if names["cpu"] == 0 || names["memory"] == 0 || names["page_faults"] == 0 {
		t.Errorf("counters %v, want cpu, memory and page_faults", names)
	}
	if len(r.Processes) == 0 || r.Processes[0].Program != "sh" {
		t.Errorf("processes %+v, want sh first", r.Processes)
	}
}

// TestRunOutOfMemory checks that an out-of-memory kill in a control group is
// recorded as such.
func TestRunOutOfMemory(t *testing.T) {
	group := filepath.Join("/sys/fs/cgroup", fmt.Sprintf("trainspan-test-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no control group can be made here: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(group) })
	if err := os.WriteFile(filepath.Join(group, "memory.max"), []byte("120M"), 0); err != nil {
		t.Skipf("memory cannot be limited here: %v", err)
	}
	_ = os.WriteFile(filepath.Join(group, "memory.swap.max"), []byte("0"), 0)
	dir := t.TempDir()
	s := prepare(t, dir, "--quiet", "--", "runjob", "grow", "400")
	s.Path, s.Args = "/bin/sh", append([]string{"sh", "-c", "echo $$ > " + group + `/cgroup.procs && exec "$@"`, "sh"}, s.Args...)
	if status := s.finish(); status != 128+9 {
		t.Skipf("status %d: the limit has no effect here: %s", status, s.err.String())
	}
	if r, _ := theRun(t, dir); r.EndedBy != rundir.ByMemory || r.OOMKills < 1 {
		t.Errorf("run.json is %+v, want it ended by memory with one or more kills", r)
	}
}

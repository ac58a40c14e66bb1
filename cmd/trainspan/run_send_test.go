//go:build linux

package main

import (
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// pythonJob trains with the API for programs without PyTorch.
const pythonJob = `
from trainspan.dftracer import ai, dft_fn
@ai
def main():
    with ai.pipeline.train:
        for epoch in range(2):
            with dft_fn("pipeline", "epoch.block"):
                for step in range(20):
                    ai.update(epoch=epoch, step=step)
                    with dft_fn("pipeline", "train.iteration"):
                        with ai.compute.forward:
                            pass
                with ai.checkpoint.capture:
                    pass
main()
print("trained")
`

// sent is an OTLP receiver that keeps spans with the resource of each.
type sent struct {
	*httptest.Server
	mu       sync.Mutex
	requests int
	keys     map[string]bool // received values of a header
	spans    []*tracepb.Span
	resource []map[string]string
}

func newSent(t *testing.T) *sent {
	b := &sent{keys: make(map[string]bool)}
	b.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.requests++
		b.keys[q.Header.Get("x-key")] = true
		var req coltrace.ExportTraceServiceRequest
		if q.URL.Path != "/v1/traces" {
			return
		}
		if err == nil {
			err = proto.Unmarshal(body, &req)
		}
		if err != nil {
			t.Error(err)
		}
		for _, rs := range req.GetResourceSpans() {
			of := make(map[string]string)
			for _, kv := range rs.GetResource().GetAttributes() {
				_, value, _ := strings.Cut(kv.GetValue().String(), ":")
				of[kv.GetKey()] = strings.Trim(value, `"`)
			}
			for _, ss := range rs.GetScopeSpans() {
				for _, sp := range ss.GetSpans() {
					b.spans, b.resource = append(b.spans, sp), append(b.resource, of)
				}
			}
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// program writes a Python program; without Python the test is skipped.
func program(t *testing.T, dir, text string) string {
	t.Helper()
	path := filepath.Join(dir, "train.py")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestRunSendsPython checks that a Python job of two ranks is sent to the
// address in the environment, or in a file: each span once, with the resource
// of its rank, below the span that the job belongs to. No file contains the
// secrets of the address.
func TestRunSendsPython(t *testing.T) {
	for _, how := range []string{"environment", "file"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b, dir := newSent(t), t.TempDir()
			path := program(t, dir, pythonJob)
			s := prepare(t, dir, "--name", "job", "--", "sh", "-c", `for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 "$0" "$1" & done; wait; echo $TRACEPARENT`, pyrun.Interpreter(t), path)
			s.Env = append(s.Env, "TRAINSPAN_JOB=j7", "TRACEPARENT="+traceparent)
			if how == "environment" {
				s.Env = append(s.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+b.URL, "OTEL_EXPORTER_OTLP_HEADERS=x-key=hunter2", "OTEL_RESOURCE_ATTRIBUTES=team=vision")
			} else {
				file := filepath.Join(dir, "job.yaml")
				text := "application_name: job\noutputs: {otlp: {endpoint: \"" + b.URL + "\", headers: {x-key: hunter2}}}\notel: {resource_attributes: {team: vision}}\n"
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				s.Env = append(s.Env, "TRAINSPAN_CONFIG="+file)
			}
			if status := s.finish(); status != 0 || !strings.HasSuffix(s.out.String(), "\n"+traceparent+"\n") {
				t.Fatalf("status %d, output %q, stderr %q; want 0 and the traceparent of the run", status, s.out.String(), s.err.String())
			}
			r, at := theRun(t, dir)
			const each = 1 + 1 + 2*2
			if len(b.spans) != 2*each || r.Python == nil || r.Python.Sent != 2*each || r.Python.Unsent != 0 || len(r.Problems) > 0 {
				t.Errorf("backend got %d spans, run.json has %+v, problems %v; want %d sent, none left", len(b.spans), r.Python, r.Problems, 2*each)
			}
			names, byID := make(map[string]int), make(map[string]*tracepb.Span)
			for _, sp := range b.spans {
				byID[string(sp.GetSpanId())] = sp
			}
			for i, sp := range b.spans {
				of := b.resource[i]
				names[sp.GetName()+" "+of["training.rank"]]++
				if of["service.name"] != "job" || of["team"] != "vision" || of["training.session_tag"] != "job" || of["training.world_size"] != "2" || of["training.local_rank"] != of["training.rank"] {
					t.Errorf("%s has the resource %v, want job job, team vision, 2 ranks", sp.GetName(), of)
				}
				above := hex.EncodeToString(sp.GetParentSpanId())
				if parent := byID[string(sp.GetParentSpanId())]; parent != nil {
					above = parent.GetName()
				}
				want := map[string]string{"application": "b7ad6b7169203331", "training_loop": "application", "epoch": "training_loop", "checkpoint_save_sync": "epoch"}
				if above != want[sp.GetName()] || hex.EncodeToString(sp.GetTraceId()) != traceparent[3:35] {
					t.Errorf("%s has parent %s in trace %x, want parent %s in trace %s", sp.GetName(), above, sp.GetTraceId(), want[sp.GetName()], traceparent[3:35])
				}
			}
			for _, rank := range []string{"0", "1"} {
				if names["application "+rank] != 1 || names["training_loop "+rank] != 1 || names["epoch "+rank] != 2 || names["checkpoint_save_sync "+rank] != 2 {
					t.Errorf("spans %v, want one application and training_loop, two epochs and checkpoints of each rank", names)
				}
			}
			if !b.keys["hunter2"] || len(b.keys) != 1 {
				t.Errorf("headers %v, want only the given one", b.keys)
			}
			said, _ := os.ReadFile(filepath.Join(at, "run.json"))
			if strings.Contains(s.err.String()+string(said), "hunter2") {
				t.Errorf("a secret is in stderr %s or in the output %s", s.err.String(), said)
			}
		})
	}
}

// TestRunSendsNothing checks that without an address nothing is sent. An
// unreachable backend, an unreadable configuration and an invalid parent cause
// one message each, and change neither the status nor the files.
func TestRunSendsNothing(t *testing.T) {
	b := newSent(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for name, c := range map[string]struct {
		env  []string
		says string
	}{
		"no address":      {nil, ""},
		"switched off":    {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + b.URL, "OTEL_SDK_DISABLED=true"}, ""},
		"none":            {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + b.URL, "OTEL_TRACES_EXPORTER=none"}, ""},
		"nothing listed":  {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + b.URL, "OTEL_LOGS_EXPORTER=none", "TRAINSPAN_EXPORT_MODE=WHITELIST_SPANS", "TRAINSPAN_EXPORT_SPAN_NAMES=of_another"}, ""},
		"away":            {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS=x-key=hunter2"}, "6 of 6 spans of Python processes were not sent: "},
		"silent":          {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + silent.Addr().String(), "OTEL_EXPORTER_OTLP_TIMEOUT=500"}, "6 of 6 spans of Python processes were not sent: "},
		"no such file":    {[]string{"TRAINSPAN_CONFIG=missing.yaml"}, "spans of Python processes are not sent: "},
		"no parent":       {[]string{"TRACEPARENT=nonsense"}, "TRACEPARENT is ignored: "},
		"a slip":          {[]string{"OTEL_TRACES_EXPORTER=otpl"}, "OTEL_TRACES_EXPORTER: unknown exporter"},
		"a misspelt name": {[]string{"TRAINSPAN_SESION_TAG=x"}, "TRAINSPAN_SESION_TAG: unknown variable, ignored; did you mean \"TRAINSPAN_SESSION_TAG\"?"},
		"a bad address":   {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://user:hunter2@" + strings.TrimPrefix(b.URL, "http://")}, "must not contain a user name or password"},
		"an odd list":     {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + b.URL, "TRAINSPAN_EXPORT_MODE=WHITELIST_SPANS"}, "spans of Python processes are not sent: "},
		"a bad variable":  {[]string{"OTEL_EXPORTER_OTLP_TIMEOUT=soon"}, "OTEL_EXPORTER_OTLP_TIMEOUT"},
		"a broken rule":   {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + b.URL, "TRAINSPAN_OTLP_TRACE_SPLIT=per-step"}, "spans of Python processes are not sent: config: TRAINSPAN_OTLP_TRACE_SPLIT: outputs.otlp.trace_split: must be "},
		"two problems":    {[]string{"TRAINSPAN_GLOBAL_BATCH_SIZE=x", "TRAINSPAN_SEQ_LENGTH=y"}, `config: 2 problems: TRAINSPAN_GLOBAL_BATCH_SIZE: training.global_batch_size: must be an integer (got "x"); TRAINSPAN_SEQ_LENGTH: `},
		"a bad container": {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_HEADERS=hunter2"}, "OTEL_EXPORTER_OTLP_HEADERS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := program(t, dir, pythonJob+"raise SystemExit(7)\n")
			s := prepare(t, dir, "--name", "job", "--", pyrun.Interpreter(t), path)
			s.Env = append(s.Env, c.env...)
			status := s.finish()
			lines := slices.DeleteFunc(strings.Split(s.err.String(), "\n"), func(l string) bool {
				return !strings.HasPrefix(l, "trainspan: ") || !strings.Contains(l, "trainspan help ")
			})
			switch {
			case status != 7 || s.out.String() != "trained\n":
				t.Errorf(`status %d, output %q; want 7 and "trained"`, status, s.out.String())
			case c.says == "" && len(lines) > 0, c.says != "" && (len(lines) != 1 || !strings.Contains(lines[0], c.says)), strings.Contains(s.err.String(), "hunter2"):
				t.Errorf("stderr lines %q, want %q and no password", lines, c.says)
			}
			r, at := theRun(t, dir)
			if r.Python == nil || r.Python.Spans != 1+1+2*(20*2+2) || r.Python.Lost != 0 || r.Python.Sent != 0 {
				t.Errorf("run.json has Python %+v, want %d spans, none lost, none sent", r.Python, 1+1+2*(20*2+2))
			}
			traces, _ := filepath.Glob(filepath.Join(at, "trace-*.pfw.gz"))
			if len(traces) != 1 {
				t.Fatalf("traces %v, want one", traces)
			}
			if out := want(t, "trace", "info", traces[0]); !strings.Contains(out, "train") {
				t.Errorf("info says %s, want \"train\" in it", out)
			}
		})
	}
	t.Cleanup(func() {
		if b.requests > 0 {
			t.Errorf("%d requests, want none", b.requests)
		}
	})
}

// TestImportSendsRings checks that ring buffers that were left behind are sent
// only if a flag asks for it.
func TestImportSendsRings(t *testing.T) {
	b, elsewhere, dir := newSent(t), newSent(t), t.TempDir()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", elsewhere.URL)
	t.Setenv("OTEL_SDK_DISABLED", "true") // applies to jobs, not to an import
	path := program(t, dir, pythonJob)
	client, err := filepath.Abs(filepath.Join("..", "..", "integrations", "python"))
	if err != nil {
		t.Fatal(err)
	}
	rings := filepath.Join(dir, "rings")
	if err := os.Mkdir(rings, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(pyrun.Interpreter(t), path)
	cmd.Env = append(clean(t.TempDir()), "PYTHONPATH="+client, "TRAINSPAN_RING="+rings, "DFTRACER_ENABLE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("%v: %s", err, out)
	}
	want(t, "trace", "import", rings, "-o", filepath.Join(dir, "unsent"))
	if n := elsewhere.requests + b.requests; n > 0 {
		t.Errorf("%d requests without the flag, want none", n)
	}
	want(t, "trace", "import", rings, "-o", filepath.Join(dir, "sent"), "--otlp-endpoint", b.URL, "--otlp-header", "x-key=k")
	if len(b.spans) != 6 || !b.keys["k"] || elsewhere.requests > 0 {
		t.Errorf("receiver got %d spans, headers %v, another endpoint %d requests; want 6, the given one, 0", len(b.spans), b.keys, elsewhere.requests)
	}
	status, _, stderr := cli(t, "trace", "import", rings, "-o", filepath.Join(dir, "away"), "--otlp-endpoint", "http://127.0.0.1:1", "--otlp-retry", "1ms")
	if status != ui.StatusData || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "6 spans of 6 not delivered") {
		t.Errorf("status %d, stderr %q; want %d and one line about 6 undelivered spans", status, stderr, ui.StatusData)
	}
	status, _, stderr = cli(t, "trace", "import", rings, "-o", filepath.Join(dir, "x"), "--otlp-header", "x-key=k")
	if status != ui.StatusUse || !strings.Contains(stderr, "--otlp-endpoint") {
		t.Errorf("status %d, stderr %q; want %d and --otlp-endpoint", status, stderr, ui.StatusUse)
	}
}

// TestRunFormsFilesOfPython checks that the configuration also sets the form of
// a Python job's files.
func TestRunFormsFilesOfPython(t *testing.T) {
	client := filepath.Join("..", "..", "integrations", "python", "testdata", "one_logger.py")
	text, err := os.ReadFile(client)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		outputs string
		trace   string // the end of the trace's name
		line    string // a part of the trace
		record  string // a part of the JSON lines, empty for no such file
	}{
		"default": {"{}", ".pfw.gz", "", `"id":"[0-9a-f]{16}"`},
		"given":   {"{trace: {dialect: v22, compression: false}, file: {compat: true}}", ".pfw", `"ph":1,`, `"id": ?"[0-9a-f]{8}-[0-9a-f]{4}-4`},
		"no file": {"{trace: {metadata: false, compression: false}, file: {enabled: false}}", ".pfw", `"ph":"X"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := prepare(t, dir, "--name", "job", "--", pyrun.Interpreter(t), program(t, dir, string(text)))
			file := filepath.Join(dir, "job.yaml")
			if err := os.WriteFile(file, []byte("outputs: "+c.outputs+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s.Env = append(s.Env, "TRAINSPAN_CONFIG="+file)
			if status := s.finish(); status != 0 {
				t.Fatalf("status %d, want 0, errors %q", status, s.err.String())
			}
			_, at := theRun(t, dir)
			traces, _ := filepath.Glob(filepath.Join(at, "trace-*"))
			if len(traces) != 1 || !strings.HasSuffix(traces[0], c.trace) {
				t.Fatalf("traces %v, want one that ends in %s", traces, c.trace)
			}
			if lines, err := os.ReadFile(traces[0]); c.line != "" && (err != nil || !strings.Contains(string(lines), c.line) || strings.Contains(string(lines), `"step"`) == (name == "no file")) {
				t.Errorf("%v: the trace is %.500s, want a line with %q", err, lines, c.line)
			}
			want(t, "trace", "validate", traces[0])
			records, _ := filepath.Glob(filepath.Join(at, "telemetry-*.jsonl"))
			if len(records) == 0 && c.record == "" {
				return
			}
			if lines, err := os.ReadFile(records[0]); err != nil || c.record == "" || !regexp.MustCompile(c.record).Match(lines) {
				t.Errorf("%v: the records are %.500s, want a match of %s", err, lines, c.record)
			}
		})
	}
}

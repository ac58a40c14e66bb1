package main

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func smallTrace(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	if err := makeTrace([]string{path}); err != nil {
		t.Fatal(err)
	}
	return path
}

// want runs a command line that must succeed and returns its output.
func want(t testing.TB, args ...string) string {
	t.Helper()
	status, stdout, stderr := cli(t, args...)
	if status != 0 {
		t.Fatalf("trainspan %s: status %d, want 0: %s", strings.Join(args, " "), status, stderr)
	}
	return stdout
}

func TestChromeIsStrictJSON(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "odd.pfw.gz")
	w, err := dftracer.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	tracefile.WriteRank(w, 3)
	w.Write(&dftracer.Event{Cat: "mine", Name: "a\"b\\c\n<é>\x01", TID: 1, TS: 10, Dur: 5, Args: []dftracer.Arg{
		dftracer.Float("nan", math.NaN()), dftracer.Raw("list", `[1,{"a":null}]`), dftracer.Uint("big", math.MaxUint64),
		tracefile.HashArg("fhash", w.Hash(tracefile.NameFileHash, "/a b")), dftracer.String("fake_hash", "no such hash")}})
	w.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Cat: "sys", Name: "gpu", TID: 1, TS: 20, Args: []dftracer.Arg{dftracer.Float("util", 0.5), dftracer.String("text", "not drawn")}})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Name, Cat, Ph string
		TS, Dur       int64
		Args          map[string]any
	}
	if err := json.Unmarshal([]byte(want(t, "trace", "convert", path, "--to", "chrome", "-o", "-")), &events); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, ev := range events {
		found[ev.Ph+" "+ev.Name] = true
		switch {
		case ev.Ph == "X" && ev.Cat == "mine":
			if ev.TS != 10 || ev.Dur != 5 || ev.Args["nan"] != "NaN" || ev.Args["file"] != "/a b" || ev.Args["fake_hash"] != "no such hash" {
				t.Errorf(`event is %+v, want 10 to 15 µs and arguments nan NaN, file /a b, fake_hash "no such hash"`, ev)
			}
		case ev.Ph == "C":
			if len(ev.Args) != 1 || ev.Args["util"] != 0.5 {
				t.Errorf("counter is %+v, want util 0.5 only", ev)
			}
		case ev.Name == "process_name":
			if ev.Args["name"] != "Rank 3" {
				t.Errorf(`process name is %+v, want "Rank 3"`, ev)
			}
		}
	}
	for _, name := range []string{"X a\"b\\c\n<é>\x01", "C gpu", "M process_name", "M thread_name"} {
		if !found[name] {
			t.Errorf("%q is missing in %v", name, found)
		}
	}
}

// receiver is an OTLP server that stores the received spans.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []*tracepb.Span
	attrs  map[string]string // attributes of the last resource
	header http.Header
	fail   int // requests to refuse first
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{attrs: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		var req coltrace.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &req)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			t.Error(err)
		}
		if r.fail > 0 {
			r.fail--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.header = q.Header
		for _, rs := range req.GetResourceSpans() {
			for _, kv := range rs.GetResource().GetAttributes() {
				r.attrs[kv.GetKey()] = kv.GetValue().GetStringValue()
			}
			for _, ss := range rs.GetScopeSpans() {
				r.spans = append(r.spans, ss.GetSpans()...)
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func TestConvertToOTLPAndReplay(t *testing.T) {
	back := newReceiver(t)
	dir := t.TempDir()
	want(t, "trace", "convert", smallTrace(t), "--to", "otlp", "-o", filepath.Join(dir, "x.otlp.jsonl"))
	out := want(t, "trace", "replay", dir, "--endpoint", back.URL, "--header", "X-Key=secret", "--retry", "0s")
	if out != "29 spans sent, 1 file finished\n" {
		t.Errorf("output %q, want %q", out, "29 spans sent, 1 file finished\n")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("a converted file is the user's: %v, want one", left)
	}
	if len(back.spans) != 29 || back.attrs["service.name"] != "train" || back.attrs["host.name"] != "node1" || back.header.Get("X-Key") != "secret" {
		t.Fatalf("the receiver got %d spans, resource %v, X-Key %q; want 29 spans of service train on node1 and X-Key secret", len(back.spans), back.attrs, back.header.Get("X-Key"))
	}
	byID := map[string]*tracepb.Span{}
	for _, sp := range back.spans {
		byID[string(sp.GetSpanId())] = sp
		if string(sp.GetTraceId()) != string(back.spans[0].GetTraceId()) {
			t.Error("the spans of one process have two trace ids, want one")
		}
	}
	roots := 0
	for _, sp := range back.spans {
		parent := byID[string(sp.GetParentSpanId())]
		if parent == nil {
			roots++
			continue
		}
		if parent.GetStartTimeUnixNano() > sp.GetStartTimeUnixNano() || parent.GetEndTimeUnixNano() < sp.GetEndTimeUnixNano() {
			t.Errorf("%s is not inside %s", sp.GetName(), parent.GetName())
		}
		if sp.GetName() == "forward" && parent.GetName() != "train.iteration" {
			t.Errorf("parent of forward is %s, want train.iteration", parent.GetName())
		}
	}
	if roots != 1 || len(byID) != 29 {
		t.Errorf("the receiver got %d roots and %d span IDs, want 1 and 29", roots, len(byID))
	}
}

func TestReplayOfABackendThatIsAway(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x.otlp.jsonl")
	want(t, "trace", "convert", smallTrace(t), "--to", "otlp", "-o", file)
	status, _, stderr := cli(t, "trace", "replay", dir, "--endpoint", "http://127.0.0.1:1", "--retry", "0s")
	if status != ui.StatusData || strings.Count(stderr, "\n") != 2 || !strings.Contains(stderr, "127.0.0.1:1") || !strings.Contains(stderr, "29 spans not sent yet") {
		t.Errorf("replay without a receiver: status %d, stderr %q; want %d and two lines, which name the address and 29 spans not sent", status, stderr, ui.StatusData)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error("got no spans, want those of the trace")
	}
	status, _, stderr = cli(t, "trace", "replay", dir)
	if status != ui.StatusUse || !strings.Contains(stderr, "no receiver is given; add --endpoint") {
		t.Errorf("replay without --endpoint: status %d, stderr %q; want %d and advice to add it", status, stderr, ui.StatusUse)
	}
	status, _, stderr = cli(t, "trace", "replay", dir, "--endpoint", "http://127.0.0.1:1", "--header", "nonsense")
	if status != ui.StatusUse || !strings.Contains(stderr, "name=value") {
		t.Errorf("replay with a wrong header: status %d, stderr %q; want %d and name=value", status, stderr, ui.StatusUse)
	}
}

const profile = `{"schemaVersion":1,"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#7","pid":100,"tid":100,"ts":1778000000000000,"dur":1000,"args":{"External id":1}},
{"ph":"X","cat":"cpu_op","name":"aten::add","pid":100,"tid":100,"ts":1778000000000100,"dur":10,"args":{"External id":2}}
],"traceName":"x"}`

func TestImportSendsSpans(t *testing.T) {
	back := newReceiver(t)
	back.fail = 1 // unreachable at first
	path := filepath.Join(t.TempDir(), "p.json")
	if err := os.WriteFile(path, []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, "trace", "import", path, "--otlp-endpoint", back.URL, "--span-level", "op", "--job", "j1")
	names := map[string]int{}
	for _, sp := range back.spans {
		names[sp.GetName()]++
	}
	if names["aten::add"] != 1 || back.attrs["training.job"] != "j1" {
		t.Errorf("import sent spans %v, resource %v; want one aten::add of job j1", names, back.attrs)
	}
}

func TestInterruptLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.pfw.gz"), filepath.Join(dir, "out.pfw.gz")
	writeJob(t, in, 30_000)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{{"trace", "summary", in}, {"trace", "info", in}, {"trace", "merge", in, "-o", out}, {"trace", "convert", in, "--to", "v1", "-o", out}, {"trace", "split", in, "-o", dir}} {
		var errs strings.Builder
		if status := run(ctx, args, ui.Streams{Out: io.Discard, Err: &errs}); status != ui.StatusUse || !strings.Contains(errs.String(), "interrupted") {
			t.Errorf(`%v, interrupted: status %d, stderr %q; want %d and "interrupted"`, args, status, errs.String(), ui.StatusUse)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
		t.Errorf("left behind: %v, want one", files)
	}
}

package python_test

import (
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// backend is an OTLP receiver that stores the requests.
type backend struct {
	*httptest.Server
	mu       sync.Mutex
	requests map[string]int // by path
	spans    []*sentSpan
}

// sentSpan is a received span.
type sentSpan struct {
	*tracepb.Span
	attrs, resource map[string]string
}

func newBackend(t *testing.T) *backend {
	b := &backend{requests: make(map[string]int)}
	b.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.requests[q.URL.Path]++
		if q.URL.Path != "/v1/traces" {
			return
		}
		var req collectorpb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &req)
		}
		if err != nil {
			t.Error(err)
		}
		for _, rs := range req.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, sp := range ss.GetSpans() {
					s := &sentSpan{sp, make(map[string]string), make(map[string]string)}
					for _, kv := range rs.GetResource().GetAttributes() {
						s.resource[kv.GetKey()] = text1(kv.GetValue().String())
					}
					for _, kv := range sp.GetAttributes() {
						s.attrs[kv.GetKey()] = text1(kv.GetValue().String())
					}
					b.spans = append(b.spans, s)
				}
			}
		}
	}))
	t.Cleanup(b.Close)
	return b
}

// text1 returns the value in "int_value:3".
func text1(s string) string {
	_, value, _ := strings.Cut(s, ":")
	return strings.Trim(value, `"`)
}

func (b *backend) all() []*sentSpan {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.spans)
}

// config returns a function that sets the backend as the destination of the
// configuration.
func (b *backend) config(export config.Export) func(config.Config) (config.Config, error) {
	return func(code config.Config) (config.Config, error) {
		if export.Mode != "" {
			code.Export = export
		}
		code.Outputs.OTLP = config.OTLP{Endpoint: b.URL}
		return code, nil
	}
}

// paths returns each span with its ancestors, and its number.
func (b *backend) paths(t *testing.T) map[string]int {
	t.Helper()
	byID := make(map[string]*sentSpan)
	for _, s := range b.all() {
		if byID[string(s.GetSpanId())] != nil {
			t.Errorf("%s was sent twice, want once", s.GetName())
		}
		byID[string(s.GetSpanId())] = s
	}
	all := make(map[string]int)
	for _, s := range byID {
		path := s.GetName()
		for up := s; len(up.GetParentSpanId()) > 0; {
			parent := byID[string(up.GetParentSpanId())]
			if parent == nil {
				path = hex.EncodeToString(up.GetParentSpanId()) + " > " + path
				break
			}
			if parent.GetStartTimeUnixNano() > up.GetStartTimeUnixNano() || parent.GetEndTimeUnixNano() < up.GetEndTimeUnixNano() {
				t.Errorf("%s is not inside its parent %s", up.GetName(), parent.GetName())
			}
			up = parent
			path = up.GetName() + " > " + path
		}
		all[path]++
	}
	return all
}

// drained runs a program, which must succeed, and drains its ring buffers
// meanwhile.
func drained(t *testing.T, o pyring.Options, env []string, program string, args ...string) pyring.Stats {
	t.Helper()
	o.Dir = t.TempDir()
	if o.Out == "" {
		o.Out = t.TempDir()
	}
	o.Attempt = -1
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d, err := pyring.New(o)
	if err != nil {
		t.Skip(err)
	}
	cmd := pyrun.Command(t, o.Dir, program, args...)
	cmd.Env = append(cmd.Env, env...)
	pyrun.Output(t, cmd)
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return d.Stats()
}

func compare(t *testing.T, got, want map[string]int) {
	t.Helper()
	for path, n := range want {
		if got[path] != n {
			t.Errorf("%d times, want %d: %s", got[path], n, path)
		}
	}
	for path, n := range got {
		if want[path] == 0 {
			t.Errorf("%d times, and not wanted: %s", n, path)
		}
	}
}

// traced returns the paths of the spans of traces, with the names under which
// they are sent.
func traced(t *testing.T, st pyring.Stats, export config.Export) map[string]int {
	t.Helper()
	all := make(map[string]int)
	for _, f := range st.Files {
		dftest.Check(t, f)
		byID := make(map[int64]*dftracer.Event)
		var list []*dftracer.Event
		if _, err := dftracer.Scan(f, nil, func(ev *dftracer.Event) error {
			if ev.Phase == dftracer.PhaseComplete && ev.Cat != dftracer.CatDFTracer {
				own := *ev
				byID[int64(own.ID)], list = &own, append(list, &own)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, ev := range list {
			name, ok := settings.SentName(&export, ev.Cat, ev.Name)
			if !ok {
				continue
			}
			path := name
			for up := byID[ev.Parent]; up != nil; up = byID[up.Parent] {
				if name, ok := settings.SentName(&export, up.Cat, up.Name); ok {
					path = name + " > " + path
				}
			}
			all[path]++
		}
	}
	return all
}

// traces0 returns the counts of traces only.
func traces0(st pyring.Stats) pyring.Stats {
	st.Files = slices.DeleteFunc(slices.Clone(st.Files), func(f string) bool { return !strings.Contains(f, ".pfw") })
	return st
}

type lockedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

package setup_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/record/setup"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
	"github.com/trainspan/trainspan/telemetry"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// job returns a configuration without outputs.
func job() config.Config {
	return config.Config{
		Base:  config.Base{ApplicationName: "app", SessionTag: config.Value("tag"), WorldSize: config.Value(1)},
		Ranks: config.Ranks{Rank: config.Value(0)},
	}
}

// backend is a receiver that collects spans sent by http/protobuf.
type backend struct {
	url   string
	mu    sync.Mutex
	names []string
	attrs map[string]string // of the resource
}

func newBackend(t *testing.T) *backend {
	b := &backend{attrs: map[string]string{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if q.URL.Path != "/v1/traces" {
			return // signals_test.go checks the others
		}
		var request collectorpb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, rs := range request.GetResourceSpans() {
			for _, a := range rs.GetResource().GetAttributes() {
				b.attrs[a.GetKey()] = a.GetValue().GetStringValue()
			}
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					b.names = append(b.names, s.GetName())
				}
			}
		}
	}))
	t.Cleanup(s.Close)
	b.url = s.URL
	return b
}

func run(t *testing.T, cfg config.Config, o *setup.Options) *setup.Outputs {
	t.Helper()
	b, outputs, err := setup.NewBuilder(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	tel, err := b.ConfigureProvider(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, s := tel.Tracer("mine").Start(t.Context(), "my span")
	s.End()
	if err := tel.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	return outputs
}

func lines(t *testing.T, path string) (all []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(gziptest.Text(t, data))) {
		all = append(all, strings.TrimSuffix(line, "\n"))
	}
	return all
}

func TestTraceWithoutThreadIDs(t *testing.T) {
	cfg := job()
	cfg.Outputs.Trace = config.Trace{Path: filepath.Join(t.TempDir(), "t.pfw"), TIDs: config.Value(false)}
	path := run(t, cfg, nil).Paths()["trace"]
	dftest.Check(t, path)
	for _, line := range lines(t, path) {
		if strings.Contains(line, `"tid":`) && !strings.Contains(line, `"tid":0,`) {
			t.Errorf("line %s, want tid 0", line)
		}
	}
}

func TestEveryOutput(t *testing.T) {
	dir, there := t.TempDir(), newBackend(t)
	cfg := job()
	cfg.Export = config.Export{Mode: config.ExportAll}
	cfg.Outputs = config.Outputs{
		File:  config.File{Path: filepath.Join(dir, "t-{rank}.jsonl")},
		Trace: config.Trace{Path: filepath.Join(dir, "t-{rank}.pfw.gz"), CoreAffinity: config.Value(true)},
		OTLP:  config.OTLP{Endpoint: there.url},
	}
	cfg.OTel.ServiceName = "my-service"
	cfg.OTel.ResourceAttributes = config.Pairs("team", "blue", "service.name", "overruled")
	asked := false
	outputs := run(t, cfg, &setup.Options{OTLP: func(c *otlp.Config) { asked = c.Endpoint == there.url }})
	if !asked {
		t.Error("the program's exporter function was not called")
	}
	paths := outputs.Paths()
	if filepath.Base(paths["trace"]) != "t-0.pfw.gz" || !strings.Contains(paths["file"], "t-") {
		t.Errorf("paths %v, want trace t-0.pfw.gz and a file t-", paths)
	}
	record := lines(t, filepath.Join(dir, "t-0.jsonl"))
	if !strings.Contains(strings.Join(record, "\n"), `my span`) {
		t.Errorf(`file has %v, want "my span"`, record)
	}
	trace := lines(t, paths["trace"])
	found := map[string]bool{}
	for _, line := range trace {
		var event struct {
			Name string
			Args map[string]any
		}
		if json.Unmarshal([]byte(line), &event) == nil {
			found[event.Name] = true
			if event.Args["name"] == "core_affinity" {
				found["core_affinity"] = true
			}
		}
	}
	if !found["my span"] || coresKnown() && !found["core_affinity"] {
		t.Errorf(`trace has %v, want "my span" and core_affinity`, trace)
	}
	if len(there.names) == 0 || there.names[0] != "my span" {
		t.Errorf(`backend got %v, want "my span" first`, there.names)
	}
	if there.attrs["service.name"] != "my-service" || there.attrs["team"] != "blue" {
		t.Errorf("resource %v, want my-service, team blue", there.attrs)
	}
}

func TestNoOutput(t *testing.T) {
	dir, there := t.TempDir(), newBackend(t)
	all := config.Outputs{
		File:  config.File{Path: filepath.Join(dir, "t.jsonl")},
		Trace: config.Trace{Path: filepath.Join(dir, "t.pfw")},
		OTLP:  config.OTLP{Endpoint: there.url},
	}
	for _, tc := range []struct {
		name string
		set  func(c *config.Config)
	}{
		{"nothing asked for", func(c *config.Config) { c.Outputs = config.Outputs{} }},
		{"off for this rank", func(c *config.Config) { c.EnableForCurrentRank = config.Value(false) }},
		{"all switched off", func(c *config.Config) {
			c.Outputs.File.Enabled, c.Outputs.Trace.Enabled, c.OTel.SDKDisabled = config.Value(false), config.Value(false), config.Value(true)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := job()
			cfg.Outputs = all
			tc.set(&cfg)
			if outputs := run(t, cfg, nil); outputs.File != nil || outputs.Trace != nil || outputs.OTLP != nil || len(outputs.Paths()) != 0 {
				t.Errorf("outputs %+v, want none", outputs)
			}
			if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
				t.Errorf("files %v, %v; want none", files, err)
			}
			if len(there.names) != 0 {
				t.Errorf("sent %v, want none", there.names)
			}
		})
	}
}

func TestTracePaths(t *testing.T) {
	for _, tc := range []struct {
		name  string
		trace config.Trace
		world int
		want  string
	}{
		{"file", config.Trace{Path: "a.pfw.gz"}, 1, "a.pfw.gz"},
		{"plain file", config.Trace{Path: "a.pfw"}, 1, "a.pfw"},
		{"compression wins over the name", config.Trace{Path: "a.pfw", Compression: config.Value(true)}, 1, "a.pfw.gz"},
		{"plain wins over the name", config.Trace{Path: "a.pfw.gz", Compression: config.Value(false)}, 1, "a.pfw"},
		{"prefix", config.Trace{Path: "a"}, 1, "a-*-app.pfw.gz"},
		{"plain prefix", config.Trace{Path: "a", Compression: config.Value(false)}, 1, "a-*-app.pfw"},
		{"shared by ranks", config.Trace{Path: "a.pfw.gz"}, 2, "a-rank1.pfw.gz"},
		{"told apart already", config.Trace{Path: "r{rank}.pfw.gz"}, 2, "r1.pfw.gz"},
		{"dialect", config.Trace{Path: "a.pfw", Dialect: config.TraceV22}, 1, "a.pfw"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := job()
			cfg.WorldSize = config.Value(tc.world)
			cfg.Ranks = config.Ranks{Rank: config.Value(tc.world - 1)}
			tc.trace.Path = filepath.Join(dir, tc.trace.Path)
			cfg.Outputs.Trace = tc.trace
			path := run(t, cfg, nil).Paths()["trace"]
			if ok, err := filepath.Match(tc.want, filepath.Base(path)); err != nil || !ok {
				t.Errorf("wrote %s, want %s", path, tc.want)
			}
			all := lines(t, path)
			if brackets := all[0] == "["; brackets == (tc.trace.Dialect == config.TraceV22) {
				t.Errorf("dialect %q starts with %q, want [ except for 2.2", tc.trace.Dialect, all[0])
			}
		})
	}
}

func TestARestartKeepsTheTrace(t *testing.T) {
	dir := t.TempDir()
	cfg := job()
	cfg.Outputs.Trace.Path = filepath.Join(dir, "a.pfw")
	run(t, cfg, nil)
	run(t, cfg, nil)
	if files, err := filepath.Glob(filepath.Join(dir, "*.pfw")); err != nil || len(files) != 2 {
		t.Errorf("files %v, %v; want two", files, err)
	}
}

func TestErrorsLeaveNothingOpen(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		outputs config.Outputs
		want    string
	}{
		{"file without a path", config.Outputs{File: config.File{Enabled: config.Value(true)}}, "outputs.file.path"},
		{"unknown protocol", config.Outputs{OTLP: config.OTLP{Enabled: config.Value(true), Protocol: "udp"}}, "outputs.otlp.protocol"},
		{"missing certificate", config.Outputs{OTLP: config.OTLP{Endpoint: "https://h", Certificate: filepath.Join(dir, "none")}}, "otlp.certificate"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := job()
			cfg.Outputs = tc.outputs
			b := telemetry.NewTrainingTelemetryBuilder().WithBaseConfig(cfg.Base)
			outputs, err := setup.Apply(t.Context(), b, cfg, nil)
			if err == nil || outputs != nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Apply() = %v, %v; want no outputs and an error of one line with %q", outputs, err, tc.want)
			}
			if _, _, err := setup.NewBuilder(t.Context(), cfg, nil); err == nil {
				t.Error("NewBuilder succeeded, want an error")
			}
		})
	}
}

// TestInvalidPath checks that ConfigureProvider, which opens the files, fails for
// an invalid path.
func TestInvalidPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := job()
	cfg.Outputs = config.Outputs{Trace: config.Trace{Path: filepath.Join(dir, "file", "a.pfw")}, OTLP: config.OTLP{Endpoint: "http://h:1"}}
	b, made, err := setup.NewBuilder(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ConfigureProvider(t.Context()); err == nil || !strings.Contains(err.Error(), "a.pfw") {
		t.Errorf("ConfigureProvider: %v, want an error that names a.pfw", err)
	}
	if err := made.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCloseWithoutAProvider(t *testing.T) {
	dir := t.TempDir()
	cfg := job()
	cfg.Outputs = config.Outputs{
		File:  config.File{Path: filepath.Join(dir, "a.jsonl")},
		Trace: config.Trace{Path: filepath.Join(dir, "a.pfw")},
		OTLP:  config.OTLP{Endpoint: "http://" + closedPort(t), Protocol: config.OTLPGRPC},
	}
	_, outputs, err := setup.NewBuilder(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := outputs.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := (*setup.Outputs)(nil).Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func closedPort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func coresKnown() bool {
	_, err := os.Stat("/proc/self/status")
	return err == nil
}

// TestTheTraceHoldsNoArgumentsUnlessAsked checks that the trace holds no program
// arguments by default, because they can contain secrets. go test passes some.
func TestTheTraceHoldsNoArgumentsUnlessAsked(t *testing.T) {
	for _, asked := range []bool{false, true} {
		cfg := job()
		cfg.Outputs.Trace = config.Trace{Path: filepath.Join(t.TempDir(), "a.pfw"), CommandLine: config.Value(asked)}
		text := strings.Join(lines(t, run(t, cfg, nil).Paths()["trace"]), "\n")
		if strings.Contains(text, ";-") != asked || strings.Contains(text, "-test.") && strings.Contains(text, "=") {
			t.Errorf("asked %v: %s; want the arguments only if asked, without values", asked, text)
		}
	}
}

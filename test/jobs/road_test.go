package jobs_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/otlpreceiver"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/ingest/torch"
)

// Only this file and script_test.go depend on the product's API.

// outputs holds the outputs of a replay.
type outputs struct {
	traces   []string // paths
	lines    []string
	requests [][]request // of each receiver
	from     string      // the folder of the recording's files
	notes    string      // counts, and the results of calls
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// charlm builds the example that trains a language model, once, in a folder
// that TestMain removes.
var charlm = sync.OnceValues(func() (path string, err error) {
	if charlmAt, err = os.MkdirTemp("", "jobs"); err != nil {
		return "", err
	}
	path = filepath.Join(charlmAt, "charlm")
	build := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-o", path, "./examples/charlm")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build charlm: %w\n%s", err, out)
	}
	return path, nil
})

var charlmAt string

// launchers are prefixes of variables that identify a process or configure its
// telemetry.
var launchers = []string{
	"TRAINSPAN_", "DFTRACER_", "OTEL_", "TRACEPARENT", "RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
	"TORCHELASTIC_", "SLURM_", "OMPI_", "PMI", "FLUX_", "PBS_", "LSB_", "JOB_COMPLETION_INDEX",
}

func TestMain(m *testing.M) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != "OTEL_PYTHON" && slices.ContainsFunc(launchers, func(p string) bool { return strings.HasPrefix(name, p) }) {
			_ = os.Unsetenv(name) // a replay is the same under any launcher
		}
	}
	status := m.Run()
	_ = os.RemoveAll(charlmAt) // empty if nothing was built
	os.Exit(status)
}

// runCharlm trains with so few steps that it is fast.
func runCharlm(t *testing.T) (*outputs, error) {
	program, err := charlm()
	if err != nil {
		return nil, err
	}
	dir, text := t.TempDir(), t.TempDir()
	for i := range 20 {
		if err := os.WriteFile(filepath.Join(text, fmt.Sprint(i, ".go")), []byte(strings.Repeat("func (r *reader) close() error { return nil }\n", 20)), 0o600); err != nil {
			return nil, err
		}
	}
	c := newCollector(t)
	cmd := exec.Command(program,
		"-out", filepath.Join(dir, "out"), "-text", text, "-epochs", "2", "-steps", "3", "-batch", "4", "-context", "3", "-embed", "2", "-hidden", "3", "-layers", "1",
		"-workers", "1", "-replicas", "1", "-validate-every", "0", "-validate-steps", "1", "-test-steps", "1", "-checkpoint-every", "2", "-progress", "off")
	// Which span is open while another goroutine reads ahead depends on timing.
	config := filepath.Join(dir, "config.yaml")
	settings := "outputs:\n  trace: {io: false}\n  otlp: {metrics: false, endpoint: \"" + c.URL + "\"}\n"
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TRAINSPAN_CONFIG=" + config, "RANK=0", "WORLD_SIZE=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	outs := &outputs{requests: [][]request{c.requests}, from: dir}
	if outs.traces, err = filepath.Glob(filepath.Join(dir, "out", "*.pfw.gz")); err != nil {
		return nil, err
	}
	outs.lines, err = filepath.Glob(filepath.Join(dir, "out", "*.jsonl"))
	return outs, err
}

// validate checks a trace with the rules of the format.
func validate(path string, foreign bool) error {
	report, err := dftracer.ValidateFile(path, &dftracer.ValidateOptions{AllowForeign: foreign})
	if err != nil {
		return err
	}
	if !report.OK() {
		return fmt.Errorf("%s: %d problems: %v", filepath.Base(path), report.Count, report.Problems[:min(len(report.Problems), 5)])
	}
	return nil
}

// replayRings imports the ring buffers of a folder, and sends the spans that
// the customization selects, if any.
func replayRings(t *testing.T, dir string, send *config.Export) (*outputs, error) {
	o := pyring.Options{Out: t.TempDir(), Attempt: -1, Log: quiet}
	var c *collector
	if send != nil {
		c = newCollector(t)
		o.Config = func(code config.Config) (config.Config, error) {
			if send.Mode != "" {
				code.Export = *send
			}
			if !code.SessionTag.IsSet() {
				code.SessionTag = config.Value("session")
			}
			code.Outputs.OTLP = config.OTLP{Endpoint: c.URL, Metrics: config.Value(false)}
			return code, nil
		}
	}
	st, err := pyring.Import(context.Background(), []string{dir}, o)
	if err != nil {
		return nil, err
	}
	outs := ringOutputs(&st)
	if send != nil {
		outs.notes += fmt.Sprintf("counts sent=%d lost=%d logs=%d\n", st.Delivery.Sent, st.Delivery.Lost, st.Delivery.LogRecords)
		outs.requests = [][]request{c.requests}
	}
	return outs, nil
}

// drainRings reads the ring buffers of a folder as while the processes run.
func drainRings(t *testing.T, dir string) (*outputs, error) {
	d, err := pyring.New(pyring.Options{Dir: dir, Out: t.TempDir(), Attempt: -1, Log: quiet})
	if err != nil {
		return nil, err
	}
	if err := d.Close(context.Background()); err != nil {
		return nil, err
	}
	st := d.Stats()
	return ringOutputs(&st), nil
}

func ringOutputs(st *pyring.Stats) *outputs {
	outs := &outputs{notes: fmt.Sprintf("counts processes=%d spans=%d again=%d lost=%d bad=%d open=%d calls=%d errors=%d\n",
		st.Processes, st.Spans, st.Again, st.Lost, st.Bad, st.Open, st.Calls, st.Errors)}
	for _, path := range st.Files {
		if strings.HasSuffix(path, ".jsonl") {
			outs.lines = append(outs.lines, path)
		} else {
			outs.traces = append(outs.traces, path)
		}
	}
	return outs
}

// replayRequests posts requests to the OTLP receiver in their order. A file
// NAME.sleep in place of a request is a pause. The receiver decodes the
// requests over a network connection; the code that makes traces of them runs
// in a bubble of package synctest, so that it does not depend on the speed of
// the machine. most limits the attributes, events and links of a span, 0 for
// the default.
func replayRequests(t *testing.T, dir string, most int) (*outputs, error) {
	var taken []*otlpreceiver.Batch // nil is a pause
	r, err := otlpreceiver.Listen(func(_ context.Context, b *otlpreceiver.Batch) error {
		taken = append(taken, b)
		return nil
	}, &otlpreceiver.Options{Logger: quiet})
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	notes := ""
	for _, path := range paths {
		if filepath.Ext(path) == ".sleep" {
			taken = append(taken, nil)
			continue
		}
		status, err := post(r.Endpoint()+otlpreceiver.Path, path)
		if err != nil {
			return nil, err
		}
		if status != "200 OK" {
			notes += fmt.Sprintf("%s is refused: %s\n", filepath.Base(path), status)
		}
	}
	st := r.Stats()
	notes += fmt.Sprintf("counts requests=%d spans=%d refused=%d\n", st.Requests, st.Spans, st.Refused)
	if err := r.Shutdown(context.Background()); err != nil {
		return nil, err
	}
	out := t.TempDir()
	synctest.Test(t, func(*testing.T) {
		attempt := 0
		files := otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{Dir: out, SessionTag: "session", JobID: "job", Attempt: &attempt, Recorded: "token", MaxAttributes: most, MaxEvents: most, MaxLinks: most, Logger: quiet})
		for _, b := range taken {
			if b == nil {
				time.Sleep(10 * time.Second)
			} else if takeErr := files.Take(context.Background(), b); takeErr != nil {
				notes += fmt.Sprintln("error:", takeErr)
			}
		}
		err = files.Close(context.Background())
		fs := files.Stats()
		notes += fmt.Sprintf("counts processes=%d spans=%d recorded=%d duplicates=%d lost=%d cut=%d/%d/%d\n",
			fs.Processes, fs.Spans, fs.Recorded, fs.Duplicates, fs.Lost, fs.CutAttributes, fs.CutEvents, fs.CutLinks)
	})
	if err != nil {
		return nil, err
	}
	outs := &outputs{notes: notes}
	outs.traces, err = filepath.Glob(filepath.Join(out, "*.pfw*"))
	return outs, err
}

// post sends a recorded request: NAME.protobuf or NAME.json, with .gzip
// appended if it is compressed.
func post(url, path string) (string, error) {
	body, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer body.Close()
	r, err := http.NewRequest(http.MethodPost, url, body)
	if err != nil {
		return "", err
	}
	name, isZipped := strings.CutSuffix(path, ".gzip")
	if isZipped {
		r.Header.Set("Content-Encoding", "gzip")
	}
	r.Header.Set("Content-Type", "application/json")
	if strings.HasSuffix(name, ".protobuf") {
		r.Header.Set("Content-Type", "application/x-protobuf")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	return answer.Status, answer.Body.Close()
}

// replayProfiles imports files of the PyTorch profiler and compiler, and sends
// spans of the level, if any.
func replayProfiles(t *testing.T, dir string, level torch.Level) (*outputs, error) {
	sources, err := torch.Files(dir)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(sources, func(a, b torch.Source) int { return strings.Compare(a.Name, b.Name) })
	outs := &outputs{traces: []string{filepath.Join(t.TempDir(), "trace.pfw.gz")}}
	var k keeper
	var o torch.Options
	if level != "" {
		o.Spans = &torch.SpanOptions{Exporter: &k, Level: level, Budget: 1000, Job: "job"}
	}
	var w *dftracer.Writer
	o.Begin = func(start time.Time) (_ torch.Sink, err error) {
		w, err = dftracer.Create(outs.traces[0], &dftracer.Options{Start: start, Process: dftracer.Process{Host: "node1", PID: 4242, PPID: 1, Exec: "import", Command: "import", Dir: "/"}})
		return w, err
	}
	report, err := torch.Import(context.Background(), nil, sources, &o)
	if err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	outs.notes = fmt.Sprintf("counts files=%d refused=%d failed=%d copies=%d\n", len(report.Files), len(report.Refused), len(report.Failed), len(report.Copies))
	for _, f := range report.Files {
		outs.notes += fmt.Sprintf("counts rank=%d steps=%d skipped=%d truncated=%v\n", f.Rank, f.Steps, f.Skipped, f.Truncated)
	}
	if level != "" {
		c := newCollector(t)
		if err := c.send(k.batches); err != nil {
			return nil, err
		}
		outs.requests = [][]request{c.requests}
	}
	return outs, nil
}

package jobs_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/pyring/pyclient"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

var record = flag.String("record", "", "record jobs again: a list of names, or all; README.md")

// recordAt is the working directory of recorded programs, so that the path in a
// recording is the same on all machines.
const recordAt = "/tmp/recording"

// program is a program to record.
type program struct {
	name   string // of the job
	run    string // the program and its arguments: one of testdata/programs, or a path from the root of the repository
	env    string
	ranks  int  // number of processes started at once, with RANK and WORLD_SIZE
	killed bool // it ends by a signal
	torch  bool // its interpreter has PyTorch
	makes  string
}

// programs are the recordings of Python programs. PYTHON is the interpreter,
// and OTEL_PYTHON the one with otel-pins.txt.
var programs = []program{
	{name: "ring-nested", run: "nested.py"},
	{name: "ring-forks", run: "forks.py", env: "RANK=0 WORLD_SIZE=1"},
	{name: "ring-killed", run: "killed.py", env: "RANK=1 WORLD_SIZE=2", killed: true},
	{name: "ring-off", run: "off.py"},
	{name: "ring-lapped", run: "lapped.py"},
	{name: "ring-tasks", run: "tasks.py"},
	{name: "ring-failing", run: "failing.py", killed: true},
	{name: "ring-dftracer-api", run: "integrations/python/testdata/dftracer/api.py"},
	{name: "ring-dftracer-files", run: "integrations/python/testdata/dftracer/io.py FOLDER 3"},
	{name: "ring-ai-logging", run: "integrations/python/testdata/ai_logging.py normal"},
	{name: "ring-guide", run: "integrations/python/testdata/guided.py 2 3"},
	{name: "ring-onelogger", run: "integrations/python/testdata/one_logger.py", ranks: 2},
	{name: "ring-onelogger-killed", run: "integrations/python/testdata/one_logger.py --die", killed: true, env: "RANK=0 WORLD_SIZE=1"},
	{name: "torch-plain", run: "integrations/python/testdata/torch/jobs/loops.py plain", torch: true},
	{name: "torch-accumulate", run: "integrations/python/testdata/torch/jobs/loops.py accumulate", torch: true},
	{name: "torch-gan", run: "integrations/python/testdata/torch/jobs/loops.py gan", torch: true},
	{name: "torch-checkpointing", run: "integrations/python/testdata/torch/jobs/loops.py reentrant", torch: true},
	{name: "torch-loader-fork", run: "integrations/python/testdata/torch/jobs/loaders.py fork", torch: true},
	{name: "torch-loader-spawn", run: "integrations/python/testdata/torch/jobs/loaders.py persistent", torch: true},
	{name: "torch-ddp", run: "integrations/python/testdata/torch/jobs/ranks.py plain", torch: true},
	{name: "torch-collectives", run: "integrations/python/testdata/torch/ranks.py", torch: true},
	{name: "torch-killed", run: "integrations/python/testdata/torch/killed.py", torch: true},
	{name: "torch-compiled", run: "integrations/python/testdata/torch/jobs/compiled.py parts", torch: true},
	{name: "torch-saves", run: "integrations/python/testdata/torch/jobs/saves.py atomic", env: "WORK=FOLDER", torch: true},
	{name: "torch-own-spans", run: "integrations/python/testdata/torch/own.py", torch: true},
	{name: "otlp-python", run: "spans.py protobuf", makes: "requests"},
	{name: "otlp-python-json", run: "spans.py json", makes: "requests"},
	{name: "otlp-python-ranks", run: "spans.py protobuf", makes: "requests", ranks: 2},
	{name: "profile-plain", run: "profiled.py FOLDER plain", makes: "profiles", torch: true},
	{name: "profile-steps", run: "profiled.py FOLDER steps", makes: "profiles", torch: true},
	{name: "profile-shapes", run: "profiled.py FOLDER shapes", makes: "profiles", torch: true},
	{name: "profile-ranks", run: "profiled.py FOLDER ranks", makes: "profiles", torch: true, ranks: 2},
	{name: "compile-log", run: "compile.py", makes: "profiles", env: "TORCH_TRACE=FOLDER", torch: true},
}

// recorded are the recordings made in Go: files by name.
var recorded = map[string]func(t *testing.T) map[string][]byte{
	"otlp-go": func(t *testing.T) map[string][]byte {
		return requestFiles(recordGo(t, otlptracehttp.NoCompression, ""))
	},
	"otlp-go-gzip": func(t *testing.T) map[string][]byte {
		return requestFiles(recordGo(t, otlptracehttp.GzipCompression, ""))
	},
	// The last request of the SDK comes first, and the others 10 s later.
	"otlp-late": func(t *testing.T) map[string][]byte {
		all := requestFiles(recordGo(t, otlptracehttp.NoCompression, ""))
		return map[string][]byte{"001.protobuf": all["002.protobuf"], "002.sleep": nil, "003.protobuf": all["001.protobuf"]}
	},
	// A repeated request, a truncated one, and one that is not a request.
	"otlp-again": func(t *testing.T) map[string][]byte {
		all := requestFiles(recordGo(t, otlptracehttp.NoCompression, ""))
		all["003.protobuf"], all["004.protobuf"], all["005.json"] = all["001.protobuf"], all["002.protobuf"][:100], []byte("{")
		return all
	},
	// From a process that writes its own trace.
	"otlp-recorded": func(t *testing.T) map[string][]byte {
		own := requestFiles(recordGo(t, otlptracehttp.NoCompression, "token"))
		other := requestFiles(recordGo(t, otlptracehttp.NoCompression, "another"))
		own["003.protobuf"], own["004.protobuf"] = other["001.protobuf"], other["002.protobuf"]
		return own
	},
}

// TestRecord records jobs again if the flag record is set.
func TestRecord(t *testing.T) {
	if *record == "" {
		t.Skip("records nothing without -record")
	}
	wanted := func(name string) bool { return *record == "all" || slices.Contains(strings.Split(*record, ","), name) }
	for _, p := range programs {
		if !wanted(p.name) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			if err := os.RemoveAll(recordAt); err != nil {
				t.Fatal(err)
			}
			files, err := p.record(t)
			if err != nil {
				t.Fatal(err)
			}
			if err := pack(p.name, cmp.Or(p.makes, "rings"), files); err != nil {
				t.Fatal(err)
			}
		})
	}
	for name, f := range recorded {
		if !wanted(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if err := pack(name, "requests", f(t)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// record runs the program and returns its files, by name.
func (p *program) record(t *testing.T) (map[string][]byte, error) {
	client, rings, work, folder := filepath.Join(recordAt, "client"), filepath.Join(recordAt, "rings"), filepath.Join(recordAt, "work"), filepath.Join(recordAt, "folder")
	for _, dir := range []string{client, rings, work, folder} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := pyclient.Unpack(client); err != nil {
		return nil, err
	}
	args := strings.Fields(strings.ReplaceAll(p.run, "FOLDER", folder))
	from := filepath.Join("testdata", "programs", args[0])
	if strings.Contains(args[0], "/") {
		from = filepath.Join("..", "..", filepath.FromSlash(args[0]))
	}
	if err := os.CopyFS(work, os.DirFS(filepath.Dir(from))); err != nil {
		return nil, err
	}
	if jobs := filepath.Join(filepath.Dir(from), "jobs"); filepath.Base(from) == "ranks.py" {
		_ = os.CopyFS(filepath.Join(work, "jobs"), os.DirFS(jobs)) // it may not exist
	}
	args[0] = filepath.Base(args[0])
	interpreter := cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3")
	var c *collector
	if p.makes == "requests" {
		interpreter, c = os.Getenv("OTEL_PYTHON"), newCollector(t)
		if interpreter == "" {
			return nil, fmt.Errorf("OTEL_PYTHON names no interpreter")
		}
	}
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + work, "PYTHONPATH=" + client, "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1", "USE_LIBUV=0"}
	if p.makes == "" {
		env = append(env, "TRAINSPAN_RING="+rings)
	} else {
		env[2] = "PYTHONPATH="
	}
	if c != nil {
		env = append(env, "ENDPOINT="+c.URL)
	}
	env = append(env, strings.Fields(strings.ReplaceAll(p.env, "FOLDER", folder))...)
	var running []*exec.Cmd
	var outputs []*bytes.Buffer
	for rank := range max(p.ranks, 1) {
		cmd := exec.Command(interpreter, args...)
		cmd.Dir, cmd.Env = work, slices.Clone(env)
		if p.ranks > 0 {
			cmd.Env = append(cmd.Env, fmt.Sprint("RANK=", rank), fmt.Sprint("LOCAL_RANK=", rank), fmt.Sprint("WORLD_SIZE=", p.ranks))
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		running, outputs = append(running, cmd), append(outputs, &out)
	}
	for i, cmd := range running {
		if err := cmd.Wait(); (err != nil) != p.killed {
			return nil, fmt.Errorf("%v: %v\n%s", cmd.Args, err, outputs[i])
		}
	}
	if c != nil {
		return requestFiles(c.requests), nil
	}
	from = rings
	if p.makes == "profiles" {
		from = folder
	}
	files := make(map[string][]byte)
	return files, filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[d.Name()] = data
		return err
	})
}

// requestFiles names requests by their order and kind.
func requestFiles(all []request) map[string][]byte {
	files := make(map[string][]byte)
	for i, r := range all {
		name := fmt.Sprintf("%03d.protobuf", i+1)
		if r.media == "application/json" {
			name = fmt.Sprintf("%03d.json", i+1)
		}
		if r.encoding != "" {
			name += "." + r.encoding
		}
		files[name] = r.body
	}
	return files
}

// pack writes files as the recording of a job.
func pack(job, kind string, files map[string][]byte) error {
	if len(files) == 0 {
		return fmt.Errorf("%s recorded nothing", job)
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, name := range sortedKeys(files) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(files[name]))}); err != nil {
			return err
		}
		if _, err := w.Write(files[name]); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	dir := filepath.Join("testdata", job)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, kind+".tar.gz"), b.Bytes(), 0o644)
}

// recordGo sends spans with the OpenTelemetry SDK for Go, in two requests.
func recordGo(t *testing.T, compression otlptracehttp.Compression, token string) []request {
	ctx := t.Context()
	c := newCollector(t)
	e, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(c.URL+"/v1/traces"), otlptracehttp.WithCompression(compression))
	if err != nil {
		t.Fatal(err)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(e, sdktrace.WithBatchTimeout(time.Hour)), sdktrace.WithResource(resource.NewSchemaless(
		attribute.String("service.name", "go-trainer"), attribute.Int("training.rank", 3), attribute.Int("training.world_size", 4),
		attribute.String("host.name", "node9"), attribute.Int("process.pid", 77), attribute.String("trainspan.recorded", token))))
	tracer := p.Tracer("example.com/train")
	ctx, app := tracer.Start(ctx, "application", oteltrace.WithAttributes(attribute.StringSlice("tags", []string{"a", "b"}), attribute.Float64("share", 0.5)))
	var last oteltrace.SpanContext
	for step := range 2 {
		ctx, it := tracer.Start(ctx, "training_single_iteration", oteltrace.WithAttributes(attribute.Int("step", step)))
		_, fw := tracer.Start(ctx, "model_forward")
		fw.AddEvent("loss", oteltrace.WithAttributes(attribute.Float64("value", 2.5)))
		fw.End()
		_, get := p.Tracer("example.com/net/http").Start(ctx, "GET", oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithAttributes(attribute.Bool("cached", true)))
		get.RecordError(fmt.Errorf("connection refused"))
		get.SetStatus(codes.Error, "connection refused")
		get.End()
		it.End()
		last = it.SpanContext()
		if step == 0 {
			if err := p.ForceFlush(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Two overlapping spans, neither inside the other.
	_, a := tracer.Start(ctx, "upload", oteltrace.WithSpanKind(oteltrace.SpanKindProducer))
	time.Sleep(time.Millisecond) // part of the recording
	_, b := tracer.Start(ctx, "download", oteltrace.WithLinks(oteltrace.Link{SpanContext: last, Attributes: []attribute.KeyValue{attribute.String("why", "next")}}))
	time.Sleep(time.Millisecond) // part of the recording
	a.End()
	time.Sleep(time.Millisecond) // part of the recording
	b.End()
	app.End()
	if err := p.Shutdown(context.WithoutCancel(ctx)); err != nil {
		t.Fatal(err)
	}
	return c.requests
}

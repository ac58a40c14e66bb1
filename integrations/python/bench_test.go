//go:build unix

package python_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"golang.org/x/sys/unix"
)

// BenchmarkPython reports the cost of a span for the Python program while its
// ring buffer is drained, as a multiple of two clock reads.
//
//	go test -run '^$' -bench Python ./integrations/python
func BenchmarkPython(b *testing.B) { benchmarkProgram(b, "spans.py") }

// BenchmarkPythonFiles reports the same for recorded calls on files, without
// the calls themselves.
func BenchmarkPythonFiles(b *testing.B) { benchmarkProgram(b, "files.py") }

func benchmarkProgram(b *testing.B, program string) {
	rings := memory(b)
	d, err := pyring.New(pyring.Options{Dir: rings, Out: b.TempDir(), Attempt: -1})
	if err != nil {
		b.Skip(err)
	}
	defer d.Close(context.Background()) //nolint:errcheck // of the benchmark
	for b.Loop() {
		for line := range strings.Lines(pyrun.Run(b, rings, filepath.Join("bench", program))) {
			f := strings.Fields(line)
			if ratio, err := strconv.ParseFloat(f[len(f)-2], 64); err == nil && f[len(f)-1] == "x" {
				b.ReportMetric(ratio, f[0]+"-x")
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPythonImport reports the time to import the API, over that of json,
// which many programs import: the minimum of 20 interpreters each, by -X
// importtime.
func BenchmarkPythonImport(b *testing.B) {
	least := func(module string) float64 {
		best := 0.
		for range 20 {
			cmd := pyrun.Command(b, "", "")
			cmd.Args = []string{cmd.Args[0], "-X", "importtime", "-c", "import " + module}
			cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "PYTHONDONTWRITEBYTECODE=") })
			cmd.Env = append(cmd.Env, "PYTHONPYCACHEPREFIX="+filepath.Join(os.TempDir(), "trainspan-pycache"))
			text, err := cmd.CombinedOutput()
			if err != nil {
				b.Fatalf("Python: %v\n%s", err, text)
			}
			for line := range strings.Lines(string(text)) {
				if f := strings.Split(line, "|"); len(f) == 3 && strings.TrimSpace(f[2]) == module {
					if us, err := strconv.ParseFloat(strings.TrimSpace(f[1]), 64); err == nil && (best == 0 || us < best) {
						best = us
					}
				}
			}
		}
		return best
	}
	for b.Loop() {
		us, json := least("trainspan.dftracer"), least("json")
		b.ReportMetric(us/1000, "ms")
		b.ReportMetric(us/max(json, 1), "json-x")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkOneLogger reports the cost of an iteration and of a timed_span with
// one-logger's API, without an exporter and with a FileExporter: in
// microseconds of CPU time of all threads, and as a multiple of the original,
// if tools/ci/originals onelogger has installed it.
func BenchmarkOneLogger(b *testing.B) {
	rings := memory(b)
	d, err := pyring.New(pyring.Options{Dir: rings, Out: b.TempDir(), Attempt: -1})
	if err != nil {
		b.Skip(err)
	}
	defer d.Close(context.Background()) //nolint:errcheck // of the benchmark
	original := ""
	if cache, err := os.UserCacheDir(); err == nil {
		original, _ = exec.LookPath(filepath.Join(cache, "trainspan", "originals", "bin", "python"))
	}
	least := map[string]float64{}
	take := func(prefix, text string) {
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			if ns, err := strconv.ParseFloat(f[1], 64); err == nil && (least[prefix+f[0]] == 0 || ns < least[prefix+f[0]]) {
				least[prefix+f[0]] = ns
			}
		}
	}
	exporters := map[string][]string{"": nil, "file-": {"file"}}
	for b.Loop() {
		for exporter, args := range exporters {
			program := filepath.Join("bench", "onelogger.py")
			take(exporter, pyrun.Run(b, rings, program, append([]string{"trainspan.onelogger"}, args...)...))
			if original != "" {
				cmd := exec.Command(original, append([]string{"-Wignore", filepath.Join(pyrun.Client(), program), "nv_one_logger"}, args...)...)
				cmd.Dir = b.TempDir() // the program leaves logs there
				take("original-"+exporter, pyrun.Output(b, cmd))
			}
		}
	}
	for exporter := range exporters {
		for _, row := range []string{"pair", "with", "attribute", "timed_span"} {
			row = exporter + row
			b.ReportMetric(least[row]/1000, row+"-us")
			if original != "" {
				b.ReportMetric(least["original-"+row]/least[row], "original-"+row+"-x")
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkDrain reports the cost of a span for the reader, from the ring
// buffer to the compressed trace: eight processes that record 25,000 spans a
// second each.
func BenchmarkDrain(b *testing.B) { benchmarkDrain(b, nil) }

// BenchmarkSend reports the same if spans are sent: those of the default
// customization, none of a single iteration, and all.
func BenchmarkSend(b *testing.B) {
	for name, export := range map[string]config.Export{"default": {}, "everything": {Mode: config.ExportAll}} {
		b.Run(name, func(b *testing.B) {
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { _, _ = io.Copy(io.Discard, q.Body) }))
			defer server.Close()
			benchmarkDrain(b, func(code config.Config) (config.Config, error) {
				code.Export, code.Outputs.OTLP = export, config.OTLP{Endpoint: server.URL}
				return code, nil
			})
		})
	}
}

func benchmarkDrain(b *testing.B, send func(config.Config) (config.Config, error)) {
	const processes, seconds, rate = 8, 2, 25_000
	var spans, lost, cpu, sent int64
	for b.Loop() {
		rings := memory(b)
		d, err := pyring.New(pyring.Options{Dir: rings, Out: b.TempDir(), Attempt: -1, Config: send})
		if err != nil {
			b.Skip(err)
		}
		before := processor()
		var commands []*exec.Cmd
		for range processes {
			cmd := pyrun.Command(b, rings, filepath.Join("bench", "spans.py"), "load", strconv.Itoa(seconds), strconv.Itoa(rate))
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			commands = append(commands, cmd)
		}
		for _, cmd := range commands {
			if err := cmd.Wait(); err != nil {
				b.Fatal(err)
			}
		}
		if err := d.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
		cpu += processor() - before
		st := d.Stats()
		spans, lost = spans+st.Spans, lost+st.Lost
		sent += st.Delivery.Sent
	}
	b.ReportMetric(float64(cpu)/float64(spans), "cpu-ns/span")
	b.ReportMetric(float64(spans)/float64(b.N), "spans/op")
	b.ReportMetric(float64(lost)/float64(b.N), "lost/op")
	if send != nil {
		b.ReportMetric(float64(sent)/float64(b.N), "sent/op")
	}
}

// memory returns a folder for ring buffers, in shared memory if possible.
func memory(b *testing.B) string {
	dir, err := os.MkdirTemp("/dev/shm", "trainspan-bench-")
	if err != nil {
		return b.TempDir()
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// processor returns the CPU time of this process, in nanoseconds.
func processor() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

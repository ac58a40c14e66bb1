package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/built"
)

// nodePackages are the dependencies of the job in JavaScript.
var nodePackages = []string{"@opentelemetry/api@1.9.1", "@opentelemetry/sdk-node@0.223.0"}

// nodeJob does not train, but sends the spans that NeMo Lens would send.
const nodeJob = `
const { NodeSDK } = require('@opentelemetry/sdk-node');
const { trace, context } = require('@opentelemetry/api');
const sdk = new NodeSDK({ serviceName: 'train', metricReaders: [], logRecordProcessors: [] });
sdk.start();
const tracer = trace.getTracer('nemo.lens');
const loop = tracer.startSpan('nv.dl.training.iter_block');
const inside = trace.setSpan(context.active(), loop);
for (let i = 0; i < 7; i++) {
  const step = tracer.startSpan('nv.dl.training.iteration', { attributes: { 'nv.dl.training.step': i } }, inside);
  tracer.startSpan('nv.dl.training.iteration.optimizer_step', {}, trace.setSpan(inside, step)).end();
  step.end();
}
loop.end();
sdk.shutdown().then(() => console.log('sent'), (err) => { console.error(err); process.exit(1); });
`

// TestNodeSendsToRun checks that OpenTelemetry's SDK for Node sends to
// trainspan run, with each of its protocols, with only the variables that
// trainspan run sets.
func TestNodeSendsToRun(t *testing.T) {
	if testing.Short() {
		t.Skip("packages of Node are fetched")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("there is no npm")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node")
	}
	ctx, dir := untilDeadline(t), t.TempDir()
	install := exec.CommandContext(ctx, npm, append([]string{"install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir}, nodePackages...)...)
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("the packages cannot be fetched: %v\n%s", err, out)
	}
	job := filepath.Join(dir, "job.js")
	if err := os.WriteFile(job, []byte(nodeJob), 0o600); err != nil {
		t.Fatal(err)
	}
	program := built.Command(t)
	for _, protocol := range []string{"", "http/protobuf", "http/json", "grpc"} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			at := t.TempDir()
			cmd := exec.CommandContext(ctx, program, "run", "--otlp", "--quiet", "--dir", at, "--", node, job)
			cmd.Env = os.Environ()
			if protocol != "" {
				cmd.Env = append(cmd.Env, "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol)
			}
			out, err := cmd.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("sent")) {
				t.Fatalf("import: %v, want \"sent\"\n%s", err, out)
			}
			paths, err := filepath.Glob(filepath.Join(at, "otlp-*.pfw.gz"))
			if err != nil || len(paths) != 1 {
				t.Fatalf("files %v, want one: %v", paths, err)
			}
			if got := strings.Join(iterations(t, paths[0]), " "); got != "0 1 2 3 4 5 6" {
				t.Errorf("the steps are %s, want \"0 1 2 3 4 5 6\"", got)
			}
		})
	}
}

// iterations returns the steps of a trace in order, each with an optimizer
// step.
func iterations(t *testing.T, path string) (steps []string) {
	t.Helper()
	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // only read
	updates := 0
	for {
		ev, err := r.Next()
		if err != nil {
			break
		}
		switch {
		case ev.Phase == dftracer.PhaseComplete && ev.Name == "train.iteration":
			step, _ := ev.Arg("step")
			steps = append(steps, step.Text())
		case ev.Phase == dftracer.PhaseComplete && ev.Cat == "compute" && ev.Name == "step":
			updates++
		}
	}
	if updates != len(steps) {
		t.Errorf("%d steps have %d of the optimizer, want as many", len(steps), updates)
	}
	slices.Sort(steps)
	return steps
}

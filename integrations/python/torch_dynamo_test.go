package python_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTorchDynamo checks that the operations of graphs that DFTracer's
// integration compiles are recorded with its names, and that the graphs give
// the same results as without it.
func TestTorchDynamo(t *testing.T) {
	if testing.Short() {
		t.Skip("loads PyTorch")
	}
	if version, err := torchVersion(); err != nil || version == "1.13" {
		t.Skip("there is no torch.compile")
	}
	j := newTorchJob(t, "traced.py")
	if out := j.run(t); out != "fine" {
		t.Fatalf("it printed %q, want \"fine\"", out)
	}
	tr := only(t, j.traces(t), "dynamo/method.tanh")
	for name, want := range map[string]int{
		"dynamo/function.addmm.default": 3, "dynamo/function.relu.default": 1, "dynamo/function.sigmoid.default": 1,
		"dynamo/function.linear": 3, "dynamo/function.relu": 1, "dynamo/method.tanh": 1,
	} {
		if got := tr.count[name]; got != want {
			t.Errorf("%d of %s, want %d", got, name, want)
		}
	}
	backward := 0
	for _, s := range tr.spans {
		if s.Cat == "dynamo" && s.args["grad_enabled"] == "" {
			t.Errorf("%s has no grad_enabled: %v", s.name, s.args)
		}
		if s.args["phase"] == "backward" {
			backward++
		}
	}
	if s := tr.named("dynamo/function.relu")[0]; backward == 0 || s.args["epoch"] != "1" || s.args["step"] != "100" {
		t.Errorf("%d operations in backward, arguments %v; want some, epoch 1, step 100", backward, s.args)
	}
	if tr.named("dynamo/method.tanh")[0].args["grad_enabled"] != "0" {
		t.Errorf("grad_enabled = %s, want 0", tr.named("dynamo/method.tanh")[0].args["grad_enabled"])
	}
}

// TestTorchDynamoGraph checks that threads may run a graph at the same time, and
// that the graph keeps no tensor.
func TestTorchDynamoGraph(t *testing.T) {
	if out := newTorchJob(t, "traced.py", "graph").run(t); out != "fine" {
		t.Errorf("it printed %q, want \"fine\"", out)
	}
}

// TestTorchDecorators checks that spans on functions of compiled models, and the
// hooks, change no result, with other decorators above them and below: also
// without the hooks.
func TestTorchDecorators(t *testing.T) {
	if testing.Short() {
		t.Skip("loads PyTorch")
	}
	if version, err := torchVersion(); err != nil || version == "1.13" {
		t.Skip("there is no torch.compile")
	}
	printed := func(order string, env ...string) []string {
		j := newTorchJob(t, "decorated.py", order)
		j.Env = append(j.Env, env...)
		return strings.Split(j.run(t), "\n")
	}
	want := printed("second", "DFTRACER_ENABLE=0")
	if len(want) < 30 || !strings.HasPrefix(want[len(want)-2], "fine") {
		t.Fatalf("without the client it printed\n%s", strings.Join(want, "\n"))
	}
	for name, args := range map[string][]string{
		"with hooks":    {"second", "TRAINSPAN_TORCH=1"},
		"without hooks": {"second", "TRAINSPAN_TORCH=0", "DFTRACER_ENABLE=1"}, "without hooks, the client first": {"first", "TRAINSPAN_TORCH=0", "DFTRACER_ENABLE=1"},
	} {
		got := printed(args[0], args[1:]...)
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("%s, line %d:\n%s\nwant\n%s", name, i+1, strings.Join(got[min(i, len(got)):], "\n"), strings.Join(want[min(i, len(want)):], "\n"))
			}
		}
	}
}

// TestTorchGuides checks that the PyTorch programs of DFTracer's documents run
// with only the import changed, and that their spans are recorded.
func TestTorchGuides(t *testing.T) {
	if testing.Short() {
		t.Skip("loads PyTorch")
	}
	version, err := torchVersion()
	if err != nil || version == "1.13" {
		t.Skip("they need torch 2.5.1 or later")
	}
	for file, want := range map[string]string{
		"profiler.py": "PP/aten::linear", "dynamo_backend.py": "dynamo/function.addmm.default",
		"dynamo_decorator.py": "dynamo/function.convolution.default", "dynamo_training.py": "dynamo/function.mm.default",
	} {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "data", "guides", file))
			if err != nil {
				t.Skip(err)
			}
			program := regexp.MustCompile(`(?m)^from dftracer`).ReplaceAllString(string(text), "from trainspan.dftracer")
			if version == "2.6" {
				// Debian's build of PyTorch ends with a segmentation fault, also without the
				// client.
				program = strings.ReplaceAll(program, "with_stack=True", "with_stack=False")
			}
			path := filepath.Join(t.TempDir(), file)
			if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			j := newTorchJob(t, path)
			if out := j.run(t); !strings.Contains(out, "done") {
				t.Fatalf("it printed %q, want \"done\" in it", out)
			}
			tr := only(t, j.traces(t), want)
			if tr.count[want] == 0 {
				t.Errorf("no %s on record: %v", want, tr.count)
			}
		})
	}
}

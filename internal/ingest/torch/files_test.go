package torch_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

// In a directory, traces and compile logs are recognized by their contents. The
// import reports a file that is named like a trace and is something else.
func TestFilesOfADirectory(t *testing.T) {
	dir := t.TempDir()
	const log = "V0822 14:00:48.902000 1543231 torch/_dynamo/utils.py:1288] {\"str\": [\"a.py\", 0]}\n"
	for name, text := range map[string]string{
		"rank0.pt.trace.json": "{}", "ranks.tar": "", "simple.log.gz": string(gziptest.Pack([]byte(log))), "renamed.log": log,
		"server.log": "I0822 14:00:48.902000 1 main.go:1] started\n", "notes.txt": "", ".hidden.json": "{}",
		"broken.log.gz": "x", "a profile.txt": `{"schemaVersion": 1, "traceEvents": []}`, "other.bin": `[{"ph":"X"}]`, "lines.json": `{"ph":"X"}`, "trace.txt": `{"ph":"X"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sources, err := torch.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range sources {
		got = append(got, filepath.Base(s.Name))
	}
	if want := []string{"a profile.txt", "lines.json", "other.bin", "rank0.pt.trace.json", "ranks.tar", "renamed.log", "simple.log.gz"}; !slices.Equal(got, want) {
		t.Errorf("files are %v, want %v", got, want)
	}
}

// Folders of torch.compile are recognized, and the message names what to import
// instead.
func TestFoldersOfTorchCompileAreRefusedByName(t *testing.T) {
	const dynamo = `[{"name":"dynamo","ph":"B","cat":"dynamo_timed","ts":1778000000000000.5,"pid":0,"tid":0,"args":{"compile_id":"0/0"}}]`
	const profile = `{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1778000000000000,"dur":9}]}`
	for _, tc := range []struct {
		name, give string
		files      []string
		want       string // "" if it is imported
	}{
		{"debug root", "torch_compile_debug", []string{"torch_compile_debug/run_2026_01_02-pid_7/torchdynamo/debug.log"}, "TORCH_COMPILE_DEBUG"},
		{"debug run", "torch_compile_debug/run_2026_01_02-pid_7", []string{
			"torch_compile_debug/run_2026_01_02-pid_7/torchdynamo/debug.log",
			"torch_compile_debug/run_2026_01_02-pid_7/torchinductor/model__0_forward_1.0/output_code.py"}, "TORCH_COMPILE_DEBUG"},
		{"debug below", ".", []string{"torch_compile_debug/run_2026_01_02-pid_7/torchdynamo/debug.log", "train.py"}, "TORCH_COMPILE_DEBUG"},
		{"debug beside a trace", ".", []string{"torch_compile_debug/run_2026_01_02-pid_7/torchdynamo/debug.log", "p.json"}, ""},
		{"tlparse", "tl_out", []string{"tl_out/index.html", "tl_out/raw.jsonl", "tl_out/chromium_events.json", "tl_out/-_0_0_0/graph.txt"}, "tlparse"},
		{"tlparse below", ".", []string{"tl_out/index.html", "tl_out/raw.jsonl"}, "tlparse"},
		{"tlparse timeline", "tl_out/chromium_events.json", []string{"tl_out/chromium_events.json"}, "tlparse"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range tc.files {
				path := filepath.Join(dir, filepath.FromSlash(f))
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				text := profile
				switch filepath.Base(f) {
				case "chromium_events.json":
					text = dynamo
				case "train.py":
					text = "import torch\n"
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			sources, err := torch.Files(filepath.Join(dir, filepath.FromSlash(tc.give)))
			if err != nil {
				t.Fatal(err)
			}
			rep, err := torch.Import(t.Context(), &capture{}, sources, nil)
			if tc.want == "" {
				if err != nil || len(rep.Files) != 1 || len(rep.Refused) != 0 {
					t.Fatalf("error %v, refused %v; want one file, none refused", err, rep.Refused)
				}
				return
			}
			var refused *kineto.RefusedError
			if !errors.As(err, &refused) || len(rep.Refused) != 1 {
				t.Fatalf("error %v, refused %v; want one refused", err, rep.Refused)
			}
			if !strings.Contains(refused.What, tc.want) || !strings.Contains(refused.Hint, "dedicated_log_torch_trace_") {
				t.Errorf("refusal %v, want %q and a hint at dedicated_log_torch_trace_", refused, tc.want)
			}
		})
	}
}

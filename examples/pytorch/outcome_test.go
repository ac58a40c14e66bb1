package pytorch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFailedRank checks that the report names first the rank that failed, and
// the reason, with any launcher and whatever errors the other ranks have.
func TestFailedRank(t *testing.T) {
	torchrun := []string{"-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-conf", "store_type=file", "--rdzv-endpoint"}
	for _, launcher := range []string{"spawn", "torchrun"} {
		for how, want := range map[string]string{
			"raise": "Failed: rank 1, ValueError: the token REDACTED is wrong.", "kill": "Ended by SIGKILL: rank 1.", "exit": "Failed: rank 1, status 7.",
		} {
			t.Run(launcher+" "+how, func(t *testing.T) {
				j := newJob(t, 2)
				python := j.Args[6]
				args := []string{python, "testdata/fails.py", how}
				if launcher == "torchrun" {
					if err := exec.Command(python, "-c", "import torch; assert torch.__version__ >= '2'").Run(); err != nil {
						t.Skip("torchrun of torch 1.13 does not run in this Python")
					}
					args = append(append([]string{python}, torchrun...), filepath.Join(t.TempDir(), "store"), "testdata/fails.py", how)
				}
				j.Args = append(j.Args[:5], append([]string{"--"}, args...)...)
				// Debian builds torch without libuv, which the stores would use.
				j.Env = append(j.Env, "USE_LIBUV=0", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1")
				if err := j.Run(); err == nil {
					t.Fatalf("job ended without an error, want one:\n%s", &j.out)
				}
				if strings.Contains(j.out.String(), "Fatal Python error") {
					t.Errorf("a rank was aborted, want an orderly end:\n%s", &j.out)
				}
				r := j.report(t)
				// Under load a launcher may report first another rank that has noticed the
				// failure.
				silent := how != "raise" && strings.HasPrefix(r.Verdict.Sentence, "Ended without an end record: rank 1,")
				if !strings.HasPrefix(r.Verdict.Sentence, want) && !silent || strings.Contains(r.Verdict.Sentence, "hunter2") {
					t.Errorf("sentence %q, want %q first, without the secret\n%s", r.Verdict.Sentence, want, &j.out)
				}
				files, err := filepath.Glob(filepath.Join(j.dir, "*"))
				if err != nil || len(files) < 3 {
					t.Fatalf("files %v, %v; want 3 or more", files, err)
				}
				for _, path := range files {
					out, err := exec.Command(j.Path, "trace", "events", path).Output()
					if text, _ := os.ReadFile(path); err == nil && strings.Contains(string(out), "hunter2") || strings.Contains(string(text), "hunter2") {
						t.Errorf("%s has the secret", path)
					}
				}
			})
		}
	}
}

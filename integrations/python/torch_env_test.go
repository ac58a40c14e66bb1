//go:build linux

package python_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// newTorchEnv returns testdata/torch/env.sh with a fast installer that counts
// its calls and runs the shell text makes.
func newTorchEnv(t *testing.T, makes string) (run func(args ...string) (string, int), cache string) {
	t.Helper()
	if os.Getuid() != 0 || exec.Command("unshare", "--mount", "true").Run() != nil {
		t.Skip("needs root and mount namespaces")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip(err)
	}
	bin, cache := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	// A folder with one program in place of all: it prints its arguments.
	write("main.go", "package main\n\nimport (\"fmt\"; \"os\")\n\nfunc main() { fmt.Println(os.Args) }\n")
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "all"), filepath.Join(bin, "main.go"))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	write("apt-get", "#!/bin/sh\necho file:/debian/\n")
	write("mmdebstrap", `#!/bin/bash
set -e
folder=${@:$#-1:1}
echo once >>"`+cache+`/asked"
mkdir -p "$folder"/{proc,sys,dev,tmp,usr/bin,etc}
mount -t tmpfs none "$folder/proc"
cp "`+filepath.Join(bin, "all")+`" "$folder/usr/bin/env"
`+makes+"\n")
	return func(args ...string) (string, int) {
		cmd := exec.Command(filepath.Join("testdata", "torch", "env.sh"), args...)
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache, "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}, cache
}

// asked returns the number of calls of the installer.
func asked(t *testing.T, cache string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(cache, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "once")
}

// TestTorchEnv checks that the folder is made once, by one of several processes
// that need it, and that nothing stays mounted.
func TestTorchEnv(t *testing.T) {
	run, cache := newTorchEnv(t, "")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if out, status := run("2.6", "hello"); status != 0 || !strings.Contains(out, "hello]") {
				t.Errorf("env.sh 2.6 hello: status %d, want 0 and the greeting: %s", status, out)
			}
		})
	}
	all.Wait()
	if n := asked(t, cache); n != 1 {
		t.Errorf("it was made %d times, want 1", n)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), cache) {
		t.Errorf("PyTorch is mounted, want no mount\n%s", mounts)
	}
}

// TestTorchEnvInterrupted checks that an incomplete folder is never used,
// whichever process was killed.
func TestTorchEnvInterrupted(t *testing.T) {
	for name, kill := range map[string]string{
		"the maker fails": "exit 9", "the maker is killed": "kill -9 $$", "the script and the maker are killed": "kill -9 $PPID; kill -9 $$",
	} {
		t.Run(name, func(t *testing.T) {
			first := `[ "$(wc -l <"$(dirname "$(dirname "$folder")")/asked")" != 1 ] || { ` + kill + "; }"
			run, cache := newTorchEnv(t, first)
			if out, status := run("2.6", "hello"); status != 1 || !strings.Contains(out, "could not be made") {
				t.Errorf(`env.sh 2.6 hello: status %d, want 1 and "could not be made": %s`, status, out)
			}
			if out, status := run("2.6", "hello"); status != 0 || !strings.Contains(out, "hello]") {
				t.Errorf("env.sh 2.6 hello: status %d, want 0 and the greeting: %s", status, out)
			}
			if n := asked(t, cache); n != 2 {
				t.Errorf("it was made %d times, want 2", n)
			}
			left, err := filepath.Glob(filepath.Join(cache, "trainspan", "*.new"))
			if err != nil || len(left) > 0 {
				t.Errorf("files left: %v, %v; want none", left, err)
			}
		})
	}
}

// TestTorchEnvWithout checks the message and the exit status if a requirement
// is missing.
func TestTorchEnvWithout(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(bash, filepath.Join("testdata", "torch", "env.sh"), "2.6", "true")
	cmd.Env = []string{"PATH=" + t.TempDir(), "HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if !errors.As(err, &failed) || failed.ExitCode() != 75 || !strings.Contains(string(out), "PyTorch 2.6 is skipped: no ") {
		t.Errorf(`env.sh without Python: %v, want status 75 and "PyTorch 2.6 is skipped": %s`, err, out)
	}
}

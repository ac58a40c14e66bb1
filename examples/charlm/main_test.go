package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/examples/charlm/internal/data"
	"go.uber.org/goleak"
)

// asProgram is the environment variable that makes the test binary run the
// program, so that a test can send it a signal.
const asProgram = "CHARLM_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// sourceTree writes small Go files with text that the model can learn.
func sourceTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	words := []string{"reader", "writer", "buffer", "closer", "scanner"}
	for i := range 30 {
		var b strings.Builder
		for j := range 20 {
			w := words[(i+j)%len(words)]
			b.WriteString("func (x *" + w + ") use() error {\n\treturn x." + w + ".Close()\n}\n\n")
		}
		if err := os.WriteFile(filepath.Join(dir, "f"+strconv.Itoa(i)+".go"), []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// small returns flags of a model that trains fast, also under the race
// detector.
func small(out, text string, more ...string) []string {
	return append([]string{
		"-out", out, "-text", text, "-epochs", "2", "-steps", "20", "-batch", "16", "-context", "5",
		"-embed", "6", "-hidden", "15", "-validate-every", "0", "-validate-steps", "2", "-test-steps", "2",
		"-checkpoint-every", "0", "-progress", "off",
	}, more...)
}

// runOK runs the program and returns its output.
func runOK(t *testing.T, stop <-chan struct{}, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), args, stop, &stdout, &stderr); code != 0 {
		t.Fatalf("exit status %d, want 0: %s", code, stderr.String())
	}
	return stdout.String()
}

func TestLossFalls(t *testing.T) {
	out := runOK(t, nil, small(t.TempDir(), sourceTree(t), "-epochs", "4", "-steps", "50",
		"-lr", "0.01", "-hidden", "24", "-validate-every", "1", "-validate-steps", "1")...)
	losses := validationLosses(t, out)
	if len(losses) != 200 {
		t.Fatalf("%d validations, want 200:\n%s", len(losses), out)
	}
	first, last := losses[0], losses[len(losses)-1]
	if first < 4 || last > first/3 {
		t.Errorf("validation loss went from %.3f to %.3f in 200 steps, want a fall to a third", first, last)
	}
	if test := number(t, out, `test: loss ([0-9.]+)`); test > first/3 {
		t.Errorf("test loss %.3f, want below %.3f", test, first/3)
	}
}

func TestLossFallsOnTheStandardLibrary(t *testing.T) {
	if _, err := data.FindText(t.Context()); err != nil {
		t.Skipf("no Go sources on this machine: %v", err)
	}
	out := runOK(t, nil, "-out", t.TempDir(), "-epochs", "1", "-steps", "200", "-batch", "64", "-context", "6",
		"-embed", "8", "-hidden", "32", "-lr", "0.01", "-validate-every", "100", "-progress", "off")
	losses := validationLosses(t, out)
	if len(losses) != 2 || !(losses[1] < losses[0]) || losses[1] > 3.5 {
		t.Errorf("validation losses %v, want two that fall below 3.5 from the %.2f of a guess", losses, math.Log(data.Vocab))
	}
	t.Logf("validation losses %v", losses)
	if !strings.Contains(out, "the model writes:\n// New") {
		t.Errorf("no sample in\n%s, want %q in it", out, "the model writes:\n// New")
	}
}

// TestResumeIsExact compares the last checkpoints of an unbroken run and of a
// stopped and resumed one: they are equal, byte for byte.
func TestResumeIsExact(t *testing.T) {
	text := sourceTree(t)
	for _, tt := range []struct {
		name string
		stop int
		more []string
	}{
		{"one replica, in an epoch", 13, []string{"-replicas", "1"}},
		{"one replica, after an epoch", 20, []string{"-replicas", "1"}},
		{"two replicas", 20, []string{"-replicas", "2", "-workers", "3"}},
		{"background saves", 7, []string{"-async-checkpoint", "-checkpoint-every", "7"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			whole, broken := t.TempDir(), t.TempDir()
			runOK(t, nil, small(whole, text, tt.more...)...)

			// The validation line shows the step at which the test stops the run.
			stop := make(chan struct{})
			var once sync.Once
			watch := writerFunc(func(p []byte) {
				if strings.Contains(string(p), "step "+strconv.Itoa(tt.stop)+": validation") {
					once.Do(func() { close(stop) })
				}
			})
			args := small(broken, text, append(tt.more, "-validate-every", strconv.Itoa(tt.stop))...)
			if code := run(t.Context(), args, stop, watch, os.Stderr); code != 0 {
				t.Fatalf("the stopped run exits with %d, want 0", code)
			}
			paths, err := filepath.Glob(filepath.Join(broken, "checkpoints", "*"))
			if err != nil || len(paths) != 1 || !strings.HasSuffix(paths[0], checkpointName(tt.stop)) {
				t.Fatalf("the stopped run left %v (%v), want step %d", paths, err, tt.stop)
			}
			out := runOK(t, nil, small(broken, text, append(tt.more, "-resume")...)...)
			if !strings.Contains(out, "resumed from "+paths[0]) {
				t.Errorf("not resumed:\n%s, want %q in it", out, "resumed from "+paths[0])
			}
			if !bytes.Equal(read(t, whole, 40), read(t, broken, 40)) {
				t.Error("step 40 of the resumed run differs from the unbroken one")
			}
		})
	}
}

func TestSeedsDiffer(t *testing.T) {
	text := sourceTree(t)
	a, b := t.TempDir(), t.TempDir()
	runOK(t, nil, small(a, text, "-seed", "1")...)
	runOK(t, nil, small(b, text, "-seed", "2")...)
	if bytes.Equal(read(t, a, 40), read(t, b, 40)) {
		t.Error("two seeds gave the same weights")
	}
}

func TestCheckpointsOfAnotherRun(t *testing.T) {
	text, out := sourceTree(t), t.TempDir()
	runOK(t, nil, small(out, text, "-checkpoint-every", "10", "-keep", "2")...)
	names, err := filepath.Glob(filepath.Join(out, "checkpoints", "*"))
	if err != nil || len(names) != 2 {
		t.Errorf("kept %v (%v), want two", names, err)
	}
	for _, tt := range []struct {
		name string
		more []string
		want string
	}{
		{"started over them", nil, "-fresh"},
		{"resumed with another model", []string{"-resume", "-hidden", "16"}, "another run"},
		{"resumed with another seed", []string{"-resume", "-seed", "9"}, "another run"},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), small(out, text, tt.more...), nil, &bytes.Buffer{}, &stderr); code != 1 || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%s: exit status %d, %q; want 1 and %q", tt.name, code, stderr.String(), tt.want)
		}
	}
	runOK(t, nil, small(out, text, "-fresh")...)
	if names, _ := filepath.Glob(filepath.Join(out, "checkpoints", "*")); len(names) != 1 {
		t.Errorf("-fresh left %v, want one", names)
	}
	// A finished run that is resumed has nothing to train, and tests again.
	if text := runOK(t, nil, small(out, text, "-resume")...); !strings.Contains(text, "test: loss") {
		t.Errorf("no test in\n%s, want \"test: loss\" in it", text)
	}
}

func TestBadFlagsAreAllNamed(t *testing.T) {
	var stderr bytes.Buffer
	args := []string{"-batch", "0", "-hidden", "-3", "-lr", "7", "-telemetry", "perhaps", "-progress", "maybe", "-resume", "-fresh"}
	if code := run(t.Context(), args, nil, &bytes.Buffer{}, &stderr); code != 2 {
		t.Errorf("exit status %d, want 2", code)
	}
	for _, want := range []string{"-batch is 0", "-hidden is -3", "-lr is 7", `-telemetry is "perhaps"`, `-progress is "maybe"`, "-resume and -fresh"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("want %q in\n%s", want, stderr.String())
		}
	}
	stderr.Reset()
	if code := run(t.Context(), []string{"-h"}, nil, &bytes.Buffer{}, &stderr); code != 0 || !strings.Contains(stderr.String(), "-async-checkpoint") {
		t.Errorf("-h: exit status %d, want 0 and the flags\n%s", code, stderr.String())
	}
	stderr.Reset()
	missing := filepath.Join(t.TempDir(), "missing.txt")
	if code := run(t.Context(), small(t.TempDir(), missing), nil, &bytes.Buffer{}, &stderr); code != 1 || !strings.Contains(stderr.String(), missing) {
		t.Errorf("missing text: exit status %d, want 1 and its path\n%s", code, stderr.String())
	}
}

func TestProgressBarIsDrawn(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), small(t.TempDir(), sourceTree(t), "-progress", "on"), nil, &stdout, &stderr); code != 0 {
		t.Fatal(stderr.String())
	}
	if !strings.Contains(stderr.String(), "40/40") {
		t.Errorf("no bar in %q, want \"40/40\" in it", stderr.String())
	}
}

// TestInterrupt sends a signal to a process.
func TestInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("os.Process.Signal cannot interrupt on Windows")
	}
	text, out := sourceTree(t), t.TempDir()
	args := small(out, text, "-epochs", "1000000", "-validate-every", "5")
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	started := make(chan struct{})
	var once sync.Once
	var mu sync.Mutex
	var printed bytes.Buffer
	cmd.Stdout = writerFunc(func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		printed.Write(p)
		if strings.Contains(printed.String(), "validation") {
			once.Do(func() { close(started) })
		}
	})
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	select {
	case <-started:
	case err := <-exited:
		t.Fatalf("run ended without an interrupt: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-exited:
		if err != nil {
			t.Fatalf("exit: %v\n%s", err, printed.String())
		}
	case <-time.After(5 * time.Minute): // limits a test that hangs
		_ = cmd.Process.Kill()
		<-exited
		t.Fatal("the job still runs minutes after the signal, want it ended")
	}
	step := int(number(t, printed.String(), `step (\d+) after`))
	if read(t, out, step); !strings.Contains(printed.String(), "-resume continues") {
		t.Errorf("printed\n%s, want \"-resume continues\" in it", printed.String())
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

func checkpointName(step int) string {
	s := strconv.Itoa(step)
	return "step-" + strings.Repeat("0", 9-len(s)) + s + ".ckpt"
}

func read(t *testing.T, out string, step int) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(out, "checkpoints", checkpointName(step)))
	if errors.Is(err, os.ErrNotExist) {
		names, _ := filepath.Glob(filepath.Join(out, "checkpoints", "*"))
		t.Fatalf("no checkpoint of step %d among %v", step, names)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func validationLosses(t *testing.T, out string) []float64 {
	t.Helper()
	var losses []float64
	for _, m := range regexp.MustCompile(`validation loss ([0-9.]+)`).FindAllStringSubmatch(out, -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, v)
	}
	return losses
}

func number(t *testing.T, out, pattern string) float64 {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no %s in\n%s", pattern, out)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

package python_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/testkit/built"
)

// TestInjected checks on a real training of two ranks without a straggler that
// the report names the rank that gets an injected delay, and the delayed phase,
// and that exactly the delayed spans have the mark.
func TestInjected(t *testing.T) {
	if testing.Short() {
		t.Skip("loads PyTorch")
	}
	interpreter, err := torchPython()
	if err != nil {
		t.Skip(err)
	}
	command := built.Command(t)
	for phase, c := range map[string]struct{ span, cause string }{
		"data": {"dataloader/fetch.iter", "input"}, "forward": {"compute/forward", "forward"}, "code": {"pipeline/train.iteration", "host"},
	} {
		t.Run(phase, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			// Long compared with delays that load causes on the other rank.
			text := "rank=1," + phase + "=80ms,from=10,to=49"
			out := runInjected(t, interpreter, command, dir, "--inject", text)
			words := "rank 1, " + phase + " 80 ms from step 10 to 49"
			if want := "trainspan: injected: " + words + "\n"; !strings.Contains(out, want) {
				t.Errorf("the start prints\n%s\nwant %q", out, want)
			}
			if want := "\nInjected"; !strings.Contains(out, want) {
				t.Errorf("want a line %q on the first screen:\n%s", want, out)
			}
			r := injectedReport(t, command, dir)
			if s := r.Verdict.Straggler; !slices.Equal(s.Ranks, []int{1}) || s.Cause != c.cause {
				t.Errorf("named are %v, cause %q, want [1], %q: %s", s.Ranks, s.Cause, c.cause, r.Verdict.Sentence)
			}
			if len(r.Injected) != 1 || r.Injected[0].Text != words || r.Injected[0].Delays != 40 || r.Injected[0].Time < 40*80e6 {
				t.Errorf("injected is %+v, want 40 delays of %q", r.Injected, words)
			}
			for _, tr := range tracesIn(t, dir) {
				var got []string
				for _, s := range tr.spans {
					if s.args["injected_ms"] != "" {
						got = append(got, s.name)
					}
				}
				slices.Sort(got)
				want := 0
				if tr.rank() == "1" {
					want = 40
				}
				if len(got) != want || len(slices.Compact(slices.Clone(got))) > 1 || want > 0 && got[0] != c.span {
					t.Errorf("rank %s: %d marked spans, %v, want %d of %s", tr.rank(), len(got), slices.Compact(got), want, c.span)
				}
			}
		})
	}
}

// TestInjectedRare checks that delays of checkpoints, evaluations and every
// other backward pass are counted and marked, and that a delay that never
// happens is reported.
func TestInjectedRare(t *testing.T) {
	if testing.Short() {
		t.Skip("loads PyTorch")
	}
	interpreter, err := torchPython()
	if err != nil {
		t.Skip(err)
	}
	command, dir := built.Command(t), filepath.Join(t.TempDir(), "run")
	out := runInjected(t, interpreter, command, dir, "--inject", "rank=0,backward=2ms,jitter=1ms,every=2", "--inject", "rank=1,save=1ms,evaluate=1ms,every=2", "--inject", "rank=7,data=1s")
	if want := "rank 7, data 1 s: not injected"; !strings.Contains(out, want) {
		t.Errorf("want %q in the report:\n%s", want, out)
	}
	got := make(map[string]int64)
	for _, d := range injectedReport(t, command, dir).Injected {
		got[d.Text] = d.Delays
	}
	for text, want := range map[string]int64{
		"rank 0, backward 2 ms +/- 1 ms, once in 2": 30, "rank 1, save 1 ms, once in 2": 2, "rank 1, evaluate 1 ms, once in 2": 3, "rank 7, data 1 s": 0,
	} {
		if n, ok := got[text]; !ok || n != want {
			t.Errorf("%q: %d delays, want %d; all are %v", text, n, want, got)
		}
	}
	marked := make(map[string]int)
	for _, tr := range tracesIn(t, dir) {
		for _, s := range tr.spans {
			if s.args["injected_ms"] != "" {
				marked[tr.rank()+" "+s.name]++
			}
		}
	}
	want := map[string]int{"0 compute/backward": 30, "1 checkpoint/capture": 2, "1 compute/forward": 3}
	for name, n := range want {
		if marked[name] != n {
			t.Errorf("%d marked spans of %s, want %d; all are %v", marked[name], name, n, marked)
		}
	}
}

func runInjected(t *testing.T, interpreter, command, dir string, flags ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // limits a test that hangs
	defer cancel()
	args := append([]string{"run", "--no-resources", "--dir", dir}, flags...)
	run := exec.CommandContext(ctx, command, append(args, "--", interpreter, filepath.Join("testdata", "torch", "injected.py"))...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TRAINSPAN_") && !strings.HasPrefix(v, "DFTRACER_") && !strings.HasPrefix(v, "PYTHON") {
			run.Env = append(run.Env, v)
		}
	}
	run.Env = append(run.Env, "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1", "USE_LIBUV=0")
	var out bytes.Buffer
	run.Stdout, run.Stderr = &out, &out
	if err := run.Run(); err != nil {
		t.Fatalf("program: %v\n%s", err, out.String())
	}
	return out.String()
}

func injectedReport(t *testing.T, command, dir string) (r runReport) {
	t.Helper()
	text, err := exec.Command(command, "report", "--json", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// tracesIn reads the traces of a run.
func tracesIn(t *testing.T, dir string) (all []*trace) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "trace-*.pfw.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		all = append(all, readTrace(t, f))
	}
	return all
}

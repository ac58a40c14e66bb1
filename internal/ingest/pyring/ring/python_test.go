//go:build unix

package ring_test

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
)

// Recorded data is read unchanged, in order.
func TestRecords(t *testing.T) {
	dir := t.TempDir()
	pyrun.Run(t, dir, `
from trainspan import _ring as r
n, b, loop = r.name("forward", "compute"), r.name("backward", "compute"), r.name("train", "pipeline")
t = r.start(loop)
r.position(1, 2)
k = r.start(n); r.end(k, {"text": "\u00fc" * 60, "n": 1, "f": 0.5, "yes": True, "nan": float("nan")})
a = r.start(n); c = r.start(b); r.end(a); r.end(c)
a = r.start(n); r.drop(a)
r.event(n, r.now() - 2000, r.now() - 1000, {"x": 1}, tid=1000)
r.point(b)
k = r.start(n); r.stop(n, failed=True, token=k)
r.call("on_app_start", {"start_time_msec": 1.5})
r.meta("rank", 3)
r.end(t, n=b)
r.close()
`)
	path := only(t, dir)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v; want 0600", info.Mode(), err)
	}
	r, err := ring.Open(path, ring.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []string
	if err := r.Finish(t.Context(), func(r *ring.Record) { got = append(got, summary(r)) }); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1 pipeline/train depth 1",
		"4 - depth 2 value 2",
		`0 compute/forward depth 2 {"text":"` + strings.Repeat(`\u00fc`, 60) + `","n":1,"f":0.5,"yes":true,"nan":"nan"}`,
		"0 compute/forward depth 2 crossed",
		"0 compute/backward depth 3",
		"9 compute/forward depth 2",
		`0 compute/forward depth 1 {"x":1}`,
		"2 compute/backward depth 2",
		"0 compute/forward depth 2 failed",
		`7 call/on_app_start depth 2 {"start_time_msec":1.5}`,
		"0 compute/backward depth 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if st := r.Stats(); st.Lost != 0 || st.Bad != 0 {
		t.Errorf("stats %+v, want none lost or bad", st)
	}
	if m := r.Metas(); len(m) != 1 || m[0].Key != "rank" || m[0].Value != 3.0 {
		t.Errorf("metadata %v, want rank 3", m)
	}
	if !r.Closed() || r.PID == 0 || r.Ticks == 0 {
		t.Errorf("closed %v, pid %d, ticks %d; want it closed, both above 0", r.Closed(), r.PID, r.Ticks)
	}
}

// numbered records spans with the counts 1, 2, 3... on some threads, and prints
// its progress.
const numbered = `
import sys, threading, time
from trainspan import _ring as r
n, total, threads, nap = r.name("n", "test"), int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
def work(show):
    r.enabled()
    for i in range(1, total + 1):
        r.counted(n, r.clock(), None, i)
        if show and i % 1000 == 0:
            print(i, flush=True)
            time.sleep(nap)
all = [threading.Thread(target=work, args=(False,)) for _ in range(threads - 1)]
for t in all:
    t.start()
work(True)
for t in all:
    t.join()
`

// Without a reader nothing is overwritten: the ring buffer grows.
func TestNoReader(t *testing.T) {
	dir := t.TempDir()
	pyrun.Run(t, dir, numbered, "50000", "2", "0")
	r, err := ring.Open(only(t, dir), ring.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	o := order{t: t}
	if err := r.Finish(t.Context(), o.take); err != nil {
		t.Fatal(err)
	}
	if st := r.Stats(); o.total != 100_000 || len(o.last) != 2 || st.Lost != 0 || st.Bad != 0 {
		t.Errorf("%d spans of %d threads, stats %+v; want 100,000 of 2, none lost or bad", o.total, len(o.last), st)
	}
}

// A concurrent reader gets everything, and releases the space.
func TestReader(t *testing.T) {
	t.Run("amd64", func(t *testing.T) { testReader(t, 0) })
	t.Run("arm64", func(t *testing.T) { testReader(t, 50*time.Microsecond) })
}

func testReader(t *testing.T, settle time.Duration) {
	dir := t.TempDir()
	cmd := pyrun.Command(t, dir, numbered, "60000", "3", "0.01")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := wait(t, dir, ring.Options{Drain: true})
	r.SetSettle(settle)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	o := order{t: t}
	for running := true; running; {
		n, err := r.Read(o.take)
		if err = errors.Join(err, r.Release()); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
			if n == 0 {
				time.Sleep(time.Millisecond) // between two reads
			}
		}
	}
	if err := r.Finish(t.Context(), o.take); err != nil {
		t.Fatal(err)
	}
	if st := r.Stats(); o.total != 180_000 || st.Lost != 0 || st.Bad != 0 {
		t.Errorf("%d spans, stats %+v; want 180,000, none lost or bad", o.total, st)
	}
}

// A process may die at any moment: what it had recorded can be read.
func TestKill(t *testing.T) {
	for round := range 5 {
		dir := t.TempDir()
		cmd := pyrun.Command(t, dir, numbered, "1000000000", "3", "0")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 1 + round*round { // it prints its progress
			lines.Scan()
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		shown := 1000
		for lines.Scan() {
			if n, err := strconv.Atoi(lines.Text()); err == nil {
				shown = n
			}
		}
		_ = cmd.Wait()
		r, err := ring.Open(only(t, dir), ring.Options{Drain: true})
		if err != nil {
			t.Fatal(err)
		}
		o := order{t: t}
		if err := r.Finish(t.Context(), o.take); err != nil {
			t.Fatal(err)
		}
		st := r.Stats()
		// Each thread may have taken a slot without writing it.
		if st.Lost > 2 || st.Bad != 0 || o.last[r.PID] < int64(shown) {
			t.Errorf("main thread up to %d, want at least %d as written; stats %+v, want at most 2 lost", o.last[r.PID], shown, st)
		}
		r.Close()
	}
}

// The finished and the open parts of a step can be read after a kill of its
// process.
func TestKilledInStep(t *testing.T) {
	dir := t.TempDir()
	cmd := pyrun.Command(t, dir, `
import os, signal
from trainspan import _ring as r
n = r.name("train.iteration", "pipeline", "torch", 0, tuple(r.name(x, "test", "torch") for x in ("wait", "a", "b")))
inner = r.name("inner", "test")
v, token = r.step(n)
for i in range(5000):
    v[8] = r.clock(); v[9] = v[10] = r.clock(); r.end(r.start(inner)); v[11] = r.clock()
    r.end_step(v, token, n, None, i + 1)
    v, token = r.step(n)
v[8] = r.clock(); v[9] = v[10] = r.clock(); r.end(r.start(inner))
os.kill(os.getpid(), signal.SIGKILL)
`)
	if err := cmd.Run(); err == nil {
		t.Fatal("the program ended without an error, want it killed")
	}
	r, err := ring.Open(only(t, dir), ring.Options{Drain: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, order := make(map[string]int), ""
	if err := r.Finish(t.Context(), func(r *ring.Record) {
		got[summary(r)]++
		if r.Next == 5000 {
			order = ""
		}
		order += " " + r.Name.Name
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"0 pipeline/train.iteration depth 1": 5000, "0 test/a depth 2": 5001, "0 test/b depth 2": 5000, "0 test/inner depth 3": 5001}
	if !maps.Equal(got, want) || order != " train.iteration a inner" {
		t.Errorf("open spans %v, at last%s; want %v", got, order, want)
	}
	var open []string
	if err := r.Cells(func(c ring.Cell) {
		if c.Name.Name != "inner" {
			open = append(open, c.Name.Name)
		}
	}); err != nil || strings.Join(open, " ") != "b train.iteration" {
		t.Errorf("open spans %v, error %v; want b and train.iteration", open, err)
	}
	if st := r.Stats(); st.Lost != 0 || st.Bad != 0 {
		t.Errorf("stats %+v, want none lost or bad", st)
	}
}

// Regions that the reader has released are used again, for steps and for slots,
// and nothing of their previous use is read.
func TestReleasedRegions(t *testing.T) {
	t.Run("amd64", func(t *testing.T) { testReleasedRegions(t, 0) })
	t.Run("arm64", func(t *testing.T) { testReleasedRegions(t, 50*time.Microsecond) })
}

func testReleasedRegions(t *testing.T, settle time.Duration) {
	dir := t.TempDir()
	cmd := pyrun.Command(t, dir, `
import sys
from trainspan import _ring as r
n = r.name("train.iteration", "pipeline", "torch", 0, tuple(r.name(x, "test", "torch") for x in ("wait", "a", "b")))
inner = r.name("inner", "test")
v, token = r.step(n)
step = 0
for steps, slots in (3000, 0), (3000, 0), (0, 20000), (3000, 1), (6000, 0), (0, 20000), (6000, 2), (3000, 0), (0, 20000), (3000, 0):
    for i in range(steps):
        step += 1
        v[8] = r.clock(); v[9] = v[10] = r.clock()
        for k in range(slots):
            r.end(r.start(inner))
        v[11] = r.clock()
        r.end_step(v, token, n, None, step)
        v, token = r.step(n)
    for k in range(slots if not steps else 0):
        r.end(r.start(inner))
    print(step, flush=True)
    sys.stdin.readline()
`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var r *ring.Ring
	got, step := make(map[string]int), int64(0)
	take := func(rec *ring.Record) {
		got[rec.Name.Name]++
		if rec.Name.Name == "train.iteration" {
			if rec.Next != step+1 {
				t.Fatalf("step %d comes after %d, want no gap", rec.Next, step)
			}
			step = rec.Next
		}
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if r == nil {
			r = wait(t, dir, ring.Options{Drain: true})
			defer r.Close()
			r.SetSettle(settle)
		}
		for n := 1; n > 0; {
			if n, err = r.Read(take); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Release(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := r.Finish(t.Context(), take); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"train.iteration": 27000, "a": 27000, "b": 27000, "inner": 75000}
	if st := r.Stats(); !maps.Equal(got, want) || st.Lost != 0 || st.Bad != 0 {
		t.Errorf("spans %v, stats %+v; want %v, none lost or bad", got, st, want)
	}
}

// Work of a device is recorded some steps after its launch. It is read when the training is in the step of the
// launch: after the step before it, and not after later ones.
func TestDeviceInStep(t *testing.T) {
	dir := t.TempDir()
	pyrun.Run(t, dir, `
from trainspan import _ring as r
n = r.name("train.iteration", "pipeline", "torch", 0, tuple(r.name(x, "test", "torch") for x in ("wait", "a")))
forward, launched = r.name("forward", "device", "torch"), []
v, token = r.step(n)
for i in range(60):
    v[8] = r.clock(); v[9] = r.clock()
    launched.append(r.now())
    r.end_step(v, token, n, None, i + 1)
    v, token = r.step(n)
    if len(launched) == 3:
        for at in launched:
            r.event(forward, at + 1000, at + 2000, None, 1 << 30, 1000)
        launched = []
r.close()
`)
	r, err := ring.Open(only(t, dir), ring.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	step, works, steps := int64(0), int64(0), 0
	if err := r.Finish(t.Context(), func(r *ring.Record) {
		if r.Next >= 0 {
			step = r.Next
			steps++
		}
		if r.Thread.Lane {
			if step != works {
				t.Errorf("%d units of device work are read, want %d as the steps", works, step)
			}
			works++
		}
	}); err != nil {
		t.Fatal(err)
	}
	if works != 60 || steps != 60 {
		t.Errorf("read %d works and %d steps, want 60 each", works, steps)
	}
}

// A writer that is stopped and continued at any moment loses nothing.
func TestStop(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	cmd := pyrun.Command(t, dir, numbered, "40000", "2", "0.001")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := wait(t, dir, ring.Options{Drain: true, Patience: time.Hour})
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	o := order{t: t}
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
			_ = cmd.Process.Signal(syscall.SIGSTOP)
			if _, err := r.Read(o.take); err != nil {
				t.Fatal(err)
			}
			if err := r.Release(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Process.Signal(syscall.SIGCONT)
			time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond) // stopped anywhere
		}
	}
	if err := r.Finish(t.Context(), o.take); err != nil {
		t.Fatal(err)
	}
	if st := r.Stats(); o.total != 80_000 || st.Lost != 0 || st.Bad != 0 {
		t.Errorf("%d spans, stats %+v; want 80,000, none lost or bad", o.total, st)
	}
}

// A forked process has its own ring buffer; its parent's open spans are not its
// own.
func TestFork(t *testing.T) {
	dir := t.TempDir()
	pyrun.Run(t, dir, `
import os
from trainspan import _ring as r
n = r.name("n", "test")
t = r.start(n)
for i in range(3):
    if os.fork() == 0:
        r.end(t)
        for k in range(10):
            r.end(r.start(n))
        os._exit(0)
for i in range(3):
    os.wait()
r.end(t)
`)
	paths, err := filepath.Glob(filepath.Join(dir, "*"+ring.Ext))
	if err != nil || len(paths) != 4 {
		t.Fatalf("rings %v, error %v; want 4", paths, err)
	}
	counts := make(map[int]int)
	for _, path := range paths {
		r, err := ring.Open(path, ring.Options{})
		if err != nil {
			t.Fatal(err)
		}
		spans := 0
		if err := r.Finish(t.Context(), func(*ring.Record) { spans++ }); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(path, strconv.FormatInt(r.PID, 10)) {
			t.Errorf("%s belongs to process %d, want its number in the name", path, r.PID)
		}
		counts[spans]++
		if (r.Forks == 0) != (spans == 1) {
			t.Errorf("%d forks, %d spans; want 1 span only without forks", r.Forks, spans)
		}
		r.Close()
	}
	if counts[1] != 1 || counts[10] != 3 {
		t.Errorf("rings by their number of spans: %v, want one of 1 and three of 10", counts)
	}
}

// Foreign ring buffers may disappear at any moment, also between listing the
// folder and opening them.
func TestRingsOfOthersGo(t *testing.T) {
	dir := t.TempDir()
	const total = 30_000
	pyrun.Run(t, dir, `
import contextlib, os
scandir = os.scandir
def look(folder):
    gone = os.path.join(folder, "py-1-1.ring")
    open(gone, "w").close()
    with scandir(folder) as entries:
        entries = list(entries)
    os.unlink(gone)
    return contextlib.nullcontext(entries)
os.scandir = look
from trainspan import _ring as r
n = r.name("n", "test")
r.enabled()
for i in range(1, 30001):
    r.counted(n, r.clock(), None, i)
`)
	r, err := ring.Open(only(t, dir), ring.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	spans := 0
	if err := r.Finish(t.Context(), func(*ring.Record) { spans++ }); err != nil {
		t.Fatal(err)
	}
	if st := r.Stats(); spans != total || st.Lost != 0 {
		t.Errorf("%d spans, want %d, none lost: %+v", spans, total, st)
	}
}

// If there is no more space, the newest regions are reused. The loss is counted
// exactly.
func TestLaps(t *testing.T) {
	dir := t.TempDir()
	const total = 100_000
	pyrun.Run(t, dir, `
import os
from trainspan import _ring as r
n = r.name("n", "test")
r.enabled()
allocate, left = os.posix_fallocate, [2]
def full(*args):
    if not left[0]:
        raise OSError(28, "No space left on device")
    left[0] -= 1
    allocate(*args)
os.posix_fallocate = full
for i in range(1, 100001):
    r.counted(n, r.clock(), None, i)
`)
	r, err := ring.Open(only(t, dir), ring.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var first, last, spans int64
	if err := r.Finish(t.Context(), func(r *ring.Record) {
		if first == 0 {
			first = r.Value
		}
		if r.Value <= last {
			t.Errorf("span %d comes after %d, want rising numbers", r.Value, last)
		}
		last = r.Value
		spans++
	}); err != nil {
		t.Fatal(err)
	}
	if st := r.Stats(); spans+st.Lost != total || first != 1 || last != total || spans < 2*8192 {
		t.Errorf("%d spans from %d to %d, %+v; want %d in all", spans, first, last, st, total)
	}
}

// A killed process's open spans are in the cells, or have a begin slot.
func TestCells(t *testing.T) {
	dir := t.TempDir()
	cmd := pyrun.Command(t, dir, `
import os
from trainspan import _ring as r
n, b = r.name("forward", "compute"), r.name("all_reduce", "comm")
r.end(r.start(n))
r.start(b)
os.kill(os.getpid(), 9)
`)
	if err := cmd.Run(); err == nil {
		t.Fatal("the program ended without an error, want it killed")
	}
	r, err := ring.Open(only(t, dir), ring.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var ended int64
	if err := r.Finish(t.Context(), func(r *ring.Record) { ended = r.Start }); err != nil {
		t.Fatal(err)
	}
	open := ""
	if err := r.Cells(func(c ring.Cell) {
		if c.Start != ended {
			open += c.Name.Name
		}
	}); err != nil {
		t.Fatal(err)
	}
	if open != "all_reduce" {
		t.Errorf("open: %q, want \"all_reduce\"", open)
	}
}

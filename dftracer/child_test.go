package dftracer_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
)

const (
	// childVariable makes the test binary a program that traces until it is killed.
	childVariable = "DFTRACER_TEST_CHILD"
	modeVariable  = "DFTRACER_TEST_MODE"
	// momentsVariable sets how many kills the test makes.
	momentsVariable = "DFTRACER_KILLS"
	childWriters    = 4
)

// childMain writes numbered events and prints their counts to standard output,
// a line per count.
func childMain(path string) {
	opts := &dftracer.Options{}
	switch os.Getenv(modeVariable) {
	case "single":
		opts.Compression = dftracer.CompressSingle
	case "plain":
		opts.Compression = dftracer.CompressNone
	case "v22":
		opts.Dialect = dftracer.V22
	case "limit":
		childLimit(path)
		return
	}
	w, err := dftracer.Create(path, opts)
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	lanes := dftracer.NewLanes(int64(os.Getpid()))
	rootLane, tid := lanes.Begin(dftracer.Lane{}, time.Now().UnixMicro())
	root := &dftracer.Event{ID: w.NextID(), Name: "train", Cat: "pipeline", TID: tid, TS: time.Now().UnixMicro(), Level: 1}
	tracefile.WriteBegin(w, root)
	fmt.Println("ready")
	var counts [childWriters]atomic.Int64
	for g := range childWriters {
		go func() {
			key := dftracer.NewKey("compute", "step"+strconv.Itoa(g))
			for n := int64(1); ; n++ {
				start := time.Now().UnixMicro()
				lane, _ := lanes.Begin(rootLane, start)
				id := w.NextID()
				end := time.Now().UnixMicro()
				w.WriteComplete(&key, dftracer.Span{ID: id, TID: lanes.End(lane, end), TS: start, Dur: end - start, Level: 2, Parent: int64(root.ID)},
					dftracer.Int("n", n))
				counts[g].Store(n)
				if n%8 == 0 {
					time.Sleep(5 * time.Millisecond) // a stand-in for work
				}
			}
		}()
	}
	for {
		line := make([]byte, 0, 100)
		for g := range counts {
			line = strconv.AppendInt(append(line, ' '), counts[g].Load(), 10)
		}
		fmt.Println(string(line))
		time.Sleep(5 * time.Millisecond) // a stand-in for work
	}
}

func TestKill(t *testing.T) {
	kills, lines := 40, 300
	if s := os.Getenv(momentsVariable); s != "" {
		kills, _ = strconv.Atoi(s)
	}
	if testing.Short() {
		kills, lines = 8, 100
	}
	slots := make(chan struct{}, 8)
	modes := []string{"", "", "single", "plain", "v22"}
	var wg sync.WaitGroup
	for i := range kills {
		slots <- struct{}{}
		line := rand.IntN(lines)
		wg.Go(func() {
			defer func() { <-slots }()
			killOne(t, modes[i%len(modes)], line, i%2 == 0)
		})
	}
	wg.Wait()
}

// killOne kills a child after a number of lines. If kept is true, it waits
// until the file has what the child had written by then and at least one event
// of each writer. The child flushes by itself, and its open span is written
// before the numbered events.
func killOne(t *testing.T, mode string, lines int, kept bool) {
	dir, err := os.MkdirTemp("", "dftracer-kill")
	if err != nil {
		t.Error(err)
		return
	}
	defer os.RemoveAll(dir) //nolint:errcheck // temporary
	path := filepath.Join(dir, "trace.pfw.gz")
	if mode == "plain" {
		path = filepath.Join(dir, "trace.pfw")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+path, modeVariable+"="+mode)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	sc := bufio.NewScanner(out)
	if !sc.Scan() || sc.Text() != "ready" {
		t.Errorf("child printed %q, want ready", sc.Text())
	}
	var said [childWriters]int64
	for n := 0; n <= lines && sc.Scan(); n++ {
		for g, text := range strings.Fields(sc.Text()) {
			said[g], _ = strconv.ParseInt(text, 10, 64)
		}
	}
	if kept {
		for g := range said {
			said[g] = max(said[g], 1)
		}
		until.Nil(t, func() error { return has(path, said) })
	}
	_ = cmd.Process.Kill()
	for sc.Scan() { // until the child ends
	}
	_ = cmd.Wait()
	if kept {
		if err := has(path, said); err != nil {
			t.Errorf("mode %q, after the kill: %v", mode, err)
		}
	}
	checkKilled(t, path, mode, kept)
}

// has returns nil if a trace has the wanted number of events of each writer.
func has(path string, want [childWriters]int64) error {
	counts, _, err := numbered(path)
	for g, n := range want {
		if err == nil && counts[g] < n {
			err = fmt.Errorf("%d of %d events of writer %d", counts[g], n, g)
		}
	}
	return err
}

// numbered returns how far each writer's events reach in a trace without a gap,
// and how many spans the recovery closed.
func numbered(path string) (counts [childWriters]int64, truncated int, err error) {
	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		return counts, 0, err
	}
	defer r.Close() //nolint:errcheck // only read
	var seen [childWriters]map[int64]bool
	for g := range seen {
		seen[g] = make(map[int64]bool)
	}
	for ev, err := range r.All() {
		if err != nil {
			return counts, 0, err
		}
		if a, ok := ev.Arg("truncated"); ok && a.Int64() == 1 && ev.Name == "train" {
			truncated++
		}
		g, ok := strings.CutPrefix(ev.Name, "step")
		if !ok {
			continue
		}
		at, _ := strconv.Atoi(g)
		n, _ := ev.Arg("n")
		if seen[at][n.Int64()] {
			return counts, 0, fmt.Errorf("event %d of writer %d is there twice", n.Int64(), at)
		}
		seen[at][n.Int64()] = true
	}
	for g := range seen {
		for seen[g][counts[g]+1] {
			counts[g]++
		}
	}
	if st := r.Stats(); st.Bad > 0 {
		return counts, 0, fmt.Errorf("%d bad lines, first %v", st.Bad, st.First)
	}
	return counts, truncated, nil
}

// checkKilled recovers the trace of a killed child; kept means that the trace
// must have its open span.
func checkKilled(t *testing.T, path, mode string, kept bool) {
	before, _, err := numbered(path)
	if err != nil {
		t.Errorf("mode %q, after the kill: %v", mode, err)
	}
	report, err := recovery.File(path, nil)
	if err != nil {
		t.Errorf("recover: %v", err)
		return
	}
	after, truncated, err := numbered(path)
	if err != nil {
		t.Errorf("mode %q, after recovery: %v", mode, err)
	}
	if after != before {
		t.Errorf("events after recovery: %v, want %v as before", after, before)
	}
	if report.Closed != truncated {
		t.Errorf("recovery closed %d spans, want %d as in the file", report.Closed, truncated)
	}
	if kept && truncated != 1 {
		t.Errorf("the open span was not closed, want 1 truncated span: %+v", report)
	}
	opts := &dftracer.ValidateOptions{}
	if v := dftest.CheckWith(t, path, opts); v.Open > 0 {
		t.Errorf("%d spans are open after recovery, want none", v.Open)
	}
	again, err := recovery.File(path, nil)
	if err != nil || !again.Clean {
		t.Errorf("second recovery: %+v, %v; want the file clean", again, err)
	}
}

// TestExecDoesNotInherit starts a child while a trace is open and checks that
// the file is not among the child's descriptors.
func TestExecDoesNotInherit(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("no /proc")
	}
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	w, err := dftracer.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("ls", "-l", "/proc/self/fd").Output()
	if err != nil {
		t.Skip(err)
	}
	if strings.Contains(string(out), "trace.pfw") {
		t.Errorf("a child process inherits the open trace:\n%s", out)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	dftest.Check(t, path)
}

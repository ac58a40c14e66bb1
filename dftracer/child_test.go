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
	"github.com/trainspan/trainspan/dftracer/dftest"
)

const (
	// childVariable makes the test binary a program that traces until it is killed.
	childVariable = "DFTRACER_TEST_CHILD"
	modeVariable  = "DFTRACER_TEST_MODE"
	// momentsVariable asks for more kills than the default.
	momentsVariable = "DFTRACER_KILLS"
	childWriters    = 4
)

// childMain writes numbered events and tells on its standard output how far
// it is: "<microseconds> <count> <count> ...".
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
	w.Begin(root)
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
					time.Sleep(5 * time.Millisecond)
				}
			}
		}()
	}
	for {
		line := make([]byte, 0, 100)
		for g := range counts {
			line = strconv.AppendInt(append(line, ' '), counts[g].Load(), 10)
		}
		fmt.Printf("%d%s\n", time.Now().UnixMicro(), line)
		time.Sleep(5 * time.Millisecond)
	}
}

// progress is one report of the child.
type progress struct {
	at     int64
	counts [childWriters]int64
}

func TestKill(t *testing.T) {
	kills := 40
	if s := os.Getenv(momentsVariable); s != "" {
		kills, _ = strconv.Atoi(s)
	}
	if testing.Short() {
		kills = 8
	}
	slots := make(chan struct{}, 8)
	modes := []string{"", "", "single", "plain", "v22"}
	var wg sync.WaitGroup
	for i := range kills {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			killOne(t, modes[i%len(modes)], time.Duration(rand.Int64N(int64(1900*time.Millisecond))))
		})
	}
	wg.Wait()
}

func killOne(t *testing.T, mode string, after time.Duration) {
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
		t.Errorf("child said %q", sc.Text())
	}
	var reports []progress
	var killedAt int64
	time.AfterFunc(after, func() {
		atomic.StoreInt64(&killedAt, time.Now().UnixMicro())
		_ = cmd.Process.Kill()
	})
	for sc.Scan() {
		var p progress
		fields := strings.Fields(sc.Text())
		if len(fields) != 1+childWriters {
			continue // the last line may be cut
		}
		p.at, _ = strconv.ParseInt(fields[0], 10, 64)
		for g := range p.counts {
			p.counts[g], _ = strconv.ParseInt(fields[1+g], 10, 64)
		}
		reports = append(reports, p)
	}
	_ = cmd.Wait()
	checkKilled(t, path, mode, atomic.LoadInt64(&killedAt), reports)
}

// stopped is how long a child that says something every 5 ms may be silent and
// yet have run.
const stopped = 50 * time.Millisecond

// checkKilled compares the file with what the child had said a second before.
func checkKilled(t *testing.T, path, mode string, killedAt int64, reports []progress) {
	// Only the time counts in which the child ran: one that the machine stops
	// writes nothing meanwhile.
	var old progress
	age, until := int64(0), killedAt
	for i := len(reports) - 1; i >= 0 && old.at == 0; i-- {
		age += max(min(until-reports[i].at, stopped.Microseconds()), 0)
		until = reports[i].at
		if age >= time.Second.Microseconds() {
			old = reports[i]
		}
	}
	count := func(when string) (counts [childWriters]int64, truncated int) {
		var seen [childWriters]map[int64]bool
		for g := range seen {
			seen[g] = make(map[int64]bool)
		}
		r, err := dftracer.OpenReader(path, nil)
		if err != nil {
			t.Errorf("%s: %v", when, err)
			return counts, 0
		}
		defer r.Close() //nolint:errcheck // only read
		for ev, err := range r.All() {
			if err != nil {
				t.Errorf("%s: %v", when, err)
				return counts, 0
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
				t.Errorf("%s: event %d of writer %d is there twice", when, n.Int64(), at)
			}
			seen[at][n.Int64()] = true
		}
		for g := range seen { // how far the writer's events are there without a gap
			for seen[g][counts[g]+1] {
				counts[g]++
			}
		}
		if st := r.Stats(); st.Bad > 0 {
			t.Errorf("%s, mode %q: %d bad lines, first %v", when, mode, st.Bad, st.First)
		}
		return counts, truncated
	}
	before, _ := count("after the kill")
	for g := range old.counts {
		if before[g] < old.counts[g] {
			t.Errorf("mode %q: writer %d had written %d events a second before the kill, the file has %d", mode, g, old.counts[g], before[g])
		}
	}
	report, err := dftracer.Recover(path, nil)
	if err != nil {
		t.Errorf("recover: %v", err)
		return
	}
	after, truncated := count("after recovery")
	if after != before {
		t.Errorf("recovery changed the events: %v, before %v", after, before)
	}
	if report.Closed != truncated {
		t.Errorf("recovery closed %d spans, the file has %d", report.Closed, truncated)
	}
	if old.at != 0 && truncated != 1 {
		t.Errorf("the open span was not closed: %+v", report)
	}
	opts := &dftracer.ValidateOptions{}
	if v := dftest.CheckWith(t, path, opts); v.Open > 0 {
		t.Errorf("%d spans are open after recovery", v.Open)
	}
	again, err := dftracer.Recover(path, nil)
	if err != nil || !again.Clean {
		t.Errorf("second recovery: %+v, %v", again, err)
	}
}

// TestExecDoesNotInherit starts a child while a trace is open and looks for
// the file among the child's descriptors.
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
		t.Errorf("a child process inherits the trace:\n%s", out)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	dftest.Check(t, path)
}

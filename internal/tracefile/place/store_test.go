package place

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/internal/tracefile/validate"
)

// seen is a Watcher that records the reports of a Store.
type seen struct {
	mu     sync.Mutex
	counts Counts
	lost   uint64
	open   int
	again  int
	log    []string
}

func (s *seen) Counted(c Counts, lost uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Add(c)
	s.lost += lost
}

func (s *seen) Opened(again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	if again {
		s.again++
	}
}

func (s *seen) Closed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

func (s *seen) Outage() {}

func (s *seen) Log(level slog.Level, message string, args ...any) {
	if level >= slog.LevelWarn {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.log = append(s.log, message)
	}
}

// told returns how often the warning of a limit was logged.
func (s *seen) told(which int) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.log {
		if m == messages[which] {
			n++
		}
	}
	return n
}

// keyedStore is a Store whose files are named by its keys. A key's group is the part before
// the dash.
type keyedStore struct {
	*Store[string]
	saw  seen
	t    testing.TB
	dir  string
	pool *dftracer.Pool
	now  time.Time
}

func newKeyedStore(t testing.TB, change func(*StoreOptions[string])) *keyedStore {
	s := &keyedStore{t: t, dir: t.TempDir(), pool: dftracer.NewPool(), now: time.UnixMicro(base)}
	o := StoreOptions[string]{
		MaxOpen: 4, MaxProcesses: 100, MaxFiles: 100, MaxBytes: 1 << 20, Complete: time.Hour, Window: time.Second,
		Assembler: Options{MaxWaiting: 1000, MaxParents: 1000, LiveEvents: true},
		Group:     func(key string) string { group, _, _ := strings.Cut(key, "-"); return group }, Shared: "shared", Watch: &s.saw,
	}
	if change != nil {
		change(&o)
	}
	s.Store = NewStore(o)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func (s *keyedStore) create(key string) (Made, error) {
	w, err := Create(filepath.Join(s.dir, key+".pfw.gz"), &dftracer.Options{Start: time.UnixMicro(base), Pool: s.pool})
	return Made{Writer: w, TID: 42}, err
}

// send sends spans of a process and returns the key of the file that they are in.
func (s *keyedStore) send(key string, list ...node) (in string) {
	s.t.Helper()
	err := s.With(key, s.now, s.create, func(f *File[string]) error {
		for _, n := range list {
			f.Assembler.Add(n.span(), s.now)
		}
		in = f.Key
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return in
}

// close completes the files, checks them and returns the number of spans of each.
func (s *keyedStore) close() map[string]int {
	s.t.Helper()
	if err := s.Close(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	if s.saw.open != 0 || s.saw.lost != 0 {
		s.t.Errorf("%d files are open, %d lines are lost", s.saw.open, s.saw.lost)
	}
	if n := s.bytes.Load(); n != 0 {
		s.t.Errorf("%d bytes are counted", n)
	}
	paths, err := filepath.Glob(filepath.Join(s.dir, "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	spans := make(map[string]int)
	for _, path := range paths {
		spans[strings.TrimSuffix(filepath.Base(path), ".pfw.gz")] = dftest.Check(s.t, path).Counts["torch/n/X"]
	}
	return spans
}

// TestSilentFilesAreClosed checks that the file of a silent process is closed, and
// reopened when the process sends again.
func TestSilentFilesAreClosed(t *testing.T) {
	s := newKeyedStore(t, nil)
	s.send("a-1", node{1, 9, 10, 20})
	s.send("a-2", node{1, 9, 10, 20})
	s.now = s.now.Add(time.Minute)
	s.send("a-2", node{2, 9, 30, 40})
	s.Tick(t.Context(), s.now)
	for _, f := range s.Files() {
		if f.Open() != (f.Key == "a-2") {
			t.Errorf("%s: open is %v, want only a-2 open", f.Key, f.Open())
		}
	}
	s.send("a-1", node{2, 9, 30, 40}, node{9, -1, 0, 100})
	if s.saw.again != 1 {
		t.Errorf("%d files were opened again, want 1", s.saw.again)
	}
	if spans := s.close(); spans["a-1"] != 3 || spans["a-2"] != 2 || len(spans) != 2 {
		t.Errorf("spans by file: %v, want 3 in a-1, 2 in a-2", spans)
	}
	if s.saw.counts.Unfinished != 1 {
		t.Errorf("%d parents did not come, want that of the other process", s.saw.counts.Unfinished)
	}
}

// TestMoreProcessesThanAreKnown checks that new processes share a file while no known
// process is silent, and that later the least recently active process is forgotten to
// make room.
func TestMoreProcessesThanAreKnown(t *testing.T) {
	s := newKeyedStore(t, func(o *StoreOptions[string]) { o.MaxProcesses = 5 })
	for i := range 50 {
		want := fmt.Sprint("a-", i)
		if i >= 5 {
			want = "shared"
		}
		if in := s.send(fmt.Sprint("a-", i), node{i, -1, int64(i), int64(i + 1)}); in != want {
			t.Errorf("process %d is in %s, want %s", i, in, want)
		}
	}
	if n := len(s.Files()); n != 6 || s.saw.told(limitProcesses) != 1 {
		t.Errorf("%d files are known, warned %d times; want 6, once", n, s.saw.told(limitProcesses))
	}
	s.now = s.now.Add(time.Minute)
	if in := s.send("a-99", node{99, -1, 0, 1}); in != "a-99" {
		t.Errorf("it is in %s, want \"a-99\"", in)
	}
	s.send("shared", node{98, -1, 0, 1}) // a process may have this name
	if spans := s.close(); len(spans) != 7 || spans["shared"] != 46 || spans["a-0"] != 1 {
		t.Errorf("spans by file: %v, want 46 in shared, 1 in a-0, 7 files", spans)
	}
}

// TestNameThatChangesWithEachBatch checks that a process that changes its name with each
// batch gets at most MaxFiles files, even over a long time.
func TestNameThatChangesWithEachBatch(t *testing.T) {
	s := newKeyedStore(t, func(o *StoreOptions[string]) { o.MaxFiles, o.Complete = 8, 10*time.Minute })
	for i := range 2000 {
		s.send(fmt.Sprint("a-", i), node{i, -1, int64(i), int64(i + 1)})
		s.now = s.now.Add(5 * time.Second)
		s.Tick(t.Context(), s.now)
	}
	if in := s.send("b-1", node{1, -1, 0, 1}); in != "b-1" {
		t.Errorf("another one's is in %s, want \"b-1\"", in)
	}
	s.now = s.now.Add(time.Hour) // long after the end of the process
	s.Tick(t.Context(), s.now)
	if in := s.send("a-3000", node{1, -1, 0, 1}); in != "a-3000" || s.saw.told(limitFiles) != 1 {
		t.Errorf("span is in %s, warned %d times; want a-3000, once", in, s.saw.told(limitFiles))
	}
	if spans := s.close(); len(spans) != 8+3 || spans["shared"] != 2000-8 {
		t.Errorf("spans by file: %v, want 11 files, %d in shared", spans, 2000-8)
	}
}

// TestProcessesThatEnd checks that processes that sent for a while have files of their own,
// also if many ended before while others of the node were known.
func TestProcessesThatEnd(t *testing.T) {
	for name, c := range map[string]struct {
		lives  time.Duration
		change func(*StoreOptions[string])
		shared bool
	}{
		"completed":                  {2 * time.Minute, func(o *StoreOptions[string]) { o.MaxFiles, o.Complete = 8, 10*time.Minute }, false},
		"forgotten to make room":     {2 * time.Minute, func(o *StoreOptions[string]) { o.MaxFiles, o.MaxProcesses, o.Complete = 8, 4, 0 }, false},
		"in less than a minute":      {30 * time.Second, func(o *StoreOptions[string]) { o.MaxFiles, o.Complete = 8, 10*time.Minute }, true},
		"too many in the idle time":  {2 * time.Minute, func(o *StoreOptions[string]) { o.MaxFiles, o.Complete = 8, 20*time.Minute }, true},
		"without a time of idleness": {2 * time.Minute, func(o *StoreOptions[string]) { o.MaxFiles, o.Complete = 8, 0 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newKeyedStore(t, c.change)
			shared := false
			for i := range 40 {
				end := s.now.Add(c.lives)
				for at := int64(0); s.now.Before(end); at++ {
					in := s.send(fmt.Sprint("a-", i), node{i*100 + int(at), -1, at, at + 1})
					shared = shared || in == "shared"
					s.now = s.now.Add(10 * time.Second)
					s.Tick(t.Context(), s.now)
				}
			}
			if shared != c.shared {
				t.Errorf("spans in the shared file: %v, want %v", shared, c.shared)
			}
			s.close()
		})
	}
}

// TestLimitsAreLoggedOnce checks that each limit of a span is logged once, and counted
// each time.
func TestLimitsAreLoggedOnce(t *testing.T) {
	s := newKeyedStore(t, nil)
	for i := range 3 {
		err := s.With(fmt.Sprint("a-", i), s.now, s.create, func(f *File[string]) error {
			f.Assembler.Cut(Cut{1, 2, 3})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, which := range []int{limitAttributes, limitEvents, limitLinks} {
		if n := s.saw.told(which); n != 1 {
			t.Errorf("%q is logged %d times, want 1", messages[which], n)
		}
	}
	if s.saw.counts.Cut != (Cut{3, 6, 9}) || s.saw.told(limitLanes) != 0 {
		t.Errorf("counts %+v, want 3, 6 and 9 cut, no warning about lanes", s.saw.counts)
	}
}

// disk is a file whose writes can fail.
type disk struct {
	mu     sync.Mutex
	broken bool
	text   bytes.Buffer
}

func (d *disk) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken {
		return 0, errors.New("the disk is broken")
	}
	return d.text.Write(b)
}

func (d *disk) breaks(is bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = is
}

// TestMemoryOfAllFiles checks the memory budget of all processes: waiting spans are
// written early. If the disk fails, the store refuses spans until the disk works again,
// and loses nothing.
func TestMemoryOfAllFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("fills the memory of all files: make test-long")
	}
	s := newKeyedStore(t, func(o *StoreOptions[string]) { o.MaxOpen, o.Window = 100, time.Hour })
	disks := make(map[string]*disk)
	create := func(key string) (Made, error) {
		d := &disk{}
		disks[key] = d
		w, err := dftracer.NewWriter(d, &dftracer.Options{Start: time.UnixMicro(base), Pool: s.pool, FlushInterval: 10 * time.Millisecond})
		return Made{Writer: w, TID: 42}, err
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	text := make([]byte, 8<<10)
	sent := 0
	send := func() error {
		for i := range text {
			text[i] = byte('!' + rnd.IntN(90))
		}
		n := node{sent, -1, int64(sent), int64(sent + 1)}.span()
		n.Args = append(n.Args, dftracer.String("text", string(text)))
		err := s.With(fmt.Sprint("a-", sent%20), s.now, create, func(f *File[string]) error {
			f.Assembler.Add(n, s.now)
			return nil
		})
		if err == nil {
			sent++
		}
		if got := s.bytes.Load(); got > 2<<20 {
			t.Fatalf("%d bytes are counted, want at most %d", got, 2<<20)
		}
		return err
	}
	for range 2000 { // 16 MB
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range disks {
		d.breaks(true)
	}
	until.True(t, "the sender is refused", func() bool {
		err := send()
		if err != nil && !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		return err != nil
	})
	if s.saw.told(limitBytes) != 1 {
		t.Errorf("warned %d times, want 1", s.saw.told(limitBytes))
	}
	for _, d := range disks {
		d.breaks(false)
	}
	until.True(t, "the sender is taken again", func() bool {
		for _, f := range s.Files() { // like the ticker
			s.settle(t.Context(), f, s.now)
		}
		return send() == nil
	})
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := 0
	for _, d := range disks {
		report, err := validate.Stream(&d.text, nil)
		if err != nil || !report.OK() {
			t.Errorf("trace of the store: %v, %v; want a valid one", err, report.Err())
		}
		got += report.Counts["torch/n/X"]
	}
	if got != sent || s.saw.lost != 0 {
		t.Errorf("%d spans are in the files, want %d; %d lines lost, want 0", got, sent, s.saw.lost)
	}
}

// BenchmarkGrowthProcesses measures many processes, few of which have an open file.
func BenchmarkGrowthProcesses(b *testing.B) {
	growth.Bench(b, 250, func(n int) {
		s := newKeyedStore(b, func(o *StoreOptions[string]) { o.MaxOpen, o.MaxProcesses, o.MaxFiles = 16, n/2, n })
		for i := range n {
			s.send(fmt.Sprint("a-", i), node{1, -1, 0, 1})
			s.now = s.now.Add(time.Minute)
		}
		if spans := s.close(); len(spans) != n {
			b.Errorf("%d files, want %d", len(spans), n)
		}
	})
}

package torch_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

func put(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// watch makes a watcher that notes the names of imported files.
func watch(t *testing.T, dir string, c torch.Sink, opts torch.WatchOptions) (*torch.Watcher, *[]string) {
	t.Helper()
	var done []string
	opts.OnFile = func(path string, rep *torch.Report, err error) {
		name := filepath.Base(path)
		if err != nil {
			name = "!" + name
		}
		done = append(done, name)
	}
	w, err := torch.NewWatcher(dir, c, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return w, &done
}

func scan(t *testing.T, w *torch.Watcher, want int) {
	t.Helper()
	if n, _, err := w.Scan(t.Context()); err != nil || n != want {
		t.Fatalf("imported %d files, want %d; error %v", n, want, err)
	}
}

func TestWatcherImportsFinishedFilesOnceInOrder(t *testing.T) {
	dir := t.TempDir()
	c := &capture{}
	w, done := watch(t, dir, c, torch.WatchOptions{})
	a, b := read(t, "era_absolute_int.json"), gziptest.Pack(read(t, "era_relative_base_last.json"))
	put(t, dir, "w.1778000000000000002.pt.trace.json.gz", b[:len(b)/2]) // being written
	put(t, dir, "w.1778000000000000001.pt.trace.json", a[:len(a)/2])
	put(t, dir, "notes.txt", []byte("x"))
	put(t, dir, ".hidden.json", a)
	scan(t, w, 0)
	scan(t, w, 0) // stable, but neither is closed
	put(t, dir, "w.1778000000000000002.pt.trace.json.gz", b)
	put(t, dir, "w.1778000000000000001.pt.trace.json", a)
	scan(t, w, 0) // their size has just changed
	scan(t, w, 2)
	scan(t, w, 0)
	if !slices.Equal(*done, []string{"w.1778000000000000001.pt.trace.json", "w.1778000000000000002.pt.trace.json.gz"}) {
		t.Errorf("order %q, want [w.1778000000000000001.pt.trace.json w.1778000000000000002.pt.trace.json.gz]", *done)
	}
	if n := len(c.pick("pipeline", "train.iteration")); n != 2 {
		t.Errorf("%d steps from two files, want 2", n)
	}

	// After a restart, renamed and touched files are not imported again.
	w, done = watch(t, dir, c, torch.WatchOptions{})
	put(t, dir, "w.1778000000000000003.pt.trace.json", a)
	old := filepath.Join(dir, "w.1778000000000000002.pt.trace.json.gz")
	if err := os.Chtimes(old, time.Now().Add(time.Hour), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		scan(t, w, 0)
	}
	if len(*done) != 0 {
		t.Errorf("imported again: %q, want none", *done)
	}
}

// TestWatcherListsUnfinishedProfiles checks that the list of a scan has only
// profiles that exist: not other files, and not the temporary file that PyTorch
// has renamed.
func TestWatcherListsUnfinishedProfiles(t *testing.T) {
	dir := t.TempDir()
	w, _ := watch(t, dir, &capture{}, torch.WatchOptions{})
	whole := read(t, "era_absolute_int.json")
	put(t, dir, "events.out.tfevents.1778000000.node", []byte("\x18\x00\x00\x00\x00\x00\x00\x00records"))
	put(t, dir, "dedicated_log_torch_trace_rank_0.log", []byte("V1105 12:00:00.000000 100 torch/_logging/structured.py:22] {\"str\": [\"a.py\", 0]}\n"))
	put(t, dir, ".hidden.json", whole[:100])
	put(t, dir, "cut.pt.trace.json", whole[:len(whole)/2])
	put(t, dir, "empty.pt.trace.json", nil)
	put(t, dir, "new.pt.trace.json.tmp", whole[:len(whole)/2])
	scan(t, w, 0)
	if err := os.Rename(filepath.Join(dir, "new.pt.trace.json.tmp"), filepath.Join(dir, "new.pt.trace.json")); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "new.pt.trace.json", whole)
	scan(t, w, 0)
	n, left, err := w.Scan(t.Context())
	if want := []string{"cut.pt.trace.json", "empty.pt.trace.json"}; n != 1 || err != nil || !slices.Equal(left, want) {
		t.Errorf("Scan() = %d, %q, %v, want 1, %q and no error", n, left, err, want)
	}
}

func TestWatcherRefusedFileIsReportedOnce(t *testing.T) {
	dir := t.TempDir()
	w, done := watch(t, dir, &capture{}, torch.WatchOptions{})
	put(t, dir, "et.json", read(t, "foreign_execution_trace.json"))
	for range 4 {
		scan(t, w, 0)
	}
	if !slices.Equal(*done, []string{"!et.json"}) {
		t.Errorf("reported %q, want [!et.json]", *done)
	}
}

func TestWatcherRepeatsImports(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.json", read(t, "era_absolute_int.json"))
	state := filepath.Join(t.TempDir(), "state.json")
	for _, c := range []struct {
		state string // that of a process that died during an import, or of one whose import failed
		retry bool
		want  []string
	}{
		{"importing", false, []string{"!a.json"}},
		{"importing", true, []string{"a.json"}},
		{"interrupted", false, nil},
		{"interrupted", true, []string{"a.json"}},
		{"failed", false, nil},
		{"failed", true, []string{"a.json"}},
	} {
		w, _ := watch(t, dir, &capture{}, torch.WatchOptions{StateFile: state})
		scan(t, w, 0)
		scan(t, w, 1)
		data, err := os.ReadFile(state)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(state, bytes.Replace(data, []byte(`"done"`), []byte(strconv.Quote(c.state)), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		w, done := watch(t, dir, &capture{}, torch.WatchOptions{StateFile: state, Retry: c.retry})
		scan(t, w, 0)
		imported := 0
		if c.retry {
			imported = 1
		}
		scan(t, w, imported)
		if !slices.Equal(*done, c.want) {
			t.Errorf("state %s, retry %v: %q, want %q", c.state, c.retry, *done, c.want)
		}
		os.Remove(state)
	}
}

func TestWatcherRun(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.json", read(t, "era_absolute_int.json"))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		w, done := watch(t, dir, &capture{}, torch.WatchOptions{Interval: time.Second})
		if err := w.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run returned %v", err)
		}
		if len(*done) != 1 {
			t.Errorf("imported %q, want one", *done)
		}
	})
}

// TestWatcherWaitsForItsState checks that Run goes on when its state file could
// not be written for a time, and imports each file once.
func TestWatcherWaitsForItsState(t *testing.T) {
	for name, fails := range map[string][]int{ // numbers of writes
		"before an import": {1, 2},
		"after an import":  {2, 3},
	} {
		dir := t.TempDir()
		put(t, dir, "a.json", read(t, "era_absolute_int.json"))
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var waits []error
			c := &capture{}
			w, done := watch(t, dir, c, torch.WatchOptions{Interval: time.Second, OnWait: func(err error) { waits = append(waits, err) }})
			n := 0
			w.ReplaceStore(func(store func(string) error) func(string) error {
				return func(path string) error {
					if n++; slices.Contains(fails, n) {
						return &torch.StateError{Path: path, Err: syscall.ENOSPC}
					}
					return store(path)
				}
			})
			if err := w.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: Run returned %v", name, err)
			}
			if len(*done) != 1 || len(waits) != 1 || len(c.events) == 0 {
				t.Errorf("%s: imported %q with %d events, and waited %d times; want one file, some events, and one wait", name, *done, len(c.events), len(waits))
			}
		})
		if state, err := os.ReadFile(filepath.Join(dir, ".trainspan-imported.json")); err != nil || !strings.Contains(string(state), `"done"`) {
			t.Errorf("%s: the state is %s, %v; want that the file is imported", name, state, err)
		}
	}
}

func TestWatcherStopKeepsUnwrittenFile(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.json", generated(6000, 0))
	ctx, cancel := context.WithCancel(t.Context())
	w, _ := watch(t, dir, &capture{}, torch.WatchOptions{})
	scan(t, w, 0)
	cancel()
	if _, _, err := w.Scan(ctx); err == nil {
		t.Error("got no error for a stopped scan, want one")
	}
	scan(t, w, 1)
}

func TestWatcherBadState(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, ".trainspan-imported.json", []byte("{broken"))
	if _, err := torch.NewWatcher(dir, &capture{}, nil); err == nil {
		t.Error("got no error for a damaged state file, want one")
	}
	if _, err := torch.NewWatcher(filepath.Join(dir, "absent"), &capture{}, nil); err == nil {
		t.Error("got no error for a missing directory, want one")
	}
}

// A sink that cannot be opened is not an error of the file.
func TestWatchEndsWhenTheSinkDoesNotOpen(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "w.1778000000000000001.pt.trace.json", small(0))
	boom := errors.New("no room")
	open := false
	c := &capture{}
	opts := &torch.WatchOptions{Import: &torch.Options{Begin: func(time.Time) (torch.Sink, error) {
		if !open {
			return nil, boom
		}
		return c, nil
	}}}
	w, err := torch.NewWatcher(dir, nil, opts)
	if err != nil {
		t.Fatal(err)
	}
	scan(t, w, 0)
	if _, _, err := w.Scan(t.Context()); !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	open = true
	scan(t, w, 1)
	if len(c.pick("PP", "")) != 2 {
		t.Error("the file is not imported later")
	}
}

// TestWatcherWritten checks that a file whose events are not stored does not
// count as imported, and is imported again with Retry.
func TestWatcherWritten(t *testing.T) {
	dir, full := t.TempDir(), errors.New("full")
	put(t, dir, "w.1778000000000000001.pt.trace.json", read(t, "era_absolute_int.json"))
	stored := func(context.Context) error { return nil }
	for i, c := range []struct {
		written func(context.Context) error
		retry   bool
		want    int
		done    []string
	}{
		{func(context.Context) error { return full }, false, 0, []string{"!w.1778000000000000001.pt.trace.json"}},
		{stored, false, 0, nil},
		{stored, true, 1, []string{"w.1778000000000000001.pt.trace.json"}},
		{stored, true, 0, nil},
	} {
		w, done := watch(t, dir, &capture{}, torch.WatchOptions{Retry: c.retry, Written: c.written})
		scan(t, w, 0)
		scan(t, w, c.want)
		if !slices.Equal(*done, c.done) {
			t.Errorf("watcher %d reports %q, want %q", i, *done, c.done)
		}
	}
}

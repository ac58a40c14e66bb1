package dftracer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// trace runs a small tree of spans on lanes: a root in each goroutine, with
// nested and concurrent children, some of which end after their parent. It
// returns the number of events.
func trace(w *dftracer.Writer, lanes *dftracer.Lanes, rounds int) (events int) {
	key, child := dftracer.NewKey("compute", "forward"), dftracer.NewKey("comm", "all_reduce")
	now := func() int64 { return time.Now().UnixMicro() }
	for i := range rounds {
		start := now()
		id := w.NextID()
		root, _ := lanes.Begin(dftracer.Lane{}, start)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				start := now()
				id2 := w.NextID()
				lane, _ := lanes.Begin(root, start)
				innerStart := now()
				inner, _ := lanes.Begin(lane, innerStart)
				innerEnd := now()
				w.WriteComplete(&child, dftracer.Span{ID: w.NextID(), TID: lanes.End(inner, innerEnd), TS: innerStart, Dur: innerEnd - innerStart, Level: 3, Parent: int64(id2)},
					dftracer.Int("step", int64(i)))
				end := now()
				w.WriteComplete(&key, dftracer.Span{ID: id2, TID: lanes.End(lane, end), TS: start, Dur: end - start, Level: 2, Parent: int64(id)})
			})
		}
		wg.Wait()
		end := now()
		w.Write(&dftracer.Event{ID: id, Name: "iteration", Cat: "pipeline", TID: lanes.End(root, end), TS: start, Dur: end - start, Level: 1,
			Args: []dftracer.Arg{tracefile.HashArg("fhash", w.Hash(tracefile.NameFileHash, "/data/"+strconv.Itoa(i%10)))}})
		events += 5
	}
	return events
}

func TestConcurrentTraceIsFlawless(t *testing.T) {
	for _, opts := range []dftracer.Options{
		{},
		{Dialect: dftracer.V1, MemberSize: 20000},
		{Dialect: dftracer.V22, Nesting: dftracer.NestingOn, Level: 9},
		{Compression: dftracer.CompressSingle, FlushInterval: 5 * time.Millisecond},
		{Compression: dftracer.CompressNone, Sync: dftracer.SyncAlways, FlushInterval: 20 * time.Millisecond},
		{FlushInterval: 2 * time.Millisecond, Sync: dftracer.SyncOnClose},
	} {
		t.Run(fmt.Sprintf("%v-%d", opts.Dialect, opts.Compression), func(t *testing.T) {
			w, err := dftracer.Create(filepath.Join(t.TempDir(), "sub", "trace.pfw.gz"), &opts)
			if err != nil {
				t.Fatal(err)
			}
			lanes := dftracer.NewLanes(int64(os.Getpid()))
			var wg sync.WaitGroup
			var mu sync.Mutex
			total := 0
			for range 64 {
				wg.Go(func() {
					n := trace(w, lanes, 20)
					mu.Lock()
					total += n
					mu.Unlock()
				})
			}
			wg.Wait()
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			report := dftest.Check(t, w.Path())
			if got := report.Events - 2; got != total {
				t.Errorf("%d events, want %d", got, total)
			}
			if n := report.Counts["dftracer/FH/M"]; n != 11 && opts.Dialect != dftracer.V1 || n < 10 {
				t.Errorf("%d FH records, want 11 for 10 files and the directory (dialect 1: 10)", n)
			}
			if st := w.Stats(); st.Lost+st.Late+st.Repaired+st.Errors > 0 || int(st.Lines) != report.Events+report.Metadata || st.Buffered != 0 {
				t.Errorf("stats %+v, want no loss, every line of the file, nothing buffered", st)
			}
		})
	}
}

// TestFactsComeFirst reads a trace in order: every hash must be defined before
// the first event that uses it.
func TestFactsComeFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	w, err := dftracer.Create(path, &dftracer.Options{MemberSize: 5000, FlushInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				h := w.Hash(tracefile.NameFileHash, "/data/"+strconv.Itoa(g)+"/"+strconv.Itoa(i))
				w.Write(&dftracer.Event{Name: "read", Cat: "POSIX", TID: int64(g), TS: 1, Args: []dftracer.Arg{tracefile.HashArg("fhash", h)}})
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var hashes tracefile.Hashes
	r, err := dftracer.OpenReader(path, &dftracer.ReaderOptions{Hashes: &hashes})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // only read
	for ev, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := ev.Arg("fhash"); ok {
			if name, known := hashes.File(a.Text()); !known || !strings.HasPrefix(name, "/data/") {
				t.Fatalf("event %d refers to the hash %s before its record", ev.ID, a.Text())
			}
		}
	}
}

func TestMembersEndOnLines(t *testing.T) {
	var out bytes.Buffer
	w, err := dftracer.NewWriter(&out, &dftracer.Options{MemberSize: 10000})
	if err != nil {
		t.Fatal(err)
	}
	if z, err := gzip.NewReader(bytes.NewReader(out.Bytes())); err != nil {
		t.Errorf("the start of the trace is not in the file at once: %v", err)
	} else if head, _ := readText(z); !strings.HasPrefix(head, "[\n{") || !strings.Contains(head, `"name":"start"`) {
		t.Errorf("file starts with %q, want [ and the start record", head)
	}
	writeSteps(w, 3, 1000)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rest := bytes.NewReader(out.Bytes())
	n := 0
	for rest.Len() > 0 {
		z, err := gzip.NewReader(rest)
		if err != nil {
			t.Fatal(err)
		}
		z.Multistream(false)
		text, err := readText(z)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(text, "\n") && !strings.HasSuffix(text, "\n]") {
			t.Errorf("member %d ends with %q, want a whole line", n, text[max(0, len(text)-40):])
		}
		n++
	}
	if st := w.Stats(); n < 10 || int(st.Members) != n || int(st.DiskBytes) != out.Len() {
		t.Errorf("%d members, stats %+v; want 10 or more, and the same members and bytes counted", n, st)
	}
}

func readText(z *gzip.Reader) (string, error) {
	var b bytes.Buffer
	_, err := b.ReadFrom(z)
	return b.String(), err
}

func TestSingleMember(t *testing.T) {
	var out bytes.Buffer
	w, err := dftracer.NewWriter(&out, &dftracer.Options{Compression: dftracer.CompressSingle})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		writeSteps(w, 3, 500)
		if err := w.FlushContext(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rest := bytes.NewReader(out.Bytes())
	z, err := gzip.NewReader(rest)
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	if text, err := readText(z); err != nil || strings.Count(text, "\n") != 2508 || rest.Len() != 0 {
		t.Errorf("%v, %d lines, %d bytes after the member; want 2508, 0", err, strings.Count(text, "\n"), rest.Len())
	}
}

// TestWritesAfterTheFlushInterval waits for the flush interval in synthetic time.
func TestWritesAfterTheFlushInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{}
		w, err := dftracer.NewWriter(f, &dftracer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		before := len(f.bytes())
		time.Sleep(1100 * time.Millisecond)
		emit(w, 1)
		synctest.Wait()
		if len(f.bytes()) != before {
			t.Errorf("an idle writer wrote %d bytes, want none", len(f.bytes())-before)
		}
		time.Sleep(500 * time.Millisecond) // docs/explain/reliability.md says what a kill may cost
		synctest.Wait()
		if events, _ := readAll(t, bytes.NewReader(f.bytes())); len(events) != 7 {
			t.Errorf("%d records half a second after the event, want 7", len(events))
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestRotation(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		opts dftracer.Options
	}{
		"members": {"trace.pfw.gz", dftracer.Options{RotateSize: 20000, MemberSize: 10000}},
		"plain":   {"trace.pfw", dftracer.Options{RotateSize: 200000, Compression: dftracer.CompressNone}},
	} {
		t.Run(name, func(t *testing.T) { testRotation(t, c.file, &c.opts) })
	}
}

func testRotation(t *testing.T, file string, opts *dftracer.Options) {
	dir := t.TempDir()
	w, err := dftracer.Create(filepath.Join(dir, file), opts)
	if err != nil {
		t.Fatal(err)
	}
	tracefile.WriteRank(w, 2)
	h := w.Hash(tracefile.NameFileHash, "/data/x")
	for lane := range int64(40) {
		writeSteps(w, 10+lane, 400)
		w.Write(&dftracer.Event{Name: "read", Cat: "POSIX", TID: 4, Args: []dftracer.Arg{tracefile.HashArg("fhash", h)}})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(files) < 3 || int(w.Stats().Parts) != len(files)-1 {
		t.Fatalf("files %v, stats %+v; want 3 files or more, all counted as parts but the first", files, w.Stats())
	}
	total := 0
	for _, path := range files {
		report := dftest.Check(t, path)
		total += report.Events - 2
		if report.Counts["dftracer/PR/M"] != 1 || report.Counts["dftracer/FH/M"] != 2 {
			t.Errorf("%s: counts %v, want 1 PR and 2 FH", path, report.Counts)
		}
	}
	if total != 40*401 {
		t.Errorf("%d events in all parts, want %d", total, 40*401)
	}
}

func TestPaths(t *testing.T) {
	who := dftracer.Process{PID: 42, Host: "node/7", Exec: "train"}
	hash := tracefile.HashText(tracefile.HashOf(dftracer.V2, "train-node/7-42"), dftracer.V2)
	rank := 5
	for _, bad := range []string{"", "t-{rankk}.pfw.gz"} {
		if _, err := dftracer.Create(bad, nil); err == nil || bad != "" && !strings.Contains(err.Error(), "{rankk}: use {rank}, {pid} or {host}") {
			t.Errorf("Create(%q): %v, want an error that names the placeholders", bad, err)
		}
	}
	for _, test := range []struct {
		path string
		opts dftracer.Options
		want string
	}{
		{"trace-{rank}.pfw.gz", dftracer.Options{Process: dftracer.Process{Rank: &rank}}, "trace-5.pfw.gz"},
		{"trace-{rank}.pfw", dftracer.Options{}, "trace-0.pfw"},
		{"{host}-{pid}.pfw", dftracer.Options{}, "node_7-42.pfw"},
		{"trace.pfw.gz", dftracer.Options{Process: dftracer.Process{Rank: &rank, WorldSize: 8}}, "trace-rank5.pfw.gz"},
		{"trace-{rank}.pfw.gz", dftracer.Options{Process: dftracer.Process{Rank: &rank, WorldSize: 8}}, "trace-5.pfw.gz"},
		{"trace.pfw.gz", dftracer.Options{Process: dftracer.Process{Rank: &rank, WorldSize: 1}}, "trace.pfw.gz"},
		{"t", dftracer.Options{HashName: true, Process: dftracer.Process{Rank: &rank, WorldSize: 8}}, "t-" + hash + "-app.pfw.gz"},
		{"trace.pfw", dftracer.Options{Compression: dftracer.CompressSingle}, "trace.pfw.gz"},
		{"trace.pfw.gz", dftracer.Options{Compression: dftracer.CompressNone}, "trace.pfw"},
		{"t", dftracer.Options{HashName: true}, "t-" + hash + "-app.pfw.gz"},
		{"t.pfw", dftracer.Options{HashName: true}, "t.pfw-" + hash + "-app.pfw"},
		{"other.log", dftracer.Options{}, "other.log"},
	} {
		dir := t.TempDir()
		test.opts.Process.PID, test.opts.Process.Host, test.opts.Process.Exec = who.PID, who.Host, who.Exec
		w, err := dftracer.Create(filepath.Join(dir, test.path), &test.opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		want := strings.Replace(test.want, "t.pfw-", "t-", 1)
		if got := filepath.Base(w.Path()); got != want {
			t.Errorf("%s becomes %s, want %s", test.path, got, want)
		}
		report := dftest.Check(t, filepath.Join(dir, want))
		if (report.Counts["dftracer/PR/M"] == 1) != (test.opts.Process.Rank != nil) {
			t.Errorf("%s: counts %v, want a PR record: %v", test.path, report.Counts, test.opts.Process.Rank != nil)
		}
	}
}

func TestExistingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	create := func(e dftracer.Existing) error {
		w, err := dftracer.Create(path, &dftracer.Options{Existing: e})
		if err != nil {
			return err
		}
		return w.Close()
	}
	for _, e := range []dftracer.Existing{dftracer.ExistingFail, dftracer.ExistingNext, dftracer.ExistingNext} {
		if err := create(e); err != nil {
			t.Errorf("%d: %v", e, err)
		}
	}
	if err := create(dftracer.ExistingFail); !errors.Is(err, os.ErrExist) {
		t.Error(err)
	}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if len(files) != 3 {
		t.Errorf("files %v, want 3", files)
	}
	for _, f := range files {
		dftest.Check(t, f)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := dftracer.NewWriter(&bytes.Buffer{}, &dftracer.Options{Dialect: 9, Level: 12, MemberSize: -1, FlushInterval: -1, RotateSize: -1, Sync: 9, Existing: 9, Nesting: 9, Compression: 9})
	if err == nil {
		t.Fatal("the options were accepted, want an error")
	}
	for _, want := range []string{"dialect 9", "level 12", "member size -1", "interval -1ns", "rotation size -1", "sync policy 9", "policy 9 for existing", "nesting 9", "compression 9"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := dftracer.Create("/proc/none/trace.pfw", nil); err == nil {
		t.Error("Create succeeded, want an error")
	}
}

func TestRemoveEmpty(t *testing.T) {
	for n, keep := range map[int]bool{0: false, 2: false, 3: true} {
		path := filepath.Join(t.TempDir(), "trace.pfw")
		w, err := dftracer.Create(path, &dftracer.Options{RemoveEmpty: true})
		if err != nil {
			t.Fatal(err)
		}
		emit(w, n)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); (err == nil) != keep {
			t.Errorf("%d events: Stat of the file = %v, want it kept: %v", n, err, keep)
		}
	}
}

func TestNilWriter(t *testing.T) {
	var w *dftracer.Writer
	key := dftracer.NewKey("a", "b")
	w.Write(&dftracer.Event{})
	w.WriteComplete(&key, dftracer.Span{})
	tracefile.WriteBegin(w, &dftracer.Event{})
	tracefile.WriteCustom(w, "a", "b")
	w.Write(&dftracer.Event{Phase: dftracer.PhaseCounter})
	tracefile.WriteRank(w, 1)
	tracefile.WriteCores(w, []int{1})
	w.SetEnd(time.Time{})
	if w.NextID() != 0 || w.Hash(tracefile.NameFileHash, "x") != 0 || w.Hash(tracefile.NameStringHash, "x") != 0 || w.Path() != "" || w.Stats() != (dftracer.Stats{}) {
		t.Error("a nil Writer returned values, want a no-op")
	}
	if err := errors.Join(w.FlushContext(context.Background()), w.Sync(), w.Close()); err != nil {
		t.Error(err)
	}
}

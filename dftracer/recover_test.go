package dftracer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
	"github.com/trainspan/trainspan/internal/tracefile/validate"
)

// tornTrace returns a trace without its last part: spans are open, and some of
// them already have children.
func tornTrace(t testing.TB, opts *dftracer.Options) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := dftracer.NewWriter(&buf, opts)
	if err != nil {
		t.Fatal(err)
	}
	const ts = 1744611912990000
	long := &dftracer.Event{ID: w.NextID(), Name: "train", Cat: "pipeline", TID: 9, TS: ts, Level: 1}
	tracefile.WriteBegin(w, long)
	short := w.NextID()
	for i := range int64(20) {
		w.Write(&dftracer.Event{Name: "read", Cat: "io", TID: 10, TS: ts + 100 + 10*i, Dur: 5, Level: 3, Parent: int64(short)})
		w.Write(&dftracer.Event{Name: "step", Cat: "compute", TID: 9, TS: ts + 100 + 10*i, Dur: 5, Level: 2, Parent: int64(long.ID)})
		if i%5 == 0 {
			_ = w.FlushContext(context.Background())
		}
	}
	_ = w.FlushContext(context.Background())
	data := bytes.Clone(buf.Bytes())
	_ = w.Close()
	return data
}

func TestRecoverLeavesNoParentOut(t *testing.T) {
	for _, d := range []dftracer.Dialect{dftracer.V1, dftracer.V2, dftracer.V22} {
		path := filepath.Join(t.TempDir(), "trace.pfw.gz")
		writeFile(t, path, string(tornTrace(t, &dftracer.Options{Dialect: d, Nesting: dftracer.NestingOn})))
		if _, err := recovery.File(path, nil); err != nil {
			t.Fatal(err)
		}
		r := dftest.Check(t, path)
		if r.Orphans != 0 || r.Counts["dftracer/unfinished/X"] != 1 || r.Counts["pipeline/train/X"] != 1 {
			t.Errorf("%v: %d orphans, %v; want none, 1 unfinished, 1 train", d, r.Orphans, r.Counts)
		}
		for _, ev := range dftest.Events(t, path) {
			if a, _ := ev.Arg("truncated"); ev.Name == "unfinished" && (a.Int64() != 1 || ev.Level != 2 || ev.Dur != 195) {
				t.Errorf("span %+v, want it truncated on level 2, 195 µs", ev)
			}
		}
	}
}

// TestRecoverAnyCut cuts a trace at many places, most of them in its first records.
func TestRecoverAnyCut(t *testing.T) {
	dir := t.TempDir()
	for name, opts := range map[string]*dftracer.Options{"members": nil, "single": {Compression: dftracer.CompressSingle}} {
		data := tornTrace(t, opts)
		whole := 0
		for cut, step := 1, 3; cut < len(data); cut += step {
			if cut > 500 {
				step = 43
			}
			path := filepath.Join(dir, "trace.pfw.gz")
			writeFile(t, path, string(data[:cut]))
			if _, err := recovery.File(path, nil); err != nil {
				if whole > 0 {
					t.Fatalf("%s cut at %d: %v, want no error after the first whole record", name, cut, err)
				}
				continue // the file has no record yet
			}
			if whole == 0 {
				whole = cut
			}
			if r, err := dftracer.ValidateFile(path, nil); err != nil || !r.OK() || r.Orphans > 0 {
				t.Fatalf("%s cut at %d: %v %v, %d orphans; want a valid trace without", name, cut, err, r.Err(), r.Orphans)
			}
		}
		if whole == 0 || whole > 300 {
			t.Errorf("%s: recovered from a cut at byte %d on, want one of 1 to 300", name, whole)
		}
	}
}

// TestRecoverTornInALine checks that the repaired trace has no empty line,
// whatever follows the last line feed of an unfinished member.
func TestRecoverTornInALine(t *testing.T) {
	z, err := gzip.NewReader(bytes.NewReader(tornTrace(t, nil)))
	if err != nil {
		t.Fatal(err)
	}
	lines, _ := io.ReadAll(z)
	lines = lines[:bytes.LastIndexByte(lines, '\n')+1]
	for _, tail := range []string{"", "{", `{"na`, ",", " ", "\r", "}"} {
		var torn bytes.Buffer
		w := gzip.NewWriter(&torn)
		_, _ = w.Write(lines)
		_, _ = w.Write([]byte(tail))
		_ = w.Flush() // deliberately not closed
		path := filepath.Join(t.TempDir(), "trace.pfw.gz")
		writeFile(t, path, torn.String())
		if _, err := recovery.File(path, nil); err != nil {
			t.Errorf("%q: %v", tail, err)
		}
		if r, err := dftracer.ValidateFile(path, nil); err != nil || !r.OK() {
			t.Errorf("tail %q: %v %v; want a valid trace", tail, err, r.Err())
		}
	}
}

func TestRecoverFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	writeFile(t, victim, "precious")
	real := filepath.Join(dir, "data", "trace.pfw.gz")
	if err := os.Mkdir(filepath.Dir(real), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, real, string(tornTrace(t, nil)))
	link := filepath.Join(dir, "trace.pfw.gz")
	if err := os.Symlink(real, link); err != nil {
		t.Skip(err)
	}
	for _, planted := range []string{link + ".recover", real + ".recover"} {
		if err := os.Symlink(victim, planted); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := recovery.File(link, nil); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(victim); string(text) != "precious" {
		t.Errorf("the planted link was followed: %.40q, want \"precious\"", text)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced, want it left: %v %v", info, err)
	}
	dftest.Check(t, real)
	left, _ := filepath.Glob(filepath.Join(dir, "data", ".*"))
	if len(left) > 0 {
		t.Errorf("left: %v, want none", left)
	}
}

func TestRecoverRefusesAFileInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	w, err := dftracer.Create(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := recovery.File(path, nil); err == nil || !strings.Contains(err.Error(), "is writing this file") {
		t.Errorf("recover: %v, want an error that another process is writing the file", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	dftest.Check(t, path)
}

// TestRecoverWhileItEnds calls Recover until the writer releases its file: the
// last records must not be cut off.
func TestRecoverWhileItEnds(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 40
	}
	for range rounds {
		path := filepath.Join(t.TempDir(), "trace.pfw")
		w, err := dftracer.Create(path, &dftracer.Options{Compression: dftracer.CompressNone})
		if err != nil {
			t.Fatal(err)
		}
		var others sync.WaitGroup
		for range 2 {
			others.Go(func() {
				for {
					switch _, err := recovery.File(path, nil); {
					case err == nil:
						return
					case !errors.Is(err, recovery.ErrInUse):
						t.Error(err)
						return
					}
				}
			})
		}
		const n = 50
		for i := range n {
			w.Write(&dftracer.Event{ID: w.NextID(), Name: "e", Cat: "c", TID: 1, TS: 1744611912990000 + int64(10*i), Dur: 5, Level: 1})
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		others.Wait()
		if got := dftest.Check(t, path).Counts["c/e/X"]; got != n || t.Failed() {
			t.Fatalf("%d events, want %d", got, n)
		}
	}
}

// TestRecoverManyOpenSpans bounds the allocated bytes: quadratic work would
// copy all open spans for every member.
func TestRecoverManyOpenSpans(t *testing.T) {
	recovered := func(n int) (allocated uint64) {
		path := filepath.Join(t.TempDir(), "trace.pfw.gz")
		var buf bytes.Buffer
		w, err := dftracer.NewWriter(&buf, &dftracer.Options{MemberSize: 8 << 10})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			ts := int64(1744611912990000 + 10*i)
			tracefile.WriteBegin(w, &dftracer.Event{ID: w.NextID(), Name: fmt.Sprint("s", i), Cat: "c", TID: int64(i), TS: ts, Level: 1})
			w.Write(&dftracer.Event{Name: "e", Cat: "c", TID: int64(i), TS: ts + 1, Dur: 5, Level: 1})
		}
		_ = w.FlushContext(context.Background())
		writeFile(t, path, buf.String())
		_ = w.Close()
		allocated = allocatedBy(func() {
			r, err := recovery.File(path, nil)
			if err != nil || r.Closed != n {
				t.Errorf("recovery: %+v, %v; want %d closed", r, err, n)
			}
		})
		dftest.Check(t, path)
		return allocated
	}
	small, large := recovered(1000), recovered(8000)
	if large > 16*small {
		t.Errorf("8 times the spans allocate %d bytes, %d times as much as the small trace, want at most 16", large, large/small)
	}
}

func TestValidateAcceptsWhatATraceSaysOfItself(t *testing.T) {
	var buf bytes.Buffer
	w, err := dftracer.NewWriter(&buf, &dftracer.Options{Compression: dftracer.CompressNone})
	if err != nil {
		t.Fatal(err)
	}
	w.Write(&dftracer.Event{Name: "child", Cat: "c", TID: 1, TS: 10, Dur: 5, Level: 2, Parent: 77})
	w.SetEnd(time.Time{}, dftracer.Int("events_lost", 3))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := validate.Stream(bytes.NewReader(buf.Bytes()), nil)
	if err != nil || !r.OK() || r.Lost != 3 || r.Orphans != 1 {
		t.Errorf("%v %v: lost %d, orphans %d; want a valid trace, 3, 1", err, r.Err(), r.Lost, r.Orphans)
	}
	silent := strings.Replace(buf.String(), `,"events_lost":3`, "", 1)
	if r, err := validate.Stream(strings.NewReader(silent), nil); err != nil || r.OK() {
		t.Errorf("a trace that does not report its losses is valid (%v), want a problem", err)
	}
}

// allocatedBy returns how many bytes f allocates.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// An existing output is replaced only with Force, and only if it is a regular
// file.
func TestRecoverOutput(t *testing.T) {
	dir := t.TempDir()
	path, out, link := filepath.Join(dir, "trace.pfw.gz"), filepath.Join(dir, "out.pfw.gz"), filepath.Join(dir, "link.pfw.gz")
	writeFile(t, path, string(tornTrace(t, nil)))
	writeFile(t, out, "precious")
	if err := os.Symlink(out, link); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		to    string
		force bool
		ok    bool
	}{{out, false, false}, {link, false, false}, {link, true, false}, {os.DevNull, true, false}, {dir, true, false}, {out, true, true}} {
		_, err := recovery.File(path, &recovery.Options{Output: c.to, Force: c.force})
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v, want success %v", c, err, c.ok)
		}
		text, readErr := os.ReadFile(out)
		if readErr != nil || (string(text) == "precious") == c.ok {
			t.Errorf("%+v: output contains %.20q, %v; want it replaced: %v", c, text, readErr, c.ok)
		}
	}
	dftest.Check(t, out)
}

// TestRecoverBeforeTheEnd checks that missing records are inserted before the
// end event, in all forms and wherever the file is torn after it.
func TestRecoverBeforeTheEnd(t *testing.T) {
	text := stepsText(t, 20) // the last iteration was never written
	end := bytes.LastIndex(text, []byte(`{"id":`))
	for _, test := range []struct {
		name string
		data []byte
		from int // where the cuts begin
	}{
		{"plain", text, end},
		{"in a member", gziptest.Pack(text), len(gziptest.Pack(text)) - 12},
		{"in a member of its own", gziptest.Pack(text[:end], text[end:]), len(gziptest.Pack(text[:end])) + 1},
		{"one whole member", append(gziptest.Pack(text), 0x1f, 0x8b, 8, 0), len(gziptest.Pack(text)) + 1},
		{"its bracket is in another one", gziptest.Pack(text[:len(text)-1], text[len(text)-1:]), len(gziptest.Pack(text[:len(text)-1]))},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "trace")
			for cut := test.from; cut < len(test.data); cut++ {
				writeFile(t, path, string(test.data[:cut]))
				if _, err := recovery.File(path, nil); err != nil {
					t.Fatal(err)
				}
				if r, err := dftracer.ValidateFile(path, nil); err != nil || !r.OK() || r.Orphans > 0 || r.Counts["dftracer/unfinished/X"] != 1 {
					t.Fatalf("cut at %d of %d: %v %v, %d orphans, %v; want a valid trace without orphans, 1 unfinished", cut, len(test.data), err, r.Err(), r.Orphans, r.Counts)
				}
			}
		})
	}
}

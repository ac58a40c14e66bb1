package dftracer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
	"github.com/trainspan/trainspan/internal/tracefile/validate"
)

// killed returns the trace of a process that was killed while a span was open
// and after some children of it had ended. The span has neither an end nor a
// begin record.
func killed(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	w, err := dftracer.NewWriter(&text, fixed(dftracer.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	const ts = 1744611912990000
	outer := w.NextID()
	tracefile.WriteBegin(w, &dftracer.Event{ID: outer, Name: "train", Cat: "pipeline", TID: 9, TS: ts, Level: 1})
	lost, early := w.NextID(), w.NextID()
	w.Write(&dftracer.Event{Name: "fetch", Cat: "data", TID: 9, TS: ts + 10, Dur: 5, Level: 3, Parent: int64(lost)})
	w.Write(&dftracer.Event{Name: "fetch", Cat: "data", TID: 9, TS: ts + 20, Dur: 7, Level: 3, Parent: int64(lost)})
	w.Write(&dftracer.Event{ID: early, Name: "step", Cat: "compute", TID: 9, TS: ts + 30, Dur: 9, Level: 2, Parent: int64(outer)})
	w.Write(&dftracer.Event{Name: "late", Cat: "compute", TID: 9, TS: ts + 31, Dur: 2, Level: 3, Parent: int64(early)})
	if err := w.FlushContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	out := text.String()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

// In a recovered trace every p_idx names an event, even if the parent span was
// never written.
func TestRecoverLeavesNoOrphans(t *testing.T) {
	for _, packed := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "trace.pfw")
		text := []byte(killed(t))
		if packed {
			text = gziptest.Pack(text)
		}
		writeFile(t, path, string(text))
		report, err := recovery.File(path, nil)
		if err != nil || report.Closed != 1 || report.Unfinished != 1 || report.DamagedAt != -1 {
			t.Errorf("recovery: %+v, %v; want 1 closed, 1 unfinished, no damage", report, err)
		}
		v, err := dftracer.ValidateFile(path, nil)
		if err != nil || !v.OK() || v.Orphans != 0 || v.Counts["dftracer/unfinished/X"] != 1 {
			t.Errorf("%v, %v, %d orphans; want a valid trace without orphans, 1 unfinished span", err, v.Err(), v.Orphans)
		}
		_, err = dftracer.Scan(path, nil, func(ev *dftracer.Event) error {
			if ev.Name == "unfinished" && (ev.Dur != 17 || ev.Parent != dftracer.NoParent || ev.TID == 9) {
				t.Errorf("span %+v, want 17 µs, no parent, a lane of its own", ev)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// The parents of one part of a rotated trace may be in another one.
func TestRecoverInventsNothingInAPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.2.pfw")
	text := killed(t)
	at := strings.Index(text, `{"id":6,`)
	part := `{"id":900,"name":"CM","cat":"dftracer","pid":7,"tid":7,"ph":"M","args":{"hhash":"a","name":"trace.part","value":"2"}}` + "\n"
	writeFile(t, path, text[:at]+part+text[at:])
	if report, err := recovery.File(path, nil); err != nil || report.Unfinished != 0 {
		t.Errorf("recovery of a part: %+v, %v; want none unfinished", report, err)
	}
}

// A recovery that is stopped leaves the file unchanged and no other file beside
// it.
func TestRecoverStops(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string][]byte{"a.pfw": []byte(killed(t)), "a.pfw.gz": gziptest.Pack([]byte(killed(t)))} {
		path := filepath.Join(dir, name)
		writeFile(t, path, string(text))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := recovery.File(path, &recovery.Options{Stop: ctx.Err}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: recovery.File() = %v, want context.Canceled", name, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, text) {
			t.Errorf("%s was changed, want it as before: %v", name, err)
		}
		for what, err := range map[string]error{
			"validate": func() error {
				_, err := dftracer.ValidateFile(path, &dftracer.ValidateOptions{Stop: ctx.Err})
				return err
			}(),
			"scan": func() error {
				_, err := dftracer.Scan(path, &dftracer.ReaderOptions{Stop: ctx.Err}, func(*dftracer.Event) error { return nil })
				return err
			}(),
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s of %s: %v, want context.Canceled", what, name, err)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("files left %v, %v; want two", left, err)
	}
}

// A recovery that is stopped, at whatever moment, changes nothing.
func TestRecoverStopsAnywhere(t *testing.T) {
	text := append([]byte(killed(t)), stepsText(t, 2000)...)
	packed := gziptest.Pack(text)
	torn := packed[:len(packed)-len(packed)/8] // one member, cut off
	path := filepath.Join(t.TempDir(), "a.pfw.gz")
	stop := errors.New("stop")
	for after := 0; ; after++ {
		writeFile(t, path, string(torn))
		calls := 0
		_, err := recovery.File(path, &recovery.Options{Stop: func() error {
			if calls++; calls > after {
				return stop
			}
			return nil
		}})
		if calls <= after {
			if err != nil || after < 10 {
				t.Fatalf("recovery.File() = %v after %d calls of Stop; want no error after 10 and more", err, calls)
			}
			return
		}
		if now, readErr := os.ReadFile(path); !errors.Is(err, stop) || readErr != nil || !bytes.Equal(now, torn) {
			t.Fatalf("stopped at call %d: %v, and the file has %d bytes, %v; want the error of Stop and the %d bytes of before", after, err, len(now), readErr, len(torn))
		}
	}
}

// A member with a wrong checksum is damaged, even if its text is readable.
func TestGzipChecksumIsChecked(t *testing.T) {
	data := gziptest.Pack(stepsText(t, 50))
	data[len(data)-6] ^= 1
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	writeFile(t, path, string(data))
	st, err := dftracer.Scan(path, nil, func(*dftracer.Event) error { return nil })
	if err != nil || !st.Torn || !errors.Is(st.Cause, gzip.ErrChecksum) {
		t.Errorf("reading: %+v, %v; want it torn by a wrong checksum", st, err)
	}
	if r, err := dftracer.ValidateFile(path, nil); err != nil || r.OK() {
		t.Errorf("ValidateFile: valid %v, %v; want a problem with the checksum", r.OK(), err)
	}
}

// Traces that the merge tools of other producers write.
func TestForeignTraces(t *testing.T) {
	const rec = `{"id":1,"name":"read","cat":"POSIX","pid":1,"tid":2,"ts":1744611912990000,"dur":5,"ph":"X","args":{"ret":3,"p_idx":77}}`
	const end = `{"id":2,"name":"end","cat":"dftracer","pid":1,"tid":2,"ts":1744611912990009,"dur":0,"ph":"X","args":{"num_events":1}}`
	const bare = `{"name":"x","cat":"c","pid":1,"tid":2,"ts":1744611912990000,"dur":5,"ph":"X"}`
	long := `{"id":3,"name":"` + strings.Repeat("x", 17<<10) + `","cat":"c","pid":1,"tid":2,"ts":1744611912990000,"dur":5,"ph":"X"}`
	for name, text := range map[string]string{
		"merged":       "[\n" + rec + "\n" + end + "\n" + rec + "\n" + end + "\n]",
		"concatenated": "[\n" + rec + "\n]\n[\n" + rec + "\n]\n",
		"joined":       "[\n" + rec + "\n][\n" + rec + "\n]",
		"commas":       "[\n" + rec + ",\n" + rec + "\n]\n",
		"blanks":       "  " + rec + "\n\n" + rec + "\n",
		"no ids":       bare + "\n" + bare,
		"long":         long + "\n",
	} {
		r, err := validate.Stream(strings.NewReader(text), &dftracer.ValidateOptions{AllowForeign: true})
		if err != nil || !r.OK() {
			t.Errorf("%s: %v, %v; want it valid", name, err, r.Err())
		}
		if r, err := validate.Stream(strings.NewReader(text), nil); err != nil || r.OK() {
			t.Errorf("%s: strict validation found nothing, want a problem: %v", name, err)
		}
	}
	r, err := validate.Stream(strings.NewReader(strings.Replace(rec, `"dur":5`, `"dur":"5"`, 1)), &dftracer.ValidateOptions{AllowForeign: true})
	if err != nil || r.Count != 1 {
		t.Errorf("duration as text: %v, %v; want 1 problem", err, r.Err())
	}
}

func TestProblemsAreGrouped(t *testing.T) {
	r, err := validate.Stream(strings.NewReader(brokenTrace(500)), nil)
	if err != nil {
		t.Fatal(err)
	}
	n, line := 0, 0
	for _, g := range r.Groups {
		n += g.Count
		if g.First.Line < line || g.First.Text == "" || g.First.Rule != g.Rule {
			t.Errorf("group %+v, want its first problem, with text and rule, in the order of lines", g)
		}
		line = g.First.Line
	}
	if n != r.Count || len(r.Groups) < 5 || len(r.Groups) > 20 {
		t.Errorf("%d problems in %d groups, want %d in 5 to 20 groups", n, len(r.Groups), r.Count)
	}
}

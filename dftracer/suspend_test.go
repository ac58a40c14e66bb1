package dftracer_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// spread writes a trace of a parent and its children, and suspends the writer
// before each child.
func spread(t *testing.T, path string, o *dftracer.Options, between func(part int)) (*dftracer.Writer, int) {
	t.Helper()
	w, err := dftracer.Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	const children = 5
	key, parent := dftracer.NewKey("compute", "step"), w.NextID()
	for i := range children {
		w.WriteComplete(&key, dftracer.Span{TID: int64(i % 3), TS: int64(100 + 10*i), Dur: 5, Parent: int64(parent)},
			tracefile.HashArg("fhash", w.Hash(tracefile.NameFileHash, "data.bin")))
		old := w
		if err := old.Suspend(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := old.FlushContext(context.Background()); err != nil {
			t.Errorf("a suspended writer says %v", err)
		}
		between(i)
		if w, err = old.Resume(); err != nil {
			t.Fatal(err)
		}
		if _, err := old.Resume(); err == nil {
			t.Error("two writers resumed one file, want one")
		}
	}
	w.WriteComplete(&key, dftracer.Span{ID: parent, TS: 90, Dur: 100})
	return w, children + 1
}

func TestSuspend(t *testing.T) {
	for name, c := range map[string]dftracer.Compression{
		"members": dftracer.CompressMembers, "single": dftracer.CompressSingle, "plain": dftracer.CompressNone,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "trace.pfw.gz")
			w, spans := spread(t, path, &dftracer.Options{Compression: c, RemoveEmpty: true}, func(int) {})
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			report := dftest.Check(t, w.Path())
			if report.Events != spans+2 || report.Orphans != 0 {
				t.Errorf("%d events, %d orphans; want %d, 0", report.Events, report.Orphans, spans+2)
			}
			files, _ := os.ReadDir(filepath.Dir(path))
			if len(files) != 1 {
				t.Errorf("the trace is in %v, want one", files)
			}
			s := w.Stats()
			if s.Lost != 0 || s.Late != 0 || report.Lines != int(s.Lines)+2 {
				t.Errorf("%d lines, stats %+v; want the same number and 2 at the end, none lost or late", report.Lines, s)
			}
			names := 0
			for _, ev := range dftest.Events(t, w.Path()) {
				if key, _ := ev.Meta(); ev.Name == tracefile.NameFileHash && key == "data.bin" {
					names++
				}
			}
			if names != 1 {
				t.Errorf("a name is written %d times, want 1", names)
			}
		})
	}
}

// A rotated trace continues in its last part.
func TestSuspendRotated(t *testing.T) {
	dir := t.TempDir()
	w, spans := spread(t, filepath.Join(dir, "trace.pfw.gz"), &dftracer.Options{RotateSize: 600}, func(int) {})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	events := 0
	for _, f := range files {
		report, err := dftracer.ValidateFile(f, &dftracer.ValidateOptions{AllowMissingParents: true})
		if err != nil || !report.OK() {
			t.Errorf("%s: %v %v; want a valid trace", f, err, report.Err())
		}
		events += report.Events - 2
	}
	if len(files) < 2 || len(files) != int(w.Stats().Parts)+1 || events != spans {
		t.Errorf("%d events in %v, want %d", events, files, spans)
	}
}

func TestSuspendedFileVanishes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "trace.pfw")
	w, _ := spread(t, path, nil, func(i int) {
		if i == 2 {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	})
	if err := w.Close(); err == nil {
		t.Error("no report of lost lines")
	}
	report, err := dftracer.ValidateFile(path, nil)
	if err != nil || report.Events != 3+2 {
		t.Errorf("%d events, %v; want 5", report.Events, err)
	}
	if w.Stats().Lost == 0 {
		t.Error("no line is counted as lost")
	}
}

// A file that another process wrote to is not changed.
func TestSuspendedFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw")
	var foreign []byte
	w, _ := spread(t, path, nil, func(i int) {
		if i != 2 {
			return
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = io.WriteString(f, "mine\n")
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		foreign, _ = os.ReadFile(path)
	})
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if now, _ := os.ReadFile(path); string(now) != string(foreign) {
		t.Errorf("the file of another program has %d bytes, want the %d unchanged", len(now), len(foreign))
	}
	next := filepath.Join(filepath.Dir(path), "trace.1.pfw")
	if report, err := dftracer.ValidateFile(next, nil); err != nil || report.Events != 3+2 {
		t.Errorf("%d events, %v; want 5", report.Events, err)
	}
}

// A file that another writer has opened is not changed either.
func TestSuspendedFileIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw")
	var taken fswrite.Output
	w, _ := spread(t, path, nil, func(i int) {
		if i != 2 {
			return
		}
		var err error
		if taken, err = fswrite.Open(path, fswrite.Append); err != nil {
			t.Fatal(err)
		}
	})
	defer taken.Close() //nolint:errcheck // nothing is written
	if taken.Path() != path {
		t.Fatalf("the file that was put aside is locked: %s, want %s", taken.Path(), path)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	next := filepath.Join(filepath.Dir(path), "trace.1.pfw")
	if report, err := dftracer.ValidateFile(next, nil); err != nil || report.Events != 3+2 {
		t.Errorf("%d events, %v; want 5", report.Events, err)
	}
}

func TestSuspendOnlyFiles(t *testing.T) {
	w, err := dftracer.NewWriter(io.Discard, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Suspend(context.Background()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error is %v", err)
	}
	if _, err := w.Resume(); err == nil {
		t.Error("Resume of a writer that is not suspended succeeded, want an error")
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

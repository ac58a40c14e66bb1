package ring_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/testkit/ringtest"
	"github.com/trainspan/trainspan/internal/testkit/until"
)

// only returns the only ring buffer in a folder.
func only(t testing.TB, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"+ring.Ext))
	if err != nil || len(paths) != 1 {
		t.Fatalf("rings %v, error %v; want one", paths, err)
	}
	return paths[0]
}

// wait waits for the ring buffer of a process that was just started.
func wait(t testing.TB, dir string, o ring.Options) (r *ring.Ring) {
	t.Helper()
	until.True(t, "a ring", func() bool {
		paths, _ := filepath.Glob(filepath.Join(dir, "*"+ring.Ext))
		for _, path := range paths {
			var err error
			if r, err = ring.Open(path, o); err == nil {
				t.Cleanup(r.Close)
				return true
			}
		}
		return false
	})
	return r
}

// order checks that the spans of a thread have the counts 1, 2, 3...
type order struct {
	t     testing.TB
	last  map[int64]int64 // by thread
	total int64
}

func (o *order) take(r *ring.Record) {
	if r.Kind != ring.KindSpan {
		return
	}
	if o.last == nil {
		o.last = make(map[int64]int64)
	}
	o.total++
	if want := o.last[r.Thread.TID] + 1; r.Value != want {
		o.t.Errorf("thread %d: span %d, want %d", r.Thread.TID, r.Value, want)
	}
	o.last[r.Thread.TID] = r.Value
	if r.End < r.Start {
		o.t.Errorf("span %d ends %d ns before it starts", r.Value, r.Start-r.End)
	}
}

// open opens an artificial ring buffer.
func open(t testing.TB, m *ringtest.Image, o ring.Options) *ring.Ring {
	t.Helper()
	r, err := ring.Open(m.Write(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// summary returns a record as text.
func summary(r *ring.Record) string {
	name := "-"
	if r.Name != nil {
		name = r.Name.Cat + "/" + r.Name.Name
	}
	s := fmt.Sprintf("%d %s depth %d", r.Kind, name, r.Depth)
	if r.Value != 0 {
		s += fmt.Sprint(" value ", r.Value)
	}
	if r.Crossed {
		s += " crossed"
	}
	if r.Failed {
		s += " failed"
	}
	if len(r.Args) > 0 {
		s += " " + string(r.Args)
	}
	return s
}

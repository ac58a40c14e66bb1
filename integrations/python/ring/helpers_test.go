package ring_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/integrations/python/ring"
)

// only gives the one ring in a folder.
func only(t testing.TB, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"+ring.Ext))
	if err != nil || len(paths) != 1 {
		t.Fatalf("rings %v, error %v", paths, err)
	}
	return paths[0]
}

// wait waits for the ring of a process that was just started.
func wait(t testing.TB, dir string, o ring.Options) *ring.Ring {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		paths, _ := filepath.Glob(filepath.Join(dir, "*"+ring.Ext))
		for _, path := range paths {
			if r, err := ring.Open(path, o); err == nil {
				t.Cleanup(r.Close)
				return r
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("no ring was made")
		}
		time.Sleep(time.Millisecond)
	}
}

// order checks that the spans of a thread come with the counts 1, 2, 3...
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

// image is the file of a ring that was made by hand.
type image struct {
	t    testing.TB
	path string
	head []byte
	data []byte // regions
	side string
}

// newImage makes a ring with so many regions in use.
func newImage(t testing.TB, regions int) *image {
	m := &image{t: t, path: filepath.Join(t.TempDir(), "made"+ring.Ext), head: make([]byte, ring.HeadSize), data: make([]byte, regions*ring.RegionSize)}
	copy(m.head, ring.Magic)
	for i, v := range []uint64{64, 8192, 8192, 4096, 135168, 16, 1024, ring.RegionSize, uint64(os.Getpid()), 1e18, 1e12, 0x030b0000, 0, 1} {
		binary.LittleEndian.PutUint64(m.head[8+8*i:], v)
	}
	for i := range regions {
		binary.LittleEndian.PutUint64(m.head[4096+16*i:], uint64(i+1))
	}
	binary.LittleEndian.PutUint64(m.head[256:], uint64(regions))
	binary.LittleEndian.PutUint64(m.head[264:], uint64(regions))
	m.side = `{"n":1,"name":"forward","cat":"compute"}` + "\n" + `{"t":0,"tid":7,"thread":"MainThread"}` + "\n"
	return m
}

// span puts a span into a slot.
func (m *image) span(slot int, start, end uint64) {
	b := m.data[64*slot:]
	binary.LittleEndian.PutUint64(b, start)
	binary.LittleEndian.PutUint64(b[8:], end)
	binary.LittleEndian.PutUint32(b[20:], 2)
	binary.LittleEndian.PutUint64(b[56:], 1)
}

func (m *image) write() string {
	m.t.Helper()
	if err := os.WriteFile(m.path, append(m.head, m.data...), 0o600); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(strings.TrimSuffix(m.path, ring.Ext)+ring.SideExt, []byte(m.side), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return m.path
}

func (m *image) open(o ring.Options) *ring.Ring {
	m.t.Helper()
	r, err := ring.Open(m.write(), o)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(r.Close)
	return r
}

// summary is a record as text.
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

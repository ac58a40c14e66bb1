package ring_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/testkit/ringtest"
)

func TestIs(t *testing.T) {
	m := ringtest.New(t, 1)
	if path := m.Write(); !ring.Is(path) {
		t.Error("Is of a ring = false, want true")
	}
	other := filepath.Join(t.TempDir(), "x.ring")
	if err := os.WriteFile(other, []byte("TSRINGS\x02"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ring.Is(other) || ring.Is(t.TempDir()) || ring.Is(other+"x") {
		t.Error("Is of another file = true, want false")
	}
	if _, err := ring.Open(other, ring.Options{}); !errors.Is(err, ring.ErrNotRing) {
		t.Errorf("no ring: %v", err)
	}
	m.Head[7]++
	path := m.Write()
	if _, err := ring.Open(path, ring.Options{}); !ring.Is(path) || !errors.Is(err, ring.ErrVersion) || !strings.Contains(err.Error(), "trainspan run") {
		t.Errorf("ring of another version: %v, want ErrVersion and advice on trainspan run", err)
	}
	m.Head[7]--
	m.Head[16] = 1
	if _, err := ring.Open(m.Write(), ring.Options{}); !errors.Is(err, ring.ErrNotRing) {
		t.Errorf("another layout: %v", err)
	}
}

// Slots that were taken and not written are waited for, and then lost.
func TestHoles(t *testing.T) {
	m := ringtest.New(t, 1)
	for _, slot := range []int{0, 1, 3, 6} {
		m.Span(slot, uint64(2e12+slot), uint64(2e12+slot+1))
	}
	r := open(t, m, ring.Options{Drain: true, Patience: time.Hour})
	spans := 0
	count := func(*ring.Record) { spans++ }
	if n, err := r.Read(count); n != 4 || err != nil || spans != 4 {
		t.Fatalf("Read() = %d slots, %d spans, error %v; want 4, 4, nil", n, spans, err)
	}
	// One of them comes late.
	f, err := os.OpenFile(m.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // of the test
	m.Span(2, 2e12, 2e12)
	if _, err := f.WriteAt(m.Data[128:192], ringtest.HeadSize+128); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(count); n != 1 || err != nil {
		t.Fatalf("Read() = %d slots, error %v; want 1", n, err)
	}
	if err := r.Finish(t.Context(), count); err != nil {
		t.Fatal(err)
	}
	if st := r.Stats(); spans != 5 || st.Lost != 2 {
		t.Errorf("%d spans, stats %+v; want 5 and 2 lost", spans, st)
	}
}

// A region that was read is unchanged until it is released. Then it is empty
// for the writer, and marked; a later reader does not count it as lost.
func TestDrained(t *testing.T) {
	m := ringtest.New(t, 2)
	for slot := range 8193 {
		m.Span(slot, 2e12, 2e12)
	}
	r := open(t, m, ring.Options{Drain: true})
	if n, err := r.Read(func(*ring.Record) {}); n != 8193 || err != nil {
		t.Fatalf("Read() = %d slots, error %v; want 8193", n, err)
	}
	another := func() ring.Stats {
		t.Helper()
		again, err := ring.Open(m.Path, ring.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if err := again.Finish(t.Context(), func(*ring.Record) {}); err != nil {
			t.Fatal(err)
		}
		return again.Stats()
	}
	if st := another(); st.Spans != 8193 || r.Held() != 1 {
		t.Fatalf("before the release: %+v, %d regions held; want 8193 spans, 1", st, r.Held())
	}
	if err := r.Release(); err != nil || r.Held() != 0 {
		t.Fatalf("%d regions held after the release, error %v; want 0", r.Held(), err)
	}
	if st := another(); st.Spans != 1 || st.Lost != 0 {
		t.Fatalf("after the release: %+v, want 1 span, none lost", st)
	}
	got, err := os.ReadFile(m.Path)
	if err != nil {
		t.Fatal(err)
	}
	if drained := binary.LittleEndian.Uint64(got[4096+8:]); drained != 1 {
		t.Errorf("region 0 is marked %d, want 1", drained)
	}
	if drained := binary.LittleEndian.Uint64(got[4096+24:]); drained != 0 {
		t.Errorf("region 1 is marked %d, want 0", drained)
	}
	for slot := range 8192 {
		if binary.LittleEndian.Uint64(got[ringtest.HeadSize+64*slot+56:]) != 0 {
			t.Fatalf("slot %d is not empty after the release", slot)
		}
	}
}

// Invalid slots are counted and left out.
func TestInvalidSlots(t *testing.T) {
	for name, change := range map[string]func(slot []byte){
		"kind":   func(b []byte) { binary.LittleEndian.PutUint64(b[56:], 77<<32|1) },
		"flags":  func(b []byte) { binary.LittleEndian.PutUint64(b[56:], 1<<60|1) },
		"name":   func(b []byte) { binary.LittleEndian.PutUint64(b[56:], 99) },
		"thread": func(b []byte) { binary.LittleEndian.PutUint32(b[16:], 99) },
		"depth":  func(b []byte) { binary.LittleEndian.PutUint32(b[20:], 1<<30) },
		"start":  func(b []byte) { binary.LittleEndian.PutUint64(b[0:], 1<<63) },
		"text":   func(b []byte) { binary.LittleEndian.PutUint64(b[56:], 3<<32|1) },
	} {
		t.Run(name, func(t *testing.T) {
			m := ringtest.New(t, 1)
			for slot := range 3 {
				m.Span(slot, 2e12, 2e12)
			}
			change(m.Data[64:128])
			r := open(t, m, ring.Options{})
			spans := 0
			if err := r.Finish(t.Context(), func(*ring.Record) { spans++ }); err != nil {
				t.Fatal(err)
			}
			if st := r.Stats(); spans != 2 || st.Bad != 1 {
				t.Errorf("%d spans, stats %+v; want 2 and 1 bad", spans, st)
			}
		})
	}
}

// A file that is truncated while it is mapped gives an error.
func TestCutShort(t *testing.T) {
	m := ringtest.New(t, 2)
	for slot := range 2 * 8192 {
		m.Span(slot, 2e12, 2e12)
	}
	r := open(t, m, ring.Options{})
	if n, err := r.Read(func(*ring.Record) {}); n != 2*8192 || err != nil {
		t.Fatalf("Read() = %d slots, error %v; want %d", n, err, 2*8192)
	}
	if err := os.Truncate(m.Path, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(func(*ring.Record) {}); err == nil {
		t.Error("Read of a file that was cut short: no error, want one")
	}
	if err := r.Cells(func(ring.Cell) {}); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf(`Cells of a file that was cut short: error %v, want "cut short"`, err)
	}
}

// Reading a span allocates nothing.
func TestAllocations(t *testing.T) {
	const regions = 4
	m := ringtest.New(t, regions)
	for slot := range regions * 8192 {
		m.Span(slot, 2e12, 2e12)
	}
	r := open(t, m, ring.Options{})
	spans := 0
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := r.Finish(t.Context(), func(*ring.Record) { spans++ }); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.Mallocs - before.Mallocs; n > regions*8192/50 || spans != regions*8192 {
		t.Errorf("%d allocations for %d spans, want at most 1 in 50 for %d", n, spans, regions*8192)
	}
}

// For any file, reading ends without a panic.
func FuzzRead(f *testing.F) {
	m := ringtest.New(f, 1)
	for slot := range 8 {
		m.Span(slot, 2e12, 2e12)
	}
	f.Add(m.Head[:512], m.Head[4096:4096+64], m.Data[:512], m.Side)
	f.Add(m.Head[:300], []byte{2, 0, 0, 0, 0, 0, 0, 0}, m.Data[:512], `{"n":1}`+"\n"+`{"t":4294967295}`+"\n"+`{"meta":"x","value":[1]}`)
	f.Fuzz(func(t *testing.T, head, table, slots []byte, side string) {
		m := ringtest.New(t, 1)
		copy(m.Head[8:], head[min(len(head), 8):])
		copy(m.Head[4096:135168], table)
		copy(m.Data, slots)
		m.Side = side
		path := m.Write()
		growth.Work(t, m.Size(), 16, func() { readAll(t, path, len(slots)%2 == 0) })
	})
}

func readAll(t *testing.T, path string, drain bool) {
	r, err := ring.Open(path, ring.Options{Drain: drain})
	if err != nil {
		return
	}
	defer r.Close()
	read := int64(0)
	_, err = r.Read(func(r *ring.Record) {
		read++
		if r.Thread == nil || r.End < r.Start || r.Depth < 1 || r.Name == nil && r.Kind != ring.KindPosition {
			t.Errorf("record %+v, want a thread, a name, a depth and an end after the start", r)
		}
	})
	if err == nil {
		_ = r.Finish(t.Context(), func(*ring.Record) {})
	}
	_ = r.Cells(func(ring.Cell) {})
	if st := r.Stats(); st.Spans > st.Slots || read > st.Slots || st.Bad < 0 || st.Lost < 0 {
		t.Errorf("%d records, stats %+v; want no more than slots and no negative count", read, st)
	}
}

// The reader's cost of a span.
func BenchmarkRead(b *testing.B) {
	const regions = 32
	m := ringtest.New(b, regions)
	for slot := range regions * 8192 {
		m.Span(slot, 2e12, 2e12)
	}
	path := m.Write()
	spans := 0
	for b.Loop() {
		r, err := ring.Open(path, ring.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Finish(b.Context(), func(*ring.Record) { spans++ }); err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(spans), "ns/span")
}

package ring_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/testkit/ringtest"
)

// filled returns a ring buffer with a number of full regions.
func filled(t testing.TB, regions int) *ringtest.Image {
	m := ringtest.New(t, regions)
	for slot := range regions * ringtest.Slots {
		m.Span(slot, 2e12, 2e12)
	}
	return m
}

// Errors in the header, the table or the length of a ring buffer cost no work
// and no readable record.
func TestDamaged(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*ringtest.Image)
		spans  int // regions that are read
		lost   int64
		broken bool
	}{
		"whole":                     {change: func(*ringtest.Image) {}, spans: 3},
		"endless":                   {change: func(m *ringtest.Image) { binary.LittleEndian.PutUint64(m.Head[256:], math.MaxUint64) }, spans: 3},
		"later":                     {change: func(m *ringtest.Image) { binary.LittleEndian.PutUint64(m.Head[256:], 5) }, spans: 3, lost: 2 * ringtest.Slots},
		"much later":                {change: func(m *ringtest.Image) { binary.LittleEndian.PutUint64(m.Head[256:], 1<<40) }, spans: 3, lost: (1<<40 - 3) * ringtest.Slots},
		"no activations":            {change: func(m *ringtest.Image) { clear(m.Head[256:264]) }, spans: 3},
		"no regions":                {change: func(m *ringtest.Image) { clear(m.Head[264:272]) }, spans: 3},
		"a region that is nowhere":  {change: func(m *ringtest.Image) { m.Holds(1, 0) }, spans: 2, lost: ringtest.Slots},
		"a region out of its order": {change: func(m *ringtest.Image) { m.Holds(0, 7) }, spans: 3, lost: (1 + 3) * ringtest.Slots},
		"cut":                       {change: func(m *ringtest.Image) { m.Data = m.Data[:2*ringtest.RegionSize] }, spans: 2, lost: ringtest.Slots, broken: true},
		"cut in the middle":         {change: func(m *ringtest.Image) { m.Holds(0, 3); m.Holds(2, 1); m.Data = m.Data[:2*ringtest.RegionSize] }, spans: 2, lost: ringtest.Slots, broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := filled(t, 3)
			tt.change(m)
			r := open(t, m, ring.Options{})
			spans := 0
			err := r.Finish(t.Context(), func(*ring.Record) { spans++ })
			if st := r.Stats(); spans != tt.spans*ringtest.Slots || st.Lost != tt.lost || (err != nil) != tt.broken {
				t.Errorf("%d spans, stats %+v, error %v; want %d spans, %d lost, an error: %v", spans, st, err, tt.spans*ringtest.Slots, tt.lost, tt.broken)
			}
		})
	}
}

// A stopped reader leaves the rest of the ring buffer.
func TestFinishStops(t *testing.T) {
	const regions = 40
	r := open(t, filled(t, regions), ring.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	spans := 0
	stop := func(*ring.Record) {
		spans++
		cancel()
	}
	if err := r.Finish(ctx, stop); err != context.Canceled || spans == 0 || spans == regions*ringtest.Slots { //nolint:errorlint // as it is
		t.Errorf("Finish: %d spans, error %v; want some of them and context.Canceled", spans, err)
	}
}

// A region is released once, however many of its slots came late: after that it
// belongs to the writer.
func TestGivenBackOnce(t *testing.T) {
	m := ringtest.New(t, 2)
	for slot := range 2 * ringtest.Slots {
		if slot != 5 && slot != 9 {
			m.Span(slot, 2e12, 2e12)
		}
	}
	r := open(t, m, ring.Options{Drain: true, Patience: time.Hour})
	if _, err := r.Read(func(*ring.Record) {}); err != nil || r.Held() != 1 { // the second one
		t.Fatalf("%d regions held, error %v; want 1", r.Held(), err)
	}
	f, err := os.OpenFile(m.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // of the test
	m.Span(5, 2e12, 2e12)
	m.Span(9, 2e12, 2e12)
	if _, err := f.WriteAt(m.Data[:64*10], ringtest.HeadSize); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(func(*ring.Record) {}); err != nil || r.Held() != 2 {
		t.Errorf("%d regions held, error %v; want 2", r.Held(), err)
	}
}

// With endless names and lines, each is read once, and memory is bounded.
func TestManyNames(t *testing.T) {
	const names = 1<<16 + 3
	m := ringtest.New(t, 1)
	var side strings.Builder
	side.WriteString(`{"t":0,"tid":7}` + "\n" + strings.Repeat("x", 3<<20) + "\n")
	for n := range names {
		fmt.Fprintf(&side, `{"n":%d,"name":"name %d","cat":"c%d"}`+"\n", n+1, n+1, n%2)
	}
	m.Side = side.String()
	for slot, n := range []uint64{1, 1 << 16, 1<<16 + 1, 1<<16 + 2, 1<<16 + 3} {
		m.Span(slot, 2e12, 2e12)
		binary.LittleEndian.PutUint64(m.Data[64*slot+56:], n)
	}
	r := open(t, m, ring.Options{})
	var got []string
	if err := r.Finish(t.Context(), func(r *ring.Record) { got = append(got, r.Name.Cat+"/"+r.Name.Name) }); err != nil {
		t.Fatal(err)
	}
	if want := "c0/name 1 c1/name 65536 c0/(other) c1/(other) c0/(other)"; strings.Join(got, " ") != want {
		t.Errorf("names %v, want %s", got, want)
	}
	if st := r.Stats(); st.Others != 3 || st.Bad != 1 {
		t.Errorf("stats %+v, want 3 others, 1 bad", st)
	}
}

// sideOf returns a ring buffer whose side file has n names.
func sideOf(t testing.TB, n int) string {
	m := ringtest.New(t, 1)
	var side strings.Builder
	for i := range n {
		fmt.Fprintf(&side, `{"n":%d,"name":"%d","cat":"c"}`+"\n"+`{"t":%d,"tid":%d}`+"\n"+`{"meta":"%d","value":[[],{}]}`+"\n", i+1, i, i, i, i)
	}
	m.Side = side.String()
	return m.Write()
}

func readSide(t testing.TB, path string) {
	r, err := ring.Open(path, ring.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}

func TestGrowth(t *testing.T) {
	paths := map[int]string{1000: sideOf(t, 1000), 16000: sideOf(t, 16000)}
	growth.Allocated(t, 1000, func(n int) { readSide(t, paths[n]) })
}

// Lines of the side file, and regions with a hole in each expensive place.
func BenchmarkGrowthSide(b *testing.B) {
	const n = 500
	paths := map[int]string{n: sideOf(b, n), 16 * n: sideOf(b, 16*n)}
	growth.Bench(b, n, func(n int) { readSide(b, paths[n]) })
}

func BenchmarkGrowthHoles(b *testing.B) {
	const n = 4
	paths := make(map[int]string)
	for _, regions := range []int{n, 16 * n} {
		m := ringtest.New(b, regions)
		for region := range regions {
			m.Span(region*ringtest.Slots+ringtest.Slots/2, 2e12, 2e12)
		}
		paths[regions] = m.Write()
	}
	growth.Bench(b, n, func(n int) {
		r, err := ring.Open(paths[n], ring.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer r.Close()
		if err := r.Finish(b.Context(), func(*ring.Record) {}); err != nil {
			b.Fatal(err)
		}
	})
}

// Steps that were overwritten before they were read are counted as lost once,
// whether they or the slots beside them are read next.
func TestStepsOverwritten(t *testing.T) {
	const steps = 1 << 63
	m := filled(t, 3)
	clear(m.Data[ringtest.RegionSize : 2*ringtest.RegionSize])
	m.Holds(1, 2|steps)
	clear(m.Data[64*100 : ringtest.RegionSize]) // the writer is still in the first one
	clear(m.Data[2*ringtest.RegionSize:])
	binary.LittleEndian.PutUint64(m.Head[256:], 2)
	binary.LittleEndian.PutUint64(m.Head[264:], 2)
	r := open(t, m, ring.Options{})
	spans := int64(0)
	take := func(*ring.Record) { spans++ }
	if _, err := r.Read(take); err != nil || spans != 100 {
		t.Fatalf("%d spans, error %v; want 100", spans, err)
	}
	for slot := range 3 * ringtest.Slots {
		m.Span(slot, 2e12, 2e12)
	}
	m.Holds(1, 3)
	m.Holds(2, 4)
	binary.LittleEndian.PutUint64(m.Head[256:], 4)
	binary.LittleEndian.PutUint64(m.Head[264:], 3)
	m.Write()
	if err := r.Finish(t.Context(), take); err != nil {
		t.Fatal(err)
	}
	if st := r.Stats(); spans != 3*ringtest.Slots || st.Lost != ringtest.Slots || st.Bad != 0 {
		t.Errorf("%d spans, stats %+v; want three regions read, one lost, none bad", spans, st)
	}
}

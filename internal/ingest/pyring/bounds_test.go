package pyring_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/testkit/ringtest"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The kinds of slots that this file makes.
const (
	kindBegin  = 1 << 32
	kindUpdate = 5 << 32
)

// shapes are ring buffers with n items of one kind.
var shapes = map[string]func(t testing.TB, n int) *ringtest.Image{
	"spans below starts without a stop": func(t testing.TB, n int) *ringtest.Image {
		m := sized(t, n)
		for i := range n {
			m.Put(i, ringtest.Slot{Start: ringtest.At(i), End: ringtest.At(i) + 500, Depth: uint32(20_000 + i%3), Word: 1})
		}
		return m
	},
	"depth": func(t testing.TB, n int) *ringtest.Image { // each inside the previous one
		m := sized(t, n)
		for i := range n {
			m.Put(i, ringtest.Slot{Start: ringtest.At(n - i), End: ringtest.At(n + i), Depth: uint32(n - i), Word: 1})
		}
		return m
	},
	"begins": func(t testing.TB, n int) *ringtest.Image {
		m := sized(t, n)
		for i := range n {
			m.Put(i, ringtest.Slot{Start: ringtest.At(i), Depth: uint32(i + 1), Word: kindBegin | 1})
		}
		return m
	},
	"deep and flat in turn": func(t testing.TB, n int) *ringtest.Image {
		m := sized(t, n)
		for i := range n {
			m.Put(i, ringtest.Slot{Start: ringtest.At(i), End: ringtest.At(i) + 500, Depth: uint32(1 + i%2*1000), Word: 1})
		}
		return m
	},
	"overlapping spans": func(t testing.TB, n int) *ringtest.Image {
		m := sized(t, n)
		for i := range n {
			m.Put(i, ringtest.Slot{Start: ringtest.At(i), End: ringtest.At(i + n), Depth: 1, Word: 1})
		}
		return m
	},
	"spans in the order of their ends, backwards": func(t testing.TB, n int) *ringtest.Image {
		m := sized(t, n)
		for i := range n {
			m.Put(i, ringtest.Slot{Start: ringtest.At(n - i), End: ringtest.At(n-i) + 500, Depth: 1, Word: 1})
		}
		return m
	},
	"threads": func(t testing.TB, n int) *ringtest.Image {
		m := sized(t, n)
		side := strings.Builder{}
		for i := range n {
			fmt.Fprintf(&side, `{"t":%d,"tid":%d,"thread":"T"}`+"\n", i+1, i+100)
			m.Put(i, ringtest.Slot{Start: ringtest.At(i), End: ringtest.At(i) + 500, Thread: uint32(i + 1), Depth: uint32(1 + i%5), Word: 1})
		}
		m.Side += side.String()
		return m
	},
	"names below each other, and updates": func(t testing.TB, n int) *ringtest.Image {
		m := sized(t, n*3)
		side := strings.Builder{}
		slot := 0
		for i := range n {
			fmt.Fprintf(&side, `{"n":%d,"name":"n%d","cat":"c","above":%d}`+"\n", i+2, i, i+1)
			m.Put(slot, ringtest.Slot{Start: ringtest.At(i), End: ringtest.At(i) + 500, Depth: 1, Word: uint64(i + 2)})
			next := m.Text(slot+1, uint64(i+1), fmt.Sprintf(`{"key %d":%d}`, i, i))
			m.Put(next, ringtest.Slot{Start: ringtest.At(i), Depth: 1, Args: uint64(i + 1), Word: kindUpdate | 1})
			slot = next + 1
		}
		m.Side += side.String()
		return m
	},
}

// sized returns a ring buffer for n slots.
func sized(t testing.TB, n int) *ringtest.Image {
	return ringtest.New(t, (n+ringtest.Slots-1)/ringtest.Slots)
}

// Whatever a ring buffer has many of, each of its spans is written, each
// reached bound is logged once, and the trace is valid.
func TestBounds(t *testing.T) {
	warnings := map[string]string{
		"spans below starts without a stop":   "nest deeper than 1,024",
		"depth":                               "nest deeper than 1,024",
		"begins":                              "nest deeper than 1,024",
		"overlapping spans":                   "more than 256 spans of one thread",
		"names below each other, and updates": "tree of ai nodes of a Python process is too large",
	}
	n := 5000
	if testing.Short() {
		n = 1500
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			m := shape(t, n)
			o := pyring.Options{Out: t.TempDir(), Attempt: -1, Log: slog.New(slog.NewTextHandler(&log, nil))}
			st, err := pyring.Import(t.Context(), []string{m.Write()}, o)
			want := int64(n)
			if name == "begins" {
				want = 0
			}
			if err != nil || st.Spans != want || st.Bad != 0 || st.Lost != 0 {
				t.Fatalf("stats %+v, error %v; want %d spans, none bad or lost", st, err, want)
			}
			written := int64(0)
			for _, e := range dftest.Events(t, st.Files[0]) {
				if e.Phase == dftracer.PhaseComplete && e.Cat != dftracer.CatDFTracer {
					written++
				}
			}
			if written != want {
				t.Errorf("%d spans are written, want %d as read", written, want)
			}
			if name != "spans below starts without a stop" {
				dftest.Check(t, st.Files[0])
			}
			if w := warnings[name]; strings.Count(log.String(), w) != 1 && w != "" || w == "" && log.Len() > 0 {
				t.Errorf("log is\n%s\nwant %q in it once (empty: no line)", log.String(), w)
			}
		})
	}
}

func importShape(t testing.TB, path string) {
	t.Helper()
	out := t.TempDir()
	o := pyring.Options{Out: out, Attempt: -1, Log: slog.New(slog.DiscardHandler)}
	if _, err := pyring.Import(context.Background(), []string{path}, o); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(out); err != nil {
		t.Fatal(err)
	}
}

func TestGrowth(t *testing.T) {
	if testing.Short() {
		t.Skip("counts the work for long inputs: make test-long")
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			const n = 2000
			paths := map[int]string{n: shape(t, n).Write(), 16 * n: shape(t, 16*n).Write()}
			growth.Allocated(t, n, func(n int) { importShape(t, paths[n]) })
		})
	}
}

func BenchmarkGrowth(b *testing.B) {
	for name, shape := range shapes {
		b.Run(name, func(b *testing.B) {
			const n = 2000
			paths := map[int]string{n: shape(b, n).Write(), 16 * n: shape(b, 16*n).Write()}
			growth.Bench(b, n, func(n int) { importShape(b, paths[n]) })
		})
	}
}

// Close gives up in time. Unread data stays in the ring buffer, for Import.
func TestCloseInTime(t *testing.T) {
	m := ringtest.New(t, 12)
	const n = 12 * ringtest.Slots
	for i := range n {
		m.Span(i, ringtest.At(i), ringtest.At(i)+500)
	}
	path := m.Write()
	rings, out := strings.TrimSuffix(path, "/made-1-1.ring"), t.TempDir()
	o := pyring.Options{Dir: rings, Out: out, Attempt: -1, Log: slog.New(slog.DiscardHandler)}
	d, err := pyring.New(o)
	if err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = d.Close(ctx)
	_, gone := os.Stat(path)
	st := d.Stats()
	if err == nil && st.Spans > 0 && !errors.Is(gone, fs.ErrNotExist) {
		t.Errorf("the ring is left without an error, want it deleted: %+v", st)
	}
	// Goroutines that Close did not wait for end when their work is done, or with
	// the command. Until then they may write, and finally delete the ring buffer.
	until.True(t, "the end of what Close left", func() bool {
		_, gone = os.Stat(path)
		st = d.Stats()
		return gone != nil || st.Processes == 0 || st.Errors > 0
	})
	if gone == nil {
		if _, err := pyring.Import(t.Context(), []string{path}, o); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(map[int64]int)
	for _, name := range traces(t, out) {
		for _, ev := range dftest.Events(t, name) {
			if ev.Phase == dftracer.PhaseComplete && ev.Cat != dftracer.CatDFTracer {
				seen[ev.TS]++
			}
		}
	}
	if len(seen) != n {
		t.Errorf("%d different spans are written, want %d", len(seen), n)
	}
	for ts, k := range seen {
		if k != 1 {
			t.Fatalf("the span at %d is written %d times, want 1", ts, k)
		}
	}
}

// traces returns the files of a folder.
func traces(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, dir+"/"+e.Name())
	}
	return names
}

// For any ring buffer, reading ends and takes memory in proportion to its size.
func FuzzImport(f *testing.F) {
	for _, shape := range shapes {
		m := shape(f, 40)
		f.Add(m.Data[:64*100], m.Side)
	}
	f.Add([]byte("a few bytes that are no slots, though a region may begin with them"), `{"who":{"env":{"RANK":"x"}}}`+"\n")
	f.Fuzz(func(t *testing.T, slots []byte, side string) {
		m := ringtest.New(t, 1)
		copy(m.Data, slots)
		m.Side += side
		for i := range min(len(slots)/64, 50) { // mostly valid, so that there is a result
			b := m.Data[64*i:]
			b[16], b[17], b[18], b[19], b[56] = b[16]%4, 0, 0, 0, b[56]%8
			b[57], b[58], b[59], b[60], b[61], b[62], b[63] = 0, 0, 0, b[60]%12, b[61]%8, 0, 0
		}
		path, out := m.Write(), t.TempDir()
		growth.Work(t, m.Size(), 64, func() {
			o := pyring.Options{Out: out, Attempt: -1, Log: slog.New(slog.DiscardHandler)}
			st, err := pyring.Import(context.Background(), []string{path}, o)
			if err != nil {
				t.Fatalf("Import: %+v, error %v", st, err)
			}
		})
	})
}

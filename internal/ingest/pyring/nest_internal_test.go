package pyring

import (
	"encoding/binary"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/ringtest"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// A process, its first span and its start-up may start at the same time: each
// has its own id, whatever was read in between.
func TestSpansThatBeginTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw")
	w, err := dftracer.Create(path, &dftracer.Options{Compression: dftracer.CompressNone})
	if err != nil {
		t.Fatal(err)
	}
	p := emptyProcess(&source{o: &Options{}, told: make(map[string]bool)})
	p.w = w
	named := func(cat, name string) *node { return &node{key: dftracer.NewKey(cat, name), epoch: -1, step: -1} }
	th, root, child := &thread{tid: 1}, named("ai_root", "ai_root"), named("startup", "interpreter")
	const at = 1_700_000_000_000_000_000
	p.begin(th, span{node: root, start: at}, 1)
	p.announce(th, nil, at)
	p.end(th, span{node: child, start: at, end: at + 5e6, thread: th}, 2, false)
	p.end(th, span{node: root, start: at, end: at + 9e6, thread: th}, 1, false)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dftest.Check(t, path)
	events := dftest.Events(t, path)
	ids := make(map[string]uint64)
	for _, ev := range events {
		if ev.Phase == dftracer.PhaseComplete {
			ids[ev.Name] = ev.ID
			if ev.Name == "interpreter" && uint64(ev.Parent) == ev.ID {
				t.Errorf("span %d is its own parent, want another", ev.ID)
			}
		}
	}
	if ids["ai_root"] == ids["interpreter"] || len(th.known) != 0 {
		t.Errorf("IDs %v, known spans %v; want two different IDs and no known span", ids, th.known)
	}
}

// A span that has ended since the last read is not open: only its cell is left.
func TestEndedSpansAreNotAnnounced(t *testing.T) {
	image := ringtest.New(t, 1)
	const began, now = 1e12 + 1, 1e18 + 5e9
	binary.LittleEndian.PutUint64(image.Head[ringtest.Cells+8:], began) // thread 0, name 1
	image.Put(0, ringtest.Slot{Start: began, End: began + 3e9, Depth: 4, Word: 1})
	r, err := ring.Open(image.Write(), ring.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // only read
	p, err := newProcess(t.Context(), &Options{Out: t.TempDir(), Log: slog.New(slog.DiscardHandler)}, r, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.tick(now); err != nil {
		t.Fatal(err)
	}
	if err := p.w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, ev := range dftest.Events(t, p.stats.Files[0]) {
		if key, _ := ev.Meta(); ev.Phase == dftracer.PhaseMetadata && key == tracefile.KeySpanBegin {
			t.Errorf("begin record of a span that has ended: %+v, want none", ev)
		}
	}
}

// A recursive function has one cell: the innermost open span is announced as if
// it were the outermost one, at a wrong depth. Each span still has its own id.
func TestRecursionIsAnnouncedOnce(t *testing.T) {
	for _, deepest := range []int{3, maxDepth + 300} {
		path := filepath.Join(t.TempDir(), "trace.pfw")
		w, err := dftracer.Create(path, &dftracer.Options{Compression: dftracer.CompressNone})
		if err != nil {
			t.Fatal(err)
		}
		p := emptyProcess(&source{o: &Options{}, told: make(map[string]bool)})
		p.w = w
		f := &node{key: dftracer.NewKey("compute", "forward"), epoch: -1, step: -1}
		th := &thread{tid: 1}
		const at = int64(1_700_000_000_000_000_000)
		p.announce(th, []began{{node: f, start: at + int64(deepest)*1000}}, at+1e9)
		for depth := deepest; depth > 0; depth-- {
			p.end(th, span{node: f, start: at + int64(depth)*1000, end: at + 1e9 + int64(deepest-depth)*1000, thread: th}, min(depth, maxDepth), false)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		dftest.Check(t, path)
		ids := make(map[uint64]int)
		for _, ev := range dftest.Events(t, path) {
			if ev.Phase == dftracer.PhaseComplete {
				if ids[ev.ID]++; ids[ev.ID] > 1 {
					t.Errorf("%d deep: id %d is that of %d spans, want 1", deepest, ev.ID, ids[ev.ID])
				}
			}
		}
	}
}

// A span that the program dropped after its children were written is
// unfinished, and marked like in every trace.
func TestForgottenSpanIsUnfinished(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw")
	w, err := dftracer.Create(path, &dftracer.Options{Compression: dftracer.CompressNone})
	if err != nil {
		t.Fatal(err)
	}
	p := emptyProcess(&source{o: &Options{}, told: make(map[string]bool)})
	p.w = w
	const at = int64(1_700_000_000_000_000_000)
	n := &node{key: dftracer.NewKey("compute", "forward"), epoch: -1, step: -1}
	th := &thread{tid: 1}
	p.end(th, span{node: n, start: at + 1e6, end: at + 2e6, thread: th}, 2, false)
	p.settleAll(th)
	p.drop(th, span{node: n, start: at, end: at + 3e6, thread: th}, 1, false)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dftest.Check(t, path)
	found := false
	for _, ev := range dftest.Events(t, path) {
		if ev.Name == "unfinished" {
			a, _ := ev.Arg("truncated")
			if found = true; a.Int64() != 1 {
				t.Errorf("its arguments are %v, want truncated to be 1", ev.Args)
			}
		}
	}
	if !found {
		t.Error("got no span named unfinished, want one")
	}
}

package otlp_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// spilled records n spans for a backend that refuses them all, and returns the
// counts after the shutdown.
func spilled(t *testing.T, cfg otlp.Config, n int, o *delivery.Options) delivery.Stats {
	t.Helper()
	p := newPipeline(t, cfg, o)
	p.record(n)
	_ = p.ForceFlush(t.Context()) // returns losses, if any
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	return p.p.Stats()
}

// away returns a Config for an unreachable backend.
func away(t *testing.T, r *receiver, dir string) otlp.Config {
	r.url = "http://" + closedPort(t)
	cfg := quick(r)
	cfg.RetryFor, cfg.SpillDir = -1, dir
	return cfg
}

func files(t *testing.T, dir string) (names []string, bytes int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, e.Name())
		bytes += info.Size()
	}
	return names, bytes
}

func newExporter(t *testing.T, cfg otlp.Config) *otlp.Exporter {
	t.Helper()
	e, err := otlp.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestSpillAndReplay(t *testing.T) {
	forProtocols(t, func(t *testing.T, r *receiver) {
		dir := filepath.Join(t.TempDir(), "made", "when needed")
		cfg := away(t, r, dir)
		cfg.SpillFileBytes = 4 << 10
		s := spilled(t, cfg, 100, &delivery.Options{MaxBatch: 10})
		check(t, s, 100, 0, 100, 0, 0)
		names, _ := files(t, dir)
		if len(names) < 2 {
			t.Errorf("one file only: %v, want at least 2", names)
		}
		r.start("")
		e := newExporter(t, quick(r))
		got, err := otlp.Replay(t.Context(), dir, e)
		if err != nil || got != (otlp.ReplayResult{Files: len(names), Sent: 100}) {
			t.Errorf("Replay() = %+v, %v; want %d files, 100 sent", got, err, len(names))
		}
		if left, _ := files(t, dir); len(left) != 0 {
			t.Errorf("left: %v, want none", left)
		}
		if got := r.names(); !slices.Equal(got, sequence(100)) {
			t.Errorf("receiver got spans %v, want 100 in order", got)
		}
		if a := r.taken[0].GetResource().GetAttributes(); len(a) != 1 || a[0].GetValue().GetStringValue() != "test" {
			t.Errorf("resource %v, want one attribute with the value test", a)
		}
		if got, err := otlp.Replay(t.Context(), dir, e); err != nil || got != (otlp.ReplayResult{}) {
			t.Errorf("second Replay() = %+v, %v; want nothing left to do", got, err)
		}
	})
}

func TestSpillIsBounded(t *testing.T) {
	r := &receiver{t: t, protocol: protocols[1]}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "spans-of-an-earlier-run.otlp.jsonl"), make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := away(t, r, dir)
	cfg.SpillBytes, cfg.SpillFileBytes = 20_000, 4_000
	s := spilled(t, cfg, 500, &delivery.Options{MaxBatch: 10})
	if s.Spilled == 0 || s.Dropped[delivery.TimedOut] == 0 || s.Spilled+s.DroppedTotal() != 500 || s.SpillErrors == 0 {
		t.Errorf("stats %+v, want some spilled, some timed out, 500 in all, and errors of the spill", s)
	}
	if !strings.Contains(s.LastError.Error(), "full") {
		t.Errorf(`last error %v, want one with "full"`, s.LastError)
	}
	if _, bytes := files(t, dir); bytes > 20_000 {
		t.Errorf("%d bytes, want at most 20,000", bytes)
	}
	// Exactly what was counted as spilled is there.
	if err := os.Remove(filepath.Join(dir, "spans-of-an-earlier-run.otlp.jsonl")); err != nil {
		t.Fatal(err)
	}
	r.start("")
	got, err := otlp.Replay(t.Context(), dir, newExporter(t, quick(r)))
	if err != nil || int64(got.Sent) != s.Spilled {
		t.Errorf("Replay() = %+v, %v; want %d sent, as spilled", got, err, s.Spilled)
	}
}

// Processes that share a directory stay within its bound together, but for a part of a
// file each.
func TestSpillOfManyProcesses(t *testing.T) {
	r := &receiver{t: t, protocol: protocols[1]}
	dir := t.TempDir()
	cfg := away(t, r, dir)
	cfg.SpillBytes, cfg.SpillFileBytes = 40_000, 40_000
	const processes = 8
	var all [processes]*pipeline
	for i := range all {
		all[i] = newPipeline(t, cfg, &delivery.Options{MaxBatch: 10})
	}
	for range 20 {
		for _, p := range all {
			p.record(10)
			_ = p.ForceFlush(t.Context()) // returns losses
		}
	}
	if names, bytes := files(t, dir); len(names) != processes || bytes < 30_000 || bytes > 80_000 {
		t.Errorf("%d bytes in %d files, want 30,000 to 80,000 bytes in %d", bytes, len(names), processes)
	}
	for _, p := range all {
		_ = p.Shutdown(t.Context()) // returns losses
	}
}

// A replay makes room in a full directory, also for a file that is already open.
func TestSpillHasRoomAfterAReplay(t *testing.T) {
	r := &receiver{t: t, protocol: protocols[1]}
	dir := t.TempDir()
	earlier := filepath.Join(dir, "spans-of-an-earlier-run.otlp.jsonl")
	if err := os.WriteFile(earlier, make([]byte, 19_000), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := away(t, r, dir)
	cfg.SpillBytes = 20_000
	p := newPipeline(t, cfg, &delivery.Options{MaxBatch: 10})
	spills := func() int64 {
		before := p.p.Stats().Spilled
		p.record(10)
		_ = p.ForceFlush(t.Context()) // returns losses
		return p.p.Stats().Spilled - before
	}
	for spills() > 0 {
	}
	if err := os.Remove(earlier); err != nil {
		t.Fatal(err)
	}
	until.True(t, "room after the replay", func() bool { return spills() > 0 })
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSpillThatCannotBeWrittenDrops(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("root may write anywhere; a file takes the place of the directory instead")
	}
	r := &receiver{t: t, protocol: protocols[0]}
	parent := t.TempDir()
	cfg := away(t, r, filepath.Join(parent, "file", "dir"))
	if err := os.WriteFile(filepath.Join(parent, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := spilled(t, cfg, 10, nil)
	check(t, s, 10, 0, 0, delivery.TimedOut, 10)
	if s.LastError == nil || !strings.Contains(s.LastError.Error(), "spill") {
		t.Errorf("last error %v, want one about the spill", s.LastError)
	}
}

func TestReplayKeepsWhatIsNotTaken(t *testing.T) {
	forProtocols(t, func(t *testing.T, r *receiver) {
		dir := t.TempDir()
		check(t, spilled(t, away(t, r, dir), 30, &delivery.Options{MaxBatch: 10}), 30, 0, 30, 0, 0)
		names, _ := files(t, dir)
		path := filepath.Join(dir, names[0])
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		broken := append(slices.Clone(whole), []byte(`{"resourceSpans":[{"scope`)...) // a process died while it wrote
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		has := func(spans []*tracepb.Span, name string) bool {
			return slices.ContainsFunc(spans, func(s *tracepb.Span) bool { return s.GetName() == name })
		}
		steps := []struct {
			name   string
			script func(call int, spans []*tracepb.Span) reply
			want   otlp.ReplayResult
			err    bool
		}{
			{"the receiver goes away after one batch", func(_ int, spans []*tracepb.Span) reply {
				if has(spans, "s0") {
					return accept
				}
				return busy
			}, otlp.ReplayResult{Sent: 10, Left: 20, Broken: 1}, true},
			{"it refuses a batch", func(_ int, spans []*tracepb.Span) reply {
				if has(spans, "s10") {
					return refuse
				}
				return accept
			}, otlp.ReplayResult{Sent: 10, Left: 10, Broken: 1}, true},
			{"it takes a part, in small requests", func(_ int, spans []*tracepb.Span) reply {
				switch {
				case len(spans) > 5:
					return full
				case has(spans, "s10"):
					return reject2
				}
				return accept
			}, otlp.ReplayResult{Sent: 8, Rejected: 2, Broken: 1}, true},
		}
		for _, step := range steps {
			one := (&receiver{t: t, protocol: r.protocol, script: step.script}).start("")
			cfg := quick(one)
			cfg.RetryFor = 50 * time.Millisecond
			got, err := otlp.Replay(t.Context(), dir, newExporter(t, cfg))
			if got != step.want || (err != nil) != step.err {
				t.Errorf("%s: %+v %v, want %+v", step.name, got, err, step.want)
			}
			one.stop()
		}
		rest, err := os.ReadFile(path)
		if err != nil || strings.TrimSpace(string(rest)) != `{"resourceSpans":[{"scope` {
			t.Errorf("left in the file: %s, %v; want the incomplete line", rest, err)
		}
		if now, _ := files(t, dir); len(now) != 1 {
			t.Errorf("files: %v, want one", now)
		}
	})
}

func TestReplayLeavesALivingProcessAlone(t *testing.T) {
	forProtocols(t, func(t *testing.T, r *receiver) {
		dir := t.TempDir()
		p := newPipeline(t, away(t, r, dir), nil)
		p.record(10)
		if err := p.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.start("")
		e := newExporter(t, quick(r))
		got, err := otlp.Replay(t.Context(), dir, e)
		if err != nil || got != (otlp.ReplayResult{InUse: 1}) {
			t.Errorf("Replay() = %+v, %v; want 1 file in use", got, err)
		}
		if err := p.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if got, err = otlp.Replay(t.Context(), dir, e); err != nil || got.Sent != 10 {
			t.Errorf("Replay() = %+v, %v; want 10 sent", got, err)
		}
	})
}

// A concurrent replay at any moment loses nothing: each file is kept or sent.
func TestReplayBesideASpill(t *testing.T) {
	dir := t.TempDir()
	r := (&receiver{t: t, protocol: protocols[0]}).start("")
	e := newExporter(t, quick(r))
	batch := tracetest.SpanStubs{{Name: "s"}}.Snapshots()
	cfg := quick(r)
	cfg.SpillDir = dir
	from := newExporter(t, cfg)
	n, sent := 1500, 0
	if testing.Short() {
		n = 300
	}
	replay := func() {
		got, err := otlp.Replay(t.Context(), dir, e)
		if err != nil || got.Broken+got.Left+got.Rejected != 0 {
			t.Errorf("Replay() = %+v, %v; want nothing broken, left or rejected", got, err)
		}
		sent += got.Sent
	}
	spilled := make(chan struct{})
	go func() {
		defer close(spilled)
		for range n {
			spill := from.Delivery().Spill
			kept, err := spill.Keep(t.Context(), batch)
			if err = errors.Join(err, spill.Close()); err != nil || kept != 1 {
				t.Errorf("%d files kept, %v; want 1", kept, err)
			}
		}
	}()
	for over := false; !over; {
		select {
		case <-spilled:
			over = true // and checks once more
		default:
		}
		replay()
	}
	if sent != n {
		t.Errorf("%d spans were sent, want %d", sent, n)
	}
}

func TestReplayOfNothing(t *testing.T) {
	r := (&receiver{t: t, protocol: protocols[0]}).start("")
	if _, err := otlp.Replay(t.Context(), filepath.Join(t.TempDir(), "none"), newExporter(t, quick(r))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error: %v", err)
	}
	if _, err := otlp.Replay(t.Context(), t.TempDir(), nil); err == nil {
		t.Error("Replay without an exporter: no error, want one")
	}
}

// A cancelled replay stops at once and keeps everything.
func TestReplayIsCancelled(t *testing.T) {
	r := &receiver{t: t, protocol: protocols[1]}
	dir := t.TempDir()
	check(t, spilled(t, away(t, r, dir), 10, nil), 10, 0, 10, 0, 0)
	ctx, cancel := context.WithCancel(t.Context())
	r.script = func(int, []*tracepb.Span) reply { cancel(); return busy }
	r.start("")
	within(t, func() {
		got, err := otlp.Replay(ctx, dir, newExporter(t, quick(r)))
		if err == nil || got != (otlp.ReplayResult{Left: 10}) {
			t.Errorf("Replay() = %+v, %v; want 10 left and an error", got, err)
		}
	})
	if r.seen() != 1 {
		t.Errorf("backend got %d requests, want 1", r.seen())
	}
}

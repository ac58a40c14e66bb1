package otlp_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/export/delivery"
)

// TestSpillNoticesThatItsFolderIsGone removes the folder between two batches,
// and again before the end.
func TestSpillNoticesThatItsFolderIsGone(t *testing.T) {
	r := &receiver{t: t, protocol: protocols[1]}
	dir := filepath.Join(t.TempDir(), "spill")
	p := newPipeline(t, away(t, r, dir), &delivery.Options{MaxBatch: 10, Delay: time.Millisecond})
	remove := func() {
		_ = p.ForceFlush(t.Context())
		if names, _ := files(t, dir); len(names) != 1 {
			t.Fatalf("files: %v, want one", names)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	p.record(30)
	remove()
	p.record(20)
	_ = p.ForceFlush(t.Context())
	if s := p.p.Stats(); s.Spilled != 20 || s.Dropped[delivery.Unspilled] != 30 {
		t.Errorf("stats after the first removal: %+v, want 20 spilled, 30 not spilled", s)
	}
	e := newExporter(t, quick(r))
	if got, err := otlp.Replay(t.Context(), dir, e); err != nil || got.InUse != 1 {
		t.Errorf("Replay() = %+v, %v; want the new file in use", got, err)
	}
	remove()
	if err := p.Shutdown(t.Context()); err == nil {
		t.Error("Shutdown returned no error, want one with the lost spans")
	}
	if s := p.p.Stats(); s.Spilled != 0 || s.Dropped[delivery.Unspilled] != 50 || s.DroppedTotal() != 50 {
		t.Errorf("stats after the end: %+v, want 50 dropped, none spilled", s)
	}
}

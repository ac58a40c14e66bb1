package torch_test

import (
	"io"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
)

// An event costs no allocation in an import: 54,000 more events cost a few
// blocks of rows and their writing.
func TestImportDoesNotAllocatePerEvent(t *testing.T) {
	allocs := func(n int) float64 {
		src := fromBytes("x.json", generated(n, 0))
		return testing.AllocsPerRun(2, func() {
			w, err := dftracer.NewWriter(io.Discard, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := torch.Import(t.Context(), w, []torch.Source{src}, nil); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
	small, large := allocs(2_000), allocs(20_000)
	t.Logf("%.0f allocations for 6,000 events, %.0f for 60,000", small, large)
	if large-small > 2_000 {
		t.Errorf("%.0f allocations for 6,000 events, %.0f for 60,000; want at most 2,000 more", small, large)
	}
}

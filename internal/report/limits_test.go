package report_test

import (
	"math"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// TestLimits checks that the MFU follows from the kept steps and the whole time, and that the MFU
// without a loss increases by the time of the loss.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, simjob.Attempt{Ranks: 4, Steps: 100, Seed: 3, Extra: [4]float64{0, 0, 12}})
	j := read(t, dir)
	if r := report.Build(j); r.Limits != nil {
		t.Errorf("Limits = %+v without operations and peak, want nil", r.Limits)
	}
	j.Basis = account.Basis{ModelFLOPs: 2e12, PeakFLOPs: 20e12}
	r := report.Build(j)
	l := r.Limits
	if l == nil || l.Devices != 4 {
		t.Fatalf("limits %+v, want 4 devices", l)
	}
	want := 100 * 2e12 / (4 * 20e12 * float64(r.Ledger.Wall) / 1e9)
	if math.Abs(l.MFU-want) > 1e-9 || l.Without[0].Loss != "slow ranks 0 (backward)" {
		t.Errorf("MFU %v, want %v: %+v", l.MFU, want, l.Without)
	}
	seen := map[string]bool{}
	for i, w := range l.Without {
		seen[w.Loss] = true
		if math.Abs(w.MFU*(1-w.Share)-l.MFU) > 1e-9 || i > 0 && w.Share > l.Without[i-1].Share {
			t.Errorf("Without[%d] = %+v, want shares that fall and MFU %v after the share is taken away", i, w, l.MFU)
		}
	}
	if !seen["data wait"] || !seen["init"] {
		t.Errorf("limits %+v, want data wait and init among them", l.Without)
	}
	if text := strings.Join(screen(t, r), "\n"); !strings.Contains(text, "MFU   ") || !strings.Contains(text, "% without slow ranks 0 (backward), ") {
		t.Errorf("screen has no MFU, or not the one without slow ranks 0 (backward):\n%s", text)
	}
	j.Basis.PeakFLOPs = 2e12
	if r := report.Build(j); !strings.Contains(strings.Join(r.Quality.Remarks, " "), "above the peak") {
		t.Errorf(`MFU %v: remarks %q, want "above the peak"`, r.Limits.MFU, r.Quality.Remarks)
	}
}

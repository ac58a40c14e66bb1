package jobmetrics

import (
	"testing"

	"github.com/trainspan/trainspan/internal/job"
)

// TestSavesNeverFall checks that the counter of saves does not fall if a later record shows that
// one of them failed, and that jobs have their own counters.
func TestSavesNeverFall(t *testing.T) {
	s := &Server{}
	for i, c := range []struct {
		label   string
		n, want float64
	}{{"a", 5, 5}, {"a", 4, 5}, {"b", 1, 1}, {"a", 6, 6}} {
		if got := s.atLeast(&job.Job{Label: c.label})(c.n); got != c.want {
			t.Errorf("reading %d: %v saves of %s are served as %v, want %v", i, c.n, c.label, got, c.want)
		}
	}
}

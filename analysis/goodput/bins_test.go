package goodput_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/trainspan/trainspan/analysis/goodput"
)

// TestBinsAreReports: what one pass says of each bin is what a report of its
// stretch says.
func TestBinsAreReports(t *testing.T) {
	seeds(t, 60, func(t *testing.T, r *rand.Rand) {
		jobs := randomJob(r)
		l := ledgerOf(jobs, r, true)
		from, to := l.Bounds()
		edges := []int64{from}
		for range 7 {
			edges = append(edges, edges[len(edges)-1]+r.Int64N((to-from)/7+1))
		}
		for _, b := range l.Bins(edges) {
			if b.From == b.To {
				continue
			}
			rep := l.Report(goodput.Query{From: b.From, To: b.To, AsOf: goodput.Final})
			if !reflect.DeepEqual(rep.Categories, b.Categories) {
				t.Fatalf("%v: %v, want %v", b.Interval, b.Categories, rep.Categories)
			}
			for _, a := range rep.Attempts {
				if !reflect.DeepEqual(a.Categories, b.Attempts[a.Attempt]) {
					t.Fatalf("%v, attempt %d: %v, want %v", b.Interval, a.Attempt, b.Attempts[a.Attempt], a.Categories)
				}
			}
		}
	})
}

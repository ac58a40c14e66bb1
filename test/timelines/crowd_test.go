package timelines

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

// TestMoreAtATimeThanLanes checks that a writer of more partly overlapping
// spans than there are lanes writes a valid trace: the spans above the limit
// are on lane 0, and the trace records this.
func TestMoreAtATimeThanLanes(t *testing.T) {
	const most = place.MaxLanes + 10
	staircase := make([]span, most) // each begins in the previous one and outlasts it
	for i := range staircase {
		staircase[i] = span{name: fmt.Sprint("s", i), start: int64(i) * ms, end: int64(i+most) * ms}
	}
	for _, w := range append(writers, struct {
		name  string
		write writer
	}{"batch of devices", devices}) {
		t.Run(w.name, func(t *testing.T) {
			spans := staircase
			want := "256"
			switch w.name {
			case "tree", "batch":
				want = "" // as many lanes as needed; rows are cut
			case "stack":
				spans = nil
				for _, s := range staircase { // the previous one is its parent, as in tasks
					if len(spans) > 0 {
						s.parent = spans[len(spans)-1].name
					}
					spans = append(spans, s)
				}
			case "batch of devices":
				want = "5"
			}
			path := w.write(t, spans, calls(t, spans, ""))
			if path == "" {
				t.Skip("all of these end")
			}
			dftest.Check(t, path)
			got, on := "", 0
			for _, ev := range dftest.Events(t, path) {
				if key, value := ev.Meta(); key == place.KeySharedLane {
					got = value
				}
				if strings.HasPrefix(ev.Name, "s") && ev.Name != "start" && ev.TID == 0 && ev.Dur > 0 {
					on++
				}
			}
			if got != want || (on > 0) != (want != "") {
				t.Errorf("%s is %q with %d spans on lane 0, want %q", place.KeySharedLane, got, on, want)
			}
		})
	}
}

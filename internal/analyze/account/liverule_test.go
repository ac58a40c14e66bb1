package account_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
)

// script makes the spans of a process, by their names in a trace file.
type script struct {
	process
	now  int64
	open []uint64
}

func (s *script) span(name string, lasts float64, inside ...func()) {
	cat, event, _ := strings.Cut(name, "/")
	i := len(s.spans)
	sp := job.Span{ID: uint64(i + 1), Cat: cat, Name: event, Start: s.now, Step: job.Unknown, First: job.Unknown}
	if n := len(s.open); n > 0 {
		sp.Parent = s.open[n-1]
	}
	s.spans = append(s.spans, sp)
	s.open = append(s.open, sp.ID)
	for _, fn := range inside {
		fn()
	}
	s.open = s.open[:len(s.open)-1]
	s.now += ns(lasts)
	s.spans[i].End = s.now
}

func (s *script) trains() {
	s.span("compute/forward", 1)
	s.span("compute/backward", 2)
	s.span("compute/step", 0.5)
}

func (s *script) loop(n int, body func()) {
	for range n {
		s.span("dataloader/fetch.iter", 0.3)
		s.span("dataloader/fetch.block", 0.2, body)
	}
}

// TestLiveRules: whatever shows late which spans are steps, the ledger of a process
// that runs ends as that of its file.
func TestLiveRules(t *testing.T) {
	for name, program := range map[string]func(s *script){
		"bodies":           func(s *script) { s.loop(5, s.trains) },
		"computing only":   func(s *script) { s.loop(5, func() { s.span("compute/compute", 1) }) },
		"evaluation first": func(s *script) { s.loop(4, func() { s.span("compute/forward", 1) }); s.loop(5, s.trains) },
		"evaluation inside": func(s *script) {
			s.loop(3, s.trains)
			s.loop(4, func() { s.span("compute/forward", 1) })
			s.loop(3, s.trains)
		},
		"evaluation that says so": func(s *script) {
			s.loop(3, func() { s.span("compute/compute", 1) })
			s.span("pipeline/evaluate", 1, func() {
				s.span("pipeline/epoch.block", 1, func() { s.loop(3, func() { s.span("compute/compute", 1) }) })
			})
		},
		"iterations in bodies": func(s *script) { s.loop(4, func() { s.span("pipeline/train.iteration", 1, s.trains) }) },
		"iterations in computing": func(s *script) {
			s.loop(4, func() { s.span("compute/compute", 1, func() { s.span("pipeline/train.iteration", 1, s.trains) }) })
		},
		"iterations after some": func(s *script) { s.loop(4, s.trains); s.span("pipeline/train.iteration", 1, s.trains) },
		"no loader":             func(s *script) { s.trains(); s.trains(); s.trains() },
		"no loader, later one":  func(s *script) { s.trains(); s.loop(5, s.trains) },
		"a loop to evaluate, no loader": func(s *script) {
			s.loop(3, func() { s.span("compute/forward", 1) })
			for range 4 {
				s.trains()
			}
		},
		"profiled": func(s *script) { s.loop(3, func() { s.span("pipeline/ProfilerStep#1", 1, s.trains) }) },
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{process: process{Process: account.Process{Attempt: 1, Start: 1000 * sec}}, now: 1000 * sec}
			s.span("ai_root/ai_root", 1, func() { s.span("pipeline/train", 1, func() { program(s) }) })
			s.End, s.LastSeen = s.now, s.now
			b := account.NewBuilder(s.Process)
			for _, sp := range s.spans {
				sp.SetName(sp.Cat, sp.Name)
				b.Span(&sp)
			}
			var ledger account.Ledger
			if err := ledger.Add(b); err != nil {
				t.Fatal(err)
			}
			want := ledger.Report(account.Query{}).Categories
			if got := play(t, &s.process, "").Snapshot(s.now).Categories; !reflect.DeepEqual(got, want) {
				t.Errorf("live %v\nof the file %v", got, want)
			}
		})
	}
}

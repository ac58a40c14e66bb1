package report_test

import (
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

func TestExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		a    simjob.Attempt
		want int
	}{
		"healthy":      {simjob.Attempt{Ranks: 4, Steps: 80}, 0},
		"slow":         {simjob.Attempt{Ranks: 4, Steps: 80, Slow: 1, Extra: [4]float64{0, 9}}, 3},
		"hidden":       {simjob.Attempt{Ranks: 4, Steps: 80, Slow: 1, Extra: [4]float64{0, 0, 20}, NoComm: true}, 4},
		"short":        {simjob.Attempt{Ranks: 4, Steps: 8}, 4},
		"missing":      {simjob.Attempt{Ranks: 4, Steps: 80, Skip: map[int]bool{1: true}, Slow: 1, Extra: [4]float64{20}}, 4},
		"a rank stops": {simjob.Attempt{Ranks: 2, Steps: 100, Skip: map[int]bool{1: true}}, 4},
	} {
		dir := t.TempDir()
		write(t, dir, c.a)
		if name == "a rank stops" {
			write(t, dir, simjob.Attempt{Ranks: 2, Steps: 60, Skip: map[int]bool{0: true}})
		}
		r := report.Build(read(t, dir))
		screen(t, r)
		if have := r.ExitCode(); have != c.want {
			t.Errorf("%s: %d, want %d: %s", name, have, c.want, r.Verdict.Sentence)
		}
	}
}

// Each doubt about the records is listed, and no other.
func TestDoubts(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	usual := simjob.Attempt{Ranks: 2, Steps: 60, Start: at}
	for name, c := range map[string]struct {
		change func(a *simjob.Attempt)
		again  time.Duration // if not 0: when the second attempt starts, after the start of the first
		want   []string
	}{
		"none":   {},
		"killed": {change: func(a *simjob.Attempt) { a.Killed = true }, want: []string{"an attempt ended without a heartbeat after its last record"}},
		"clocks": {again: time.Second, want: []string{"clocks of attempts overlap"}},
		"short":  {change: func(a *simjob.Attempt) { a.Steps = 2 }, want: []string{"too few steps to separate warm-up from training"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a := usual
			if c.change != nil {
				c.change(&a)
			}
			write(t, dir, a)
			if c.again > 0 {
				a.Number, a.Start = 1, at.Add(c.again)
				write(t, dir, a)
			}
			r := report.Build(read(t, dir))
			for _, doubt := range c.want {
				if !slices.Contains(r.Verdict.Doubts, doubt) {
					t.Errorf("doubts %q, want one of them %q", r.Verdict.Doubts, doubt)
				}
			}
			if len(c.want) == 0 && len(r.Verdict.Doubts) > 0 {
				t.Errorf("doubts %q, want none", r.Verdict.Doubts)
			}
		})
	}
}

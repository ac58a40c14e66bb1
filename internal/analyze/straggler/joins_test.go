package straggler_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// timedSpan returns a span from and to a number of milliseconds.
func timedSpan(p straggler.Phase, from, to float64) straggler.Span {
	at := func(ms float64) int64 { return 1e15 + int64(ms*1e6) }
	return straggler.Span{Phase: p, Start: at(from), End: at(to)}
}

// TestPrefetchedGathers has two layers whose parameters are gathered on another lane. The host waits for the first
// gather; the second one runs during the first layer. From step 30 on, gathers take 20 ms longer, of which
// the host only waits for the first.
func TestPrefetchedGathers(t *testing.T) {
	st := straggler.New(&straggler.Options{WorldSize: 2})
	now := 0.0
	for i := range 60 {
		d := 10.0
		if i >= 30 {
			d = 30
		}
		for r := range 2 {
			comm := func(m straggler.Meeting, lane int, from, to float64) straggler.Span {
				s := timedSpan(straggler.Communication, now+from, now+to)
				s.Meeting, s.Lane = m, lane
				return s
			}
			st.Add(&straggler.Step{Rank: r, Number: int64(i), Spans: []straggler.Span{
				timedSpan(straggler.Forward, now, now+100+d),
				comm(straggler.Join, 0, 0, d),
				comm(straggler.Collective, 1, 0, d),
				comm(straggler.Collective, 1, d, 2*d),
				comm(straggler.Join, 0, d+50, d+50),
			}})
		}
		now += 100 + d
	}
	v := st.Verdict()
	if v.Kind != finding.SlowTransfer || math.Abs(v.Saved-20*30.0/59) > 0.5 {
		t.Errorf("got %s that saves %.1f ms of a step, want %s that saves %.1f: %s", v.Kind, v.Saved, finding.SlowTransfer, 20*30.0/59, v.Sentence)
	}
}

// TestOnlyMessages has two workers that only exchange messages with a server. The table of ranks has how long each
// of them waits.
func TestOnlyMessages(t *testing.T) {
	st := straggler.New(&straggler.Options{WorldSize: 3})
	now := 0.0
	for i := range 60 {
		message := func(m straggler.Meeting, peer int, from, to float64) straggler.Span {
			s := timedSpan(straggler.Communication, now+from, now+to)
			s.Meeting, s.Peer = m, peer+1
			return s
		}
		for r, work := range []float64{0, 60, 100} {
			spans := []straggler.Span{message(straggler.Receive, 1, 0, 61), message(straggler.Receive, 2, 61, 101), message(straggler.Send, 1, 101, 102), message(straggler.Send, 2, 102, 103)}
			if r > 0 {
				spans = []straggler.Span{timedSpan(straggler.Forward, now, now+work), message(straggler.Send, 0, work, work+1), message(straggler.Receive, 0, work+1, 103)}
			}
			role := "worker"
			if r == 0 {
				role = "server"
			}
			st.SetRank(r, straggler.Rank{Role: role})
			st.Add(&straggler.Step{Rank: r, Number: int64(i), Spans: spans})
		}
		now += 103
	}
	v := st.Verdict()
	for _, row := range v.Ranking {
		if want := []float64{100, 40, 0}[row.Rank]; !(math.Abs(row.Wait-want) < 5) {
			t.Errorf("rank %d waits %.1f ms in a step, want %.1f", row.Rank, row.Wait, want)
		}
	}
}

// TestClocksOfGroups aligns the clocks of ranks that only meet in groups of two.
func TestClocksOfGroups(t *testing.T) {
	st := straggler.New(&straggler.Options{WorldSize: 4})
	off := []float64{0, 5000, -7000, 9000} // ms
	groups := [][2]int{{0, 1}, {2, 3}, {1, 2}}
	for i := range 30 {
		now := float64(i) * 100
		for r := range 4 {
			spans := []straggler.Span{timedSpan(straggler.Forward, now+off[r], now+off[r]+60)}
			for k, g := range groups {
				if g[0] != r && g[1] != r {
					continue
				}
				s := timedSpan(straggler.Communication, now+off[r]+60+float64(10*k), now+off[r]+70+float64(10*k))
				s.Group, s.GroupSize = "g"+string(rune('0'+k)), 2
				spans = append(spans, s)
			}
			st.Add(&straggler.Step{Rank: r, Number: int64(i), Spans: spans})
		}
	}
	by := st.Correction().Clocks
	for r := range 4 {
		if got, ok := by[r]; !ok || got != int64(-off[r]*1e6) {
			t.Errorf("clock of rank %d: add %d ns, want %d", r, got, int64(-off[r]*1e6))
		}
	}
}

// TestClocksOfMessages aligns the clocks of two ranks that only exchange messages.
func TestClocksOfMessages(t *testing.T) {
	st := straggler.New(&straggler.Options{WorldSize: 2})
	for i := range 30 {
		now := float64(i) * 100
		message := func(m straggler.Meeting, r int, from, to float64) straggler.Span {
			off := 8000 * float64(r)
			s := timedSpan(straggler.Communication, now+off+from, now+off+to)
			s.Meeting, s.Peer = m, 2-r
			return s
		}
		st.Add(&straggler.Step{Rank: 0, Number: int64(i), Spans: []straggler.Span{message(straggler.Send, 0, 10, 11), message(straggler.Receive, 0, 11, 63)}})
		st.Add(&straggler.Step{Rank: 1, Number: int64(i), Spans: []straggler.Span{message(straggler.Receive, 1, 5, 12), message(straggler.Send, 1, 60, 61)}})
	}
	if got := st.Correction().Clocks[1] / 1e6; got < -8002 || got > -7998 {
		t.Errorf("clock of rank 1: add %d ms, want -8000", got)
	}
}

// TestSharedNames has tensor parallel ranks {0, 1}, {2, 3} and so on, and data parallel ranks {0, 2, …} and
// {1, 3, …}; groups of a kind share their name. The optimizer of rank 0 is slow: rank 1 waits for it in the next step,
// and then the others wait for both. A rank without enough steps still has its place in the groups.
func TestSharedNames(t *testing.T) {
	t.Run("4 ranks", func(t *testing.T) { sharedNames(t, 4, 60) })
	t.Run("8 ranks", func(t *testing.T) { sharedNames(t, 8, 60) })
	t.Run("8 ranks, one ended early", func(t *testing.T) { sharedNames(t, 8, 30) })
	t.Run("8 ranks, one without records", func(t *testing.T) { sharedNames(t, 8, 0) })
	t.Run("8 ranks, one with few steps", func(t *testing.T) { sharedNames(t, 8, 2) })
}

// sharedNames judges a job whose last rank has records of the given number of steps.
func sharedNames(t *testing.T, ranks, recorded int) {
	st := straggler.New(&straggler.Options{WorldSize: ranks})
	rng := rand.New(rand.NewPCG(7, 7))
	now := make([]float64, ranks)
	for i := range 60 {
		steps := make([]straggler.Step, ranks)
		work := func(r int, p straggler.Phase, ms float64) {
			ms *= 1 + 0.02*rng.NormFloat64()
			steps[r].Spans = append(steps[r].Spans, timedSpan(p, now[r], now[r]+ms))
			now[r] += ms
		}
		// meet lets groups of size ranks meet whose members are the given distance apart.
		meet := func(name string, size, by int) {
			for first := range ranks {
				if first%(by*size) >= by {
					continue
				}
				end := 0.0
				for k := range size {
					end = max(end, now[first+k*by]+2)
				}
				for k := range size {
					r := first + k*by
					s := timedSpan(straggler.Communication, now[r], end)
					s.Group, s.GroupSize = name, size
					steps[r].Spans = append(steps[r].Spans, s)
					now[r] = end
				}
			}
		}
		for range 3 {
			for r := range ranks {
				work(r, straggler.Forward, 20)
			}
			meet("tp", 2, 1)
		}
		meet("dp", ranks/2, 2)
		for r := range ranks {
			optimizer := 10.0
			if r == 0 {
				optimizer = 40
			}
			work(r, straggler.Optimizer, optimizer)
			steps[r].Rank, steps[r].Number = r, int64(i)
			if r < ranks-1 || i < recorded {
				st.Add(&steps[r])
			}
		}
	}
	if got := st.Correction().Strides; got["dp"] != 2 || got["tp"] != 0 {
		t.Errorf("Strides() = %v, want dp:2", got)
	}
	v := st.Verdict()
	if v.Kind != finding.SlowRanks || !slices.Equal(v.Ranks, []int{0}) || v.Cause != straggler.Optimizer.String() {
		t.Errorf("got %s %v %s: %s; want %s [0] %s", v.Kind, v.Ranks, v.Cause, v.Sentence, finding.SlowRanks, straggler.Optimizer)
	}
	if v.Waits.Total == 0 {
		t.Error("no waits, want those for rank 0")
	}
}

// TestKnownRankIsNoDoubt has single ranks that stall in turn, and rank 0 that alone saves checkpoints. The imbalance is
// the finding; that rank 0 is late is one, too, and no doubt.
func TestKnownRankIsNoDoubt(t *testing.T) {
	st := straggler.New(&straggler.Options{WorldSize: 8})
	rng := rand.New(rand.NewPCG(3, 9))
	now := 0.0
	for i := range 40 {
		var ends [8]float64
		var steps [8]straggler.Step
		last := 0.0
		stalled := rng.IntN(16)
		for r := range 8 {
			work := 100 * (1 + 0.01*rng.NormFloat64())
			if r == stalled {
				work += 90
			}
			ends[r] = now + work
			steps[r] = straggler.Step{Rank: r, Number: int64(i), Spans: []straggler.Span{timedSpan(straggler.Forward, now, ends[r])}}
			if r == 0 && i%10 == 9 {
				steps[r].Spans = append(steps[r].Spans, timedSpan(straggler.Checkpoint, ends[r], ends[r]+80))
				ends[r] += 80
			}
			last = max(last, ends[r])
		}
		for r := range 8 {
			steps[r].Spans = append(steps[r].Spans, timedSpan(straggler.Communication, ends[r], last+2))
			st.Add(&steps[r])
		}
		now = last + 2
	}
	v := st.Verdict()
	if v.Kind != finding.Imbalance || v.Suspected != nil || len(v.Others) != 1 || !slices.Equal(v.Others[0].Ranks, []int{0}) {
		t.Errorf("got %s, suspected %v, others %v; want %s and rank 0 among the others", v.Kind, v.Suspected, v.Others, finding.Imbalance)
	}
}

package straggler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// onHosts returns the verdict on a job whose ranks run on the given hosts.
func onHosts(number int, j job, hosts ...string) straggler.AttemptVerdict {
	j.n, j.m, j.seed = len(hosts), 100, uint64(number)
	return judgedOn(number, j.state(), hosts...)
}

func judgedOn(number int, st *straggler.State, hosts ...string) straggler.AttemptVerdict {
	for r, h := range hosts {
		st.SetRank(r, straggler.Rank{Host: h})
	}
	return straggler.AttemptVerdict{Attempt: number, Verdict: st.Verdict()}
}

func TestAcross(t *testing.T) {
	slowRank := func(r int) job { return job{faults: []fault{slow([]int{r}, straggler.Input, 0, 60, 0)}} }
	dead := job{die: &death{rank: 1, step: 60, open: true}}
	fine := job{}
	ended := func(number int) straggler.AttemptVerdict {
		h := halt{seen: time.Minute, left: map[int]bool{2: true}, ranks: map[int]straggler.Rank{2: {Ended: true}}, spans: lost}
		return straggler.AttemptVerdict{Attempt: number, Verdict: h.verdict()}
	}
	tests := []struct {
		name     string
		attempts []straggler.AttemptVerdict
		blame    straggler.Blame // empty if nothing recurs
		ranks    []int
		host     string
		in       []int
		says     string
	}{
		{"slow once", []straggler.AttemptVerdict{onHosts(1, slowRank(2), "a", "b", "c", "d"), onHosts(2, fine, "a", "b", "c", "d")}, "", nil, "", nil, ""},
		{"the same rank on the same host", []straggler.AttemptVerdict{onHosts(1, slowRank(2), "a", "b", "c", "d"), onHosts(2, fine, "a", "b", "c", "d"), onHosts(3, slowRank(2), "a", "b", "c", "d")},
			straggler.BlameEither, []int{2}, "c", []int{1, 3}, "2 of 3 attempts (1, 3), each time on host c."},
		{"hosts are not known", []straggler.AttemptVerdict{onHosts(1, slowRank(2), "", "", "", ""), onHosts(2, slowRank(2), "", "", "", "")},
			straggler.BlameEither, []int{2}, "", []int{1, 2}, "2 of 2 attempts (1, 2)."},
		{"the rank moved and stayed slow", []straggler.AttemptVerdict{onHosts(1, slowRank(2), "a", "b", "c", "d"), onHosts(2, slowRank(2), "a", "b", "e", "d")},
			straggler.BlameRank, []int{2}, "", []int{1, 2}, "different hosts"},
		{"the host stayed slow with another rank", []straggler.AttemptVerdict{onHosts(1, slowRank(2), "a", "b", "c", "d"), onHosts(2, slowRank(0), "c", "a", "b", "d")},
			straggler.BlameHost, []int{0, 2}, "c", []int{1, 2}, "the cause is the host, not a rank"},
		{"the rank moved and was fine", []straggler.AttemptVerdict{onHosts(1, slowRank(2), "a", "b", "c", "d"), onHosts(2, fine, "a", "b", "e", "d")},
			straggler.BlameHost, []int{2}, "c", []int{1}, "not on another host"},
		{"all on one host", []straggler.AttemptVerdict{onHosts(1, slowRank(2), "a", "a", "a", "a"), onHosts(2, slowRank(1), "a", "a", "a", "a")}, "", nil, "", nil, ""},
		{"slow, then lost", []straggler.AttemptVerdict{onHosts(2, dead, "a", "b", "c", "d"), onHosts(1, slowRank(1), "a", "b", "c", "d")},
			straggler.BlameEither, []int{1}, "b", []int{1, 2}, "slow or lost"},
		{"a rank that saves, and later does not", []straggler.AttemptVerdict{
			judgedOn(1, pausesAlone(straggler.Checkpoint), "a", "b", "c", "d", "e", "f", "g", "h"),
			onHosts(2, fine, "i", "b", "c", "d", "e", "f", "g", "h"),
		}, "", nil, "", nil, ""},
		{"a rank with fewer steps, each time", []straggler.AttemptVerdict{ended(1), ended(2)}, "", nil, "", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := straggler.Across(tt.attempts)
			if tt.blame == "" {
				if len(got) != 0 {
					t.Fatalf("Across() = %+v, want nothing", got)
				}
				return
			}
			if len(got) != 1 {
				t.Fatalf("Across() = %+v, want one cause", got)
			}
			rc := got[0]
			if rc.Blame != tt.blame || !slices.Equal(rc.Ranks, tt.ranks) || rc.Host != tt.host || !slices.Equal(rc.Attempts, tt.in) || rc.Judged != len(tt.attempts) || !strings.Contains(rc.Sentence, tt.says) {
				t.Errorf("Across() = %+v, want %s, ranks %v, host %q, attempts %v of %d, %q in the sentence", rc, tt.blame, tt.ranks, tt.host, tt.in, len(tt.attempts), tt.says)
			}
			back := slices.Clone(tt.attempts)
			slices.Reverse(back)
			if again := straggler.Across(back); fmt.Sprint(again) != fmt.Sprint(got) {
				t.Errorf("Across() of attempts in another order = %+v, want %+v", again, got)
			}
		})
	}
}

// TestAcrossWithAWholeHost: a whole host that is slow in each attempt is one recurrence, not a rank that
// moves.
func TestAcrossWithAWholeHost(t *testing.T) {
	both := job{faults: []fault{slow([]int{2, 3}, straggler.Input, 0, 60, 0)}}
	hosts := []string{"a", "a", "b", "b", "c", "c", "d", "d"}
	got := straggler.Across([]straggler.AttemptVerdict{onHosts(1, both, hosts...), onHosts(2, both, hosts...)})
	if len(got) != 1 || got[0].Blame != straggler.BlameEither || got[0].Host != "b" || len(got[0].Attempts) != 2 || len(got[0].Ranks) != 2 {
		t.Errorf("Across() = %+v, want either the ranks or host b, in 2 attempts of 2 ranks", got)
	}
}

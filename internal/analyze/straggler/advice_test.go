package straggler_test

import (
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// waiting returns the verdict on a job whose ranks wait the given milliseconds for each batch. hosts assigns
// ranks to hosts in turn.
func waiting(hosts []string, waits ...int64) *straggler.Verdict {
	st := straggler.New(&straggler.Options{WorldSize: len(waits)})
	begin := int64(1_700_000_000e9)
	for s := range int64(60) {
		longest := int64(0)
		for _, w := range waits {
			longest = max(longest, w)
		}
		end := begin + longest*1e6 + 20e6
		for r, w := range waits {
			data := begin + w*1e6 + (s*7+int64(r)*3)%10*1e4
			st.Add(&straggler.Step{Rank: r, Number: s, Start: begin, End: end, Spans: []straggler.Span{
				{Phase: straggler.Input, Start: begin, End: data},
				{Phase: straggler.Backward, Start: data, End: data + 10e6},
				{Phase: straggler.Communication, Start: data + 10e6, End: end, Op: "all_reduce"},
			}})
		}
		begin = end
	}
	for r := range waits {
		st.SetRank(r, straggler.Rank{Host: hosts[r%len(hosts)], LastSeen: begin})
	}
	return st.Verdict()
}

// rotating returns the verdict on a job in which a different rank waits for its batch in each step.
func rotating() *straggler.Verdict {
	st := straggler.New(&straggler.Options{WorldSize: 4})
	begin := int64(1_700_000_000e9)
	for s := range int64(60) {
		end := begin + 80e6
		for r := range 4 {
			data := begin + 1e6
			if int64(r) == (s*7+s/4)%4 {
				data = begin + 50e6
			}
			st.Add(&straggler.Step{Rank: r, Number: s, Start: begin, End: end, Spans: []straggler.Span{
				{Phase: straggler.Input, Start: begin, End: data},
				{Phase: straggler.Backward, Start: data, End: data + 10e6},
				{Phase: straggler.Communication, Start: data + 10e6, End: end, Op: "all_reduce"},
			}})
		}
		begin = end
	}
	return st.Verdict()
}

// TestWordsAreTrue: "all ranks" is only used if all ranks are affected, gains are given as times, and advice
// fits the hosts and devices of the job.
func TestWordsAreTrue(t *testing.T) {
	for _, c := range []struct {
		name            string
		hosts           []string
		waits           []int64
		want, not, next string
	}{
		{"one rank waits, one host", []string{"a"}, []int64{1, 51}, "Rank 1's data loading delays every step", "All ranks wait", "all ranks share one host"},
		{"one rank waits, two hosts", []string{"a", "b"}, []int64{1, 51}, "Rank 1's data loading (b) delays every step", "All ranks wait", "this host with another"},
		{"all ranks wait", []string{"a"}, []int64{50, 51}, "All ranks wait for data", "late", "more workers"},
	} {
		v := waiting(c.hosts, c.waits...)
		all := v.Sentence + " " + v.Second
		if !strings.Contains(v.Sentence, c.want) || strings.Contains(all, c.not) || !strings.Contains(v.Next, c.next) || strings.Contains(all, "faster") {
			t.Errorf("%s: got %q, then %q, next %q; want %q, not %q, next %q", c.name, v.Sentence, v.Second, v.Next, c.want, c.not, c.next)
		}
	}
	if v := waiting([]string{"a"}, 20, 20, 51); !strings.HasPrefix(v.Second, "All ranks wait for data, 30.4 ms of each step in the mean, at least 20.0.") || !strings.HasSuffix(v.Second, " That includes the repair of rank 2.") {
		t.Errorf("one of the ranks that wait does so longest: got %q, then %q, want that the second repair includes the first", v.Sentence, v.Second)
	}
	if v := rotating(); v.Kind != finding.Imbalance || !strings.Contains(v.Sentence, "Another rank is late each time, in 59 of 59 steps by 49.0 ms: data.") || !strings.HasPrefix(v.Second, "Other ranks wait for data in each step") {
		t.Errorf("ranks that wait in turn: got %q, then %q; want that another rank is late each time by its data", v.Sentence, v.Second)
	}
	v := varying("wanders", 60, 0.5, 1)
	if strings.Contains(v.Next, "power") || !strings.Contains(v.Sentence, "a step takes about") {
		t.Errorf("a job without a device: got %q, next %q; want no power limits, and the time of a step", v.Sentence, v.Next)
	}
}

// TestOneComparedStep: the remark on a profile of a single step has the right number.
func TestOneComparedStep(t *testing.T) {
	v := &straggler.Verdict{Ranking: []straggler.RankRow{{Rank: 0, Own: 5, Wait: 4}, {Rank: 1, Own: 9, Last: 1}}, StepTime: 10}
	for n, want := range map[int]string{1: ": 1 step was compared.", 2: ": 2 steps were compared."} {
		v.Coverage.Steps = n
		if f := v.WaitedFor(1); f == nil || len(f.NotKnown) != 1 || !strings.Contains(f.NotKnown[0], want) {
			t.Errorf("%d steps: finding %+v, want %q", n, f, want)
		}
	}
}

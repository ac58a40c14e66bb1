package straggler_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// halt is a job of 4 ranks that trains 40 steps of 200 ms. spans returns the spans of the last step, and all
// ranks are seen for some time after its start.
type halt struct {
	seen  time.Duration
	live  bool
	ranks map[int]straggler.Rank
	spans func(rank int, at int64) []straggler.Span
	left  map[int]bool // ranks that do not begin the last step
	steps int64        // complete steps, 0 for 40
	pause int64        // nanoseconds that rank 2 takes longer in each tenth step
}

func (h *halt) verdict() *straggler.Verdict {
	const usual = 200e6
	st := straggler.New(&straggler.Options{WorldSize: 4})
	if h.live {
		st.SetLive()
	}
	begin := int64(1_700_000_000e9)
	last := cmp.Or(h.steps, 40)
	for s := range last + 1 {
		step := int64(usual)
		if s%10 == 9 {
			step += h.pause
		}
		for r := range 4 {
			d := int64(usual * (0.9 + 0.001*float64((s*7+int64(r)*3)%10)))
			if r == 2 && s%10 == 9 {
				d += h.pause
			}
			spans := []straggler.Span{
				{Phase: straggler.Forward, Start: begin, End: begin + d/3},
				{Phase: straggler.Backward, Start: begin + d/3, End: begin + d},
				{Phase: straggler.Communication, Start: begin + d, End: begin + step},
			}
			in := straggler.Step{Rank: r, Number: s, Start: begin, End: begin + step, Spans: spans}
			if s == last && h.left[r] {
				continue
			}
			if s == last {
				in.End, in.Spans = 0, h.spans(r, begin)
			}
			st.Add(&in)
		}
		begin += step
	}
	for r := range 4 {
		info := h.ranks[r]
		info.LastSeen = begin - usual + int64(h.seen)
		st.SetRank(r, info)
	}
	return st.Verdict()
}

// open returns a span that never ended.
func open(phase straggler.Phase, at int64, op, group string) straggler.Span {
	return straggler.Span{Phase: phase, Start: at, End: at - 1, Op: op, Group: group}
}

// lost returns the spans of the last step of a rank: rank 2 stops in input, and the others in the collective.
func lost(r int, at int64) []straggler.Span {
	if r == 2 {
		return []straggler.Span{open(straggler.Input, at, "", "")}
	}
	return []straggler.Span{{Phase: straggler.Backward, Start: at, End: at + 180e6}, open(straggler.Communication, at+180e6, "all_reduce", "")}
}

// TestHang: the right ranks are named, and only after a wait that is long enough.
func TestHang(t *testing.T) {
	reduce := func(r int, at int64, op, group string) []straggler.Span {
		return []straggler.Span{{Phase: straggler.Backward, Start: at, End: at + 180e6}, open(straggler.Communication, at+180e6, op, group)}
	}
	minutes := func(kind straggler.PauseKind, longest, since time.Duration) map[int]straggler.Rank {
		var info straggler.Rank
		info.Pauses[kind] = straggler.Pause{Longest: int64(longest)}
		if since > 0 {
			info.Pauses[kind].Since = int64(1_700_000_000e9) + 40*200e6 + int64(100*time.Millisecond)
		}
		return map[int]straggler.Rank{2: info}
	}
	tests := []struct {
		name  string
		halt  halt
		kind  finding.Kind
		ranks []int
		cause string
	}{
		{"one stops in input", halt{seen: time.Second, spans: lost}, finding.Hang, []int{2}, "input"},
		{"killed at once", halt{seen: 300 * time.Millisecond, spans: lost}, finding.Fine, nil, ""},
		{"live, for a second", halt{seen: time.Second, live: true, spans: lost}, finding.Fine, nil, ""},
		{"live, for 31 seconds", halt{seen: 31 * time.Second, live: true, spans: lost}, finding.Hang, []int{2}, "input"},
		{"the first checkpoint, of ten minutes", halt{seen: 10 * time.Minute, live: true, spans: lost, ranks: minutes(straggler.PauseSave, 0, 1)}, finding.Fine, nil, ""},
		{"the first checkpoint, of 16 minutes", halt{seen: 16 * time.Minute, live: true, spans: lost, ranks: minutes(straggler.PauseSave, 0, 1)}, finding.Hang, []int{2}, "input"},
		{"a checkpoint twice as long as before", halt{seen: 2 * time.Minute, live: true, spans: lost, ranks: minutes(straggler.PauseSave, time.Minute, 1)}, finding.Fine, nil, ""},
		{"a checkpoint four times as long as before", halt{seen: 4 * time.Minute, live: true, spans: lost, ranks: minutes(straggler.PauseSave, time.Minute, 1)}, finding.Hang, []int{2}, "input"},
		{"an evaluation", halt{seen: 2 * time.Minute, live: true, spans: lost, ranks: minutes(straggler.PauseEvaluation, time.Minute, 1)}, finding.Fine, nil, ""},
		{"a checkpoint before", halt{seen: 2 * time.Minute, live: true, spans: lost, ranks: minutes(straggler.PauseSave, time.Minute, 0)}, finding.Hang, []int{2}, "input"},
		{"all came", halt{seen: time.Minute, spans: func(r int, at int64) []straggler.Span { return reduce(r, at, "all_reduce", "") }}, finding.Hang, nil, ""},
		{"one in another collective", halt{seen: time.Minute, spans: func(r int, at int64) []straggler.Span {
			if r == 3 {
				return reduce(r, at, "broadcast", "")
			}
			return reduce(r, at, "all_reduce", "")
		}}, finding.Hang, []int{3}, "mismatch"},
		{"half in another collective", halt{seen: time.Minute, spans: func(r int, at int64) []straggler.Span {
			return append([]straggler.Span{{Phase: straggler.Communication, Start: at, End: at + 1e6, Group: "other"}}, reduce(r, at, "all_reduce", []string{"", "other"}[r%2])...)
		}}, finding.Hang, nil, "mismatch"},
		{"one left out a collective", halt{seen: time.Minute, spans: func(r int, at int64) []straggler.Span {
			if r == 1 {
				return reduce(r, at, "barrier", "")
			}
			return append([]straggler.Span{{Phase: straggler.Communication, Start: at, End: at + 1e6}}, reduce(r, at, "barrier", "")...)
		}}, finding.Hang, []int{1}, "mismatch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := tt.halt.verdict()
			if v.Kind != tt.kind || !slices.Equal(v.Ranks, tt.ranks) || v.Cause != tt.cause {
				t.Errorf("got %s, ranks %v, cause %q; want %s, %v, %q: %s", v.Kind, v.Ranks, v.Cause, tt.kind, tt.ranks, tt.cause, v.Sentence)
			}
			if v.Kind == finding.Hang {
				t.Log(v.Sentence)
				if v.FromStep != 40 || v.ToStep != -1 {
					t.Errorf("the hang is in steps %d to %d, want 40 to -1", v.FromStep, v.ToStep)
				}
			}
		})
	}
}

// TestHangInTheFirstSteps: with too few steps for a usual one, a wait is measured by the longest complete step.
func TestHangInTheFirstSteps(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps int64
		seen  time.Duration
		live  bool
		hang  bool
	}{
		{"in the second step, killed at once", 1, 300 * time.Millisecond, false, false},
		{"in the second step, for two seconds", 1, 2 * time.Second, false, true},
		{"in the second step, live, for two seconds", 1, 2 * time.Second, true, false},
		{"in the third step, killed at once", 2, 300 * time.Millisecond, false, false},
	} {
		h := halt{steps: c.steps, seen: c.seen, live: c.live, spans: lost}
		if v := h.verdict(); (v.Kind == finding.Hang) != c.hang || c.hang && !slices.Equal(v.Ranks, []int{2}) {
			t.Errorf("%s: %s, ranks %v; want a hang: %v: %s", c.name, v.Kind, v.Ranks, c.hang, v.Sentence)
		}
	}
}

// TestWaitAsOftenBefore: if the others often waited for a rank before, a wait for the same rank that is not much
// longer is no hang.
func TestWaitAsOftenBefore(t *testing.T) {
	of := func(rank int) func(r int, at int64) []straggler.Span {
		return func(r int, at int64) []straggler.Span { return lost((r+2-rank+4)%4, at) }
	}
	for _, c := range []struct {
		name  string
		pause time.Duration
		seen  time.Duration
		rank  int
		hang  bool
	}{
		{"as long as before", time.Minute, time.Minute, 2, false},
		{"much longer", time.Minute, 3 * time.Minute, 2, true},
		{"another rank", time.Minute, time.Minute, 1, true},
		{"none before", 0, time.Minute, 2, true},
	} {
		for _, live := range []bool{false, true} {
			h := halt{pause: int64(c.pause), seen: c.seen, live: live, spans: of(c.rank)}
			if v := h.verdict(); (v.Kind == finding.Hang) != c.hang || c.hang && !slices.Equal(v.Ranks, []int{c.rank}) {
				t.Errorf("%s, live %v: %s, ranks %v; want a hang: %v: %s", c.name, live, v.Kind, v.Ranks, c.hang, v.Sentence)
			}
		}
	}
}

// devices returns the verdict on a job whose hosts run ahead of their devices. By rank, launched is the
// number of steps launched after step 40, and done the number that its device completes.
func devices(launched, done map[int]int, sampled bool) *straggler.Verdict {
	const step = int64(200e6)
	st := straggler.New(&straggler.Options{WorldSize: 4})
	begin := int64(1_700_000_000e9)
	last := begin
	for r := range 4 {
		for s := range 40 + launched[r] {
			at := begin + int64(s)*step
			in := straggler.Step{Rank: r, Number: int64(s), Start: at, End: at + step, Spans: []straggler.Span{
				{Phase: straggler.Forward, Start: at, End: at + step/4},
				{Phase: straggler.Communication, Meeting: straggler.Launch, Start: at + step/4, End: at + step/3},
			}}
			if s < 40+done[r] {
				d := step * int64(90+(s*7+r*3)%10) / 110
				in.Spans = append(in.Spans,
					straggler.Span{Phase: straggler.Forward, Lane: straggler.Device, Launch: at + 1000, Start: at + 2000, End: at + d},
					straggler.Span{Phase: straggler.Communication, Lane: straggler.Device, Launch: at + step/4, Start: at + d, End: at + step})
			} else if done[r] == done[0] && s == 40+done[r] && launched[r] > done[r] {
				in.Spans = append(in.Spans, straggler.Span{Phase: straggler.Forward, Lane: straggler.Device, Launch: at + 1000, Start: at + 2000, End: at + step/2})
			}
			last = max(last, at+step)
			st.Add(&in)
		}
		st.SetRank(r, straggler.Rank{LastSeen: last + int64(time.Minute), Sampled: sampled})
	}
	for r := range 4 {
		st.SetRank(r, straggler.Rank{LastSeen: last + int64(time.Minute)})
	}
	return st.Verdict()
}

// TestHangOnDevice: no host is in a span; the culprit follows from what was launched and what was completed.
func TestHangOnDevice(t *testing.T) {
	for name, tt := range map[string]struct {
		launched, done map[int]int
		ranks          []int
	}{
		"a kernel of rank 2 does not end":    {map[int]int{0: 6, 1: 7, 2: 6, 3: 7}, map[int]int{0: 3, 1: 3, 2: 2, 3: 3}, []int{2}},
		"the host of rank 2 stops":           {map[int]int{0: 9, 1: 9, 2: 3, 3: 8}, map[int]int{0: 3, 1: 3, 2: 3, 3: 3}, []int{2}},
		"the collective does not end":        {map[int]int{0: 6, 1: 6, 2: 6, 3: 6}, map[int]int{0: 3, 1: 3, 2: 3, 3: 3}, nil},
		"hosts are held at different places": {map[int]int{0: 9, 1: 5, 2: 7, 3: 8}, map[int]int{0: 3, 1: 3, 2: 3, 3: 3}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := devices(tt.launched, tt.done, false)
			if v.Kind != finding.Hang || !slices.Equal(v.Ranks, tt.ranks) {
				t.Errorf("got %s, ranks %v; want a hang of ranks %v: %s", v.Kind, v.Ranks, tt.ranks, v.Sentence)
			}
			// The progress of a device is unknown if its work is read later.
			if v := devices(tt.launched, tt.done, true); v.Kind == finding.Hang {
				t.Errorf("sampled: %s, ranks %v: %s, want no hang", v.Kind, v.Ranks, v.Sentence)
			}
		})
	}
}

// TestWatchNamesAHang: a watch that is checked while no steps arrive reports the hang once.
func TestWatchNamesAHang(t *testing.T) {
	s := job{n: 4, m: 60, die: &death{rank: 2, step: 50, open: true}}.run()
	w := newWatch(&straggler.Options{WorldSize: 4}, 5)
	var end int64
	for i := range 60 {
		for r := range s.steps {
			if i < len(s.steps[r]) {
				w.add(&s.steps[r][i])
				for _, sp := range s.steps[r][i].Spans {
					end = max(end, sp.End, sp.Start)
				}
			}
		}
	}
	var said []int64
	for second := range int64(60) {
		for r := range 4 {
			w.st.SetRank(r, straggler.Rank{LastSeen: end + second*1e9})
		}
		if v := w.check(); v != nil {
			if v.Kind != finding.Hang || !slices.Equal(v.Ranks, []int{2}) {
				t.Errorf("verdict %q, want a hang of rank 2", v.Sentence)
			}
			said = append(said, second)
		}
	}
	if len(said) != 1 || said[0] < 24 || said[0] > 36 {
		t.Errorf("hang reported at %v, want once at 24 to 36", said)
	}
}

// TestNamedByOthers: another source names the culprit and its host.
func TestNamedByOthers(t *testing.T) {
	last := int64(6)
	v := &straggler.Verdict{Finding: finding.Finding{Kind: finding.Hang, FromStep: 7, Cause: "backward", Evidence: &finding.Evidence{Waited: 5000, LastStep: &last}}}
	v.Blame([]int{3}, []string{"node-b"}, false, "it was killed.")
	if !slices.Equal(v.Ranks, []int{3}) || !slices.Equal(v.Hosts, []string{"node-b"}) || v.Cause != "" || v.Sentence != "The other ranks wait for rank 3 (node-b) since step 7: it was killed." || v.Next == "" {
		t.Errorf("verdict %+v, want rank 3 on node-b, which was killed, and what to do next", v)
	}
	if e := v.Evidence; e.Seen != "it was killed." || e.Waited != 5000 || e.LastStep != &last {
		t.Errorf("evidence %+v, want that of the other source and, from the steps, a wait of 5000 ms and the last step", e)
	}
	v.Blame([]int{1, 2}, nil, true, "they came with another collective")
	if !slices.Equal(v.Ranks, []int{1, 2}) || v.Hosts != nil || v.Cause != finding.CauseMismatch || v.Sentence != "The other ranks wait for ranks 1, 2 since step 7: they came with another collective." {
		t.Errorf("verdict %+v, want ranks 1 and 2 with a collective mismatch", v)
	}
}

// TestUnevenSteps: the others wait for a rank that ended after fewer steps, and the network is not blamed.
// For a rank that is still running its position is reported.
func TestUnevenSteps(t *testing.T) {
	for _, c := range []struct {
		name   string
		ended  bool
		cause  string
		wanted []string
	}{
		{"left", true, finding.CauseUneven, []string{"Rank 2 ended after step 39 without an error", "in step 40", "different numbers of steps"}},
		{"still there", false, straggler.Host.String(), []string{"Rank 2 began no step after step 39", "in step 40"}},
	} {
		h := halt{seen: time.Minute, left: map[int]bool{2: true}, ranks: map[int]straggler.Rank{2: {Ended: c.ended}}, spans: lost}
		v := h.verdict()
		if v.Kind != finding.Hang || !slices.Equal(v.Ranks, []int{2}) || v.Cause != c.cause || strings.Contains(v.Sentence+v.Next, "network") {
			t.Errorf("%s: %s %v, %q: %s Next: %s; want hang [2], %q", c.name, v.Kind, v.Ranks, v.Cause, v.Sentence, v.Next, c.cause)
		}
		for _, text := range c.wanted {
			if !strings.Contains(v.Sentence, text) {
				t.Errorf("%s: got %q, want %q in it", c.name, v.Sentence, text)
			}
		}
	}
}

// TestHangOfSharedNames: groups that share a name are not one group. By their recorded names, ranks that wait in
// different groups of the same two names seem to wait in different collectives of one group.
func TestHangOfSharedNames(t *testing.T) {
	reduce := func(at, end int64, group string) straggler.Span {
		return straggler.Span{Phase: straggler.Communication, Start: at, End: end, Group: group, GroupSize: 2, Op: "all_reduce"}
	}
	for _, tt := range []struct {
		name  string
		ranks int
		cut   bool // the last rank has a truncated file, else none
		whole bool // it has a whole file
		spans func(rank int, at int64) []straggler.Span
		hang  bool
	}{
		// Rank 3 is not there: rank 2 waits for it, and 0 and 1 for 2 and 3.
		{"a mesh without a rank", 4, false, false, mesh(reduce), true},
		{"a mesh with a truncated file", 4, true, false, mesh(reduce), false},
		// The pairs have different numbers of layers, and all wait.
		{"pairs with different counts", 6, false, true, func(r int, at int64) (out []straggler.Span) {
			for range 2 + min(r/2, 1)*3 {
				out, at = append(out, reduce(at, at+1e6, "1")), at+2e6
			}
			return append(out, reduce(at, at-1, "1"))
		}, true},
	} {
		const step = int64(200e6)
		st := straggler.New(&straggler.Options{WorldSize: tt.ranks})
		begin := int64(1_700_000_000e9)
		for s := range int64(41) {
			for r := range tt.ranks {
				last := r == tt.ranks-1 && !tt.whole
				in := straggler.Step{Rank: r, Number: s, Start: begin, End: begin + step, Spans: []straggler.Span{
					{Phase: straggler.Forward, Start: begin, End: begin + step/2}, reduce(begin+step/2, begin+3*step/4, "2"), reduce(begin+3*step/4, begin+step, "1"),
				}}
				switch {
				case last && (!tt.cut || s == 40):
					continue
				case s == 40:
					in.End, in.Spans = 0, tt.spans(r, begin)
				}
				st.Add(&in)
			}
			begin += step
		}
		for r := range tt.ranks {
			last := r == tt.ranks-1 && !tt.whole
			if !last || tt.cut {
				st.SetRank(r, straggler.Rank{LastSeen: begin + int64(time.Minute), Cut: last})
			}
		}
		if v := st.Verdict(); len(v.Ranks) > 0 || v.Cause != "" || (v.Kind == finding.Hang) != tt.hang {
			t.Errorf("%s: %s of ranks %v, cause %q; want a hang: %v, no ranks and no cause: %s", tt.name, v.Kind, v.Ranks, v.Cause, tt.hang, v.Sentence)
		}
	}
}

// mesh returns the last step of a mesh of four ranks: ranks 0 and 1 have met in the group with name 2.
func mesh(reduce func(at, end int64, group string) straggler.Span) func(rank int, at int64) []straggler.Span {
	return func(r int, at int64) []straggler.Span {
		if r == 2 {
			return []straggler.Span{reduce(at, at-1, "2")}
		}
		return []straggler.Span{reduce(at, at+1e6, "2"), reduce(at+2e6, at, "1")}
	}
}

// TestWaitOfUnknownLength: if no rank was seen after it stopped, the missing rank is reported without the
// length of the wait.
func TestWaitOfUnknownLength(t *testing.T) {
	h := halt{seen: -60 * 365 * 24 * time.Hour, spans: lost}
	if v := h.verdict(); v.Kind != finding.Hang || !slices.Equal(v.Ranks, []int{2}) || strings.Contains(v.Sentence, "0.0 s") || !strings.HasSuffix(v.Sentence, "wait.") {
		t.Errorf("sentence %q, want a hang of rank 2 that does not state a length of the wait", v.Sentence)
	}
}

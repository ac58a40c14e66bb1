package straggler_test

import (
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// pausesAlone returns 60 steps of 8 ranks in which only rank 0 pauses, three times, in a phase.
func pausesAlone(phase straggler.Phase) *straggler.State {
	st := straggler.New(nil)
	now := int64(1e15)
	for s := range int64(60) {
		const ms = int64(1e6)
		end := now + 100*ms
		if s%20 == 19 {
			end += 400 * ms
		}
		for r := range 8 {
			at := now + 90*ms + int64(r*7+int(s)*5)%11*ms/10
			spans := []straggler.Span{{Phase: straggler.Forward, Start: now, End: at}}
			if r == 0 && s%20 == 19 {
				spans = append(spans, straggler.Span{Phase: phase, Start: at, End: at + 400*ms})
				at += 400 * ms
			}
			spans = append(spans, straggler.Span{Phase: straggler.Communication, Start: at, End: end})
			st.Add(&straggler.Step{Rank: r, Number: s, Start: now, End: end, Spans: spans})
		}
		now = end
	}
	return st
}

// TestRankThatSavesAlone: three saves by the same rank are enough to name it if no other rank ever saves.
// Three pauses of one rank are not, because they may be chance.
func TestRankThatSavesAlone(t *testing.T) {
	for _, tt := range []struct {
		phase straggler.Phase
		want  []int
	}{
		{straggler.Checkpoint, []int{0}},
		{straggler.Forward, nil},
	} {
		v := pausesAlone(tt.phase).Verdict()
		if got := namedIn(v); !slices.Equal(got, tt.want) {
			t.Errorf("%v: named %v, want %v: %s", tt.phase, got, tt.want, v.Sentence)
		}
	}
}

// TestHostsAmongDevices: the few ranks without times of a device are not judged, and do not hide the others. If most
// have none, that is the reason why the job is not judged.
func TestHostsAmongDevices(t *testing.T) {
	const step = int64(200e6)
	of := func(hosts int) *straggler.State {
		st := straggler.New(&straggler.Options{WorldSize: 4})
		for r := range 4 {
			for s := range int64(60) {
				at := int64(1_700_000_000e9) + s*step
				in := straggler.Step{Rank: r, Number: s, Start: at, End: at + step, Spans: []straggler.Span{
					{Phase: straggler.Forward, Start: at, End: at + step/4},
					{Phase: straggler.Communication, Meeting: straggler.Launch, Start: at + step/4, End: at + step/3},
				}}
				if r >= hosts {
					d := step * (90 + (s*7+int64(r)*3)%10) / 110
					in.Spans = append(in.Spans,
						straggler.Span{Phase: straggler.Forward, Lane: straggler.Device, Launch: at + 1000, Start: at + 2000, End: at + d},
						straggler.Span{Phase: straggler.Communication, Lane: straggler.Device, Launch: at + step/4, Start: at + d, End: at + step})
				}
				st.Add(&in)
			}
		}
		return st
	}
	if v := of(1).Verdict(); v.Coverage.Steps < 40 || !slices.Equal(v.Coverage.Missing, []int{0}) {
		t.Errorf("one rank without a device: %d steps, missing %v, want 40 or more and rank 0: %s", v.Coverage.Steps, v.Coverage.Missing, v.Sentence)
	}
	if v := of(3).Verdict(); v.Kind != finding.Unknown || v.Reason != "no_device_times" {
		t.Errorf("three ranks without a device: %s %s, want unknown for no_device_times: %s", v.Kind, v.Reason, v.Sentence)
	}
}

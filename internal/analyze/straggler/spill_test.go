package straggler_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/platform/extsort"
)

// manyPieces returns steps of a rank with 400 pieces each, so that steps packed as differences fill several
// blocks.
func manyPieces(rank, steps int) []straggler.Step {
	rng := rand.New(rand.NewPCG(uint64(rank), 5))
	at := int64(1_800_000_000_000_000_000)
	out := make([]straggler.Step, steps)
	for i := range out {
		st := &out[i]
		st.Rank, st.Number = rank, int64(i)
		for k := range 200 {
			work, meet := 1_000_000+1000*rng.Int64N(300), 200_000+1000*rng.Int64N(50)
			phase := []straggler.Phase{straggler.Forward, straggler.Backward}[k/100]
			st.Spans = append(st.Spans, straggler.Span{Phase: phase, Start: at, End: at + work},
				straggler.Span{Phase: straggler.Communication, Start: at + work, End: at + work + meet})
			at += work + meet
		}
	}
	return out
}

// TestSpill checks that the steps of a State are the same in a temporary file and in memory, in any order,
// truncated, merged and packed again.
func TestSpill(t *testing.T) {
	sharded := func(opt *straggler.Options, parts int, seed uint64) *straggler.State {
		rng := rand.New(rand.NewPCG(seed, 3))
		states := make([]*straggler.State, parts)
		for i := range states {
			states[i] = straggler.New(opt)
		}
		for rank := range 3 {
			steps := manyPieces(rank, 150)
			for i := range steps { // slightly out of order, as ranks report
				k := i + rng.IntN(min(3, len(steps)-i))
				steps[i], steps[k] = steps[k], steps[i]
				states[rng.IntN(parts)].Add(&steps[i])
			}
		}
		for _, st := range states[1:] {
			states[0].Merge(st)
		}
		return states[0]
	}
	late := job{n: 6, m: 80, seed: 1, faults: []fault{slow([]int{2}, straggler.Input, 0, 40, 30)}}
	for name, state := range map[string]func(opt *straggler.Options, parts int, seed uint64) *straggler.State{
		"many pieces": sharded,
		"slow input": func(opt *straggler.Options, parts int, seed uint64) *straggler.State {
			return scatter(late, opt, parts, seed)
		},
	} {
		for _, cells := range []int{0, 200} {
			memory := straggler.Options{MaxCells: cells}
			spilled := memory
			spilled.Spill = extsort.NewBlocks(0, t.TempDir())
			a, b := state(&memory, 3, 1), state(&spilled, 2, 2)
			if got, want := asJSON(t, b), asJSON(t, a); got != want {
				t.Errorf("%s, %d cells: %s\nwant\n%s", name, cells, got, want)
			}
			want, got := packed(t, a), packed(t, b)
			if !bytes.Equal(got, want) {
				t.Errorf("%s, %d cells: %d bytes in the file differ from the %d bytes in memory", name, cells, len(got), len(want))
			}
			read := straggler.New(&spilled)
			if err := read.UnmarshalBinary(got); err != nil {
				t.Fatal(err)
			}
			if again := packed(t, read); !bytes.Equal(again, want) {
				t.Errorf("%s, %d cells: state read back differs from the state written", name, cells)
			}
		}
	}
}

func packed(t *testing.T, st *straggler.State) []byte {
	t.Helper()
	data, err := st.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestSpillMissing checks that the verdict is unknown if steps cannot be read back.
func TestSpillMissing(t *testing.T) {
	j := job{n: 4, m: 80, seed: 1, faults: []fault{slow([]int{1}, straggler.Input, 0, 40, 0)}}
	spill := extsort.NewBlocks(0, t.TempDir()+"/missing")
	st := scatter(j, &straggler.Options{WorldSize: j.n, Spill: spill}, 1, 1)
	if v := st.Verdict(); spill.Err() == nil || v.Kind != finding.Unknown {
		t.Errorf("error %v, got %s, want %s", spill.Err(), v.Kind, finding.Unknown)
	}
	if _, err := st.AppendBinary(nil); err == nil {
		t.Error("AppendBinary without the spilled steps: no error, want one")
	}
}

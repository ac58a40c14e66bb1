package meet_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/meet"
)

func TestNumberGroups(t *testing.T) {
	pair := []meet.Group{{Name: "tp", Size: 2}}
	known := func(first int) []meet.Group { return []meet.Group{{Name: meet.Named("tp", first), Size: 2}} }
	for _, tt := range []struct {
		name  string
		ranks [][]meet.Group
		list  string // per group: name, part of parts, ranks, and the expected members in a job of all ranks
		want  string // by rank: the number of each of its groups
		by    int    // the stride of tp
	}{
		{"no groups", [][]meet.Group{nil, nil}, "", "[[] []]", 0},
		{"all ranks", [][]meet.Group{{{}}, {{}}, {{}}}, `"" 0/1 [0 1 2] of 3; `, "[[0] [0] [0]]", 0},
		{"the set-up is no collective", [][]meet.Group{{{SetUp: true}, {}}, {{}, {SetUp: true}}}, `"" 0/1 [0 1] of 2; "" set-up 0/1 [0 1] of 2; `, "[[1 0] [0 1]]", 0},
		{"a group of each two", [][]meet.Group{pair, pair, pair, pair}, `"tp" 0/2 [0 1] of 2; "tp" 1/2 [2 3] of 2; `, "[[0] [0] [1] [1]]", 0},
		{"a group of each second", [][]meet.Group{pair, pair, pair, pair}, `"tp" 0/2 [0 2] of 2; "tp" 1/2 [1 3] of 2; `, "[[0] [1] [0] [1]]", 2},
		{"two strides of four", [][]meet.Group{pair, pair, pair, pair, pair, pair, pair, pair},
			`"tp" 0/4 [0 2] of 2; "tp" 1/4 [1 3] of 2; "tp" 2/4 [4 6] of 2; "tp" 3/4 [5 7] of 2; `, "[[0] [1] [0] [1] [2] [3] [2] [3]]", 2},
		{"one of a pair has no records", [][]meet.Group{pair, pair, pair}, `"tp" 0/1 [0 1 2] of 2; `, "[[0] [0] [0]]", 0},
		{"one of a pair is missing", [][]meet.Group{pair, nil, pair, pair}, `"tp" 0/2 [0 1] of 2; "tp" 1/2 [2 3] of 2; `, "[[0] [] [1] [1]]", 0},
		{"a node is missing", [][]meet.Group{pair, pair, pair, pair, nil, nil, nil, nil},
			`"tp" 0/4 [0 4] of 2; "tp" 1/4 [1 5] of 2; "tp" 2/4 [2 6] of 2; "tp" 3/4 [3 7] of 2; `, "[[0] [1] [2] [3] [] [] [] []]", 4},
		{"ranks with other records", [][]meet.Group{pair, pair, {}, {}, pair, pair}, `"tp" 0/2 [0 1] of 2; "tp" 1/2 [4 5] of 2; `, "[[0] [0] [] [] [1] [1]]", 0},
		{"the records of one rank have no groups", [][]meet.Group{pair, {}, pair, pair}, `"tp" 0/2 [0 1] of 2; "tp" 1/2 [2 3] of 2; `, "[[0] [] [1] [1]]", 0},
		{"a rank without groups", [][]meet.Group{pair, pair, nil, pair, pair}, `"tp" 0/2 [0 1] of 2; "tp" 1/2 [3 4] of 2; `, "[[0] [0] [] [1] [1]]", 0},
		{"recorded members", [][]meet.Group{known(0), known(1), known(2), known(0), known(1), known(2)},
			`"tp" 0/3 [0 3] of 2; "tp" 1/3 [1 4] of 2; "tp" 2/3 [2 5] of 2; `, "[[0] [1] [2] [0] [1] [2]]", 2},
		{"recorded members, one missing", [][]meet.Group{known(0), known(1), nil, known(0), known(1), known(2)},
			`"tp" 0/3 [0 3] of 2; "tp" 1/3 [1 4] of 2; "tp" 2/3 [5] of 2; `, "[[0] [1] [] [0] [1] [2]]", 0},
		{"members of some ranks", [][]meet.Group{known(0), pair, known(0), pair}, `"tp" 0/2 [1 3] of 2; "tp" 1/2 [0 2] of 2; `, "[[1] [0] [1] [0]]", 0},
		{"a size that one rank has", [][]meet.Group{{{Name: "a"}}, {{Name: "a", Size: 3}}}, `"a" 0/1 [0 1] of 3; `, "[[0] [0]]", 0},
		{"no size", [][]meet.Group{{{Name: "a"}}, nil, {{Name: "a"}}}, `"a" 0/1 [0 2] of 2; `, "[[0] [] [0]]", 0},
		{"one group with two sizes", [][]meet.Group{{{Name: "a"}, {Name: "a", Size: 2}}, {{Name: "a"}}}, `"a" 0/1 [0 1] of 2; `, "[[0 0] [0]]", 0},
	} {
		got := meet.NumberGroups(tt.ranks, meet.Strides{"tp": tt.by})
		list := ""
		for i := range got.List {
			m := &got.List[i]
			setUp := ""
			if m.SetUp {
				setUp = " set-up"
			}
			list += fmt.Sprintf("%q%s %d/%d %v of %d; ", m.Name, setUp, m.Part, m.Parts, m.Ranks, m.Expected(len(tt.ranks)))
		}
		if list != tt.list || fmt.Sprint(got.Number) != tt.want {
			t.Errorf("%s: NumberGroups() = %s%v, want %s%s", tt.name, list, got.Number, tt.list, tt.want)
		}
	}
}

func TestMeeting(t *testing.T) {
	type entry struct {
		rank int
		op   uint32
		took int64
	}
	for _, tt := range []struct {
		name    string
		entries []entry
		waits   []int64
		last    int
		whole   bool
	}{
		{"the shortest waited for nobody", []entry{{0, 1, 30}, {1, 1, 10}, {2, 1, 25}}, []int64{20, 0, 15}, 1, true},
		{"two come last: the lower rank stands for both", []entry{{0, 1, 30}, {1, 1, 10}, {2, 1, 10}}, []int64{20, 0, 0}, 1, true},
		{"no time at all", []entry{{0, 1, 0}, {1, 1, 0}, {2, 1, 0}}, []int64{0, 0, 0}, 0, true},
		{"one has no record", []entry{{0, 1, 30}, {2, 1, 10}}, []int64{20, 0}, 2, false},
		{"a rank has it twice", []entry{{0, 1, 30}, {1, 1, 10}, {1, 1, 10}}, []int64{20, 0, 0}, 1, false},
		{"ranks called other collectives", []entry{{0, 1, 30}, {1, 2, 10}, {2, 1, 20}}, []int64{20, 0, 10}, 1, false},
	} {
		var m meet.Meeting
		for _, e := range tt.entries {
			m.Enter(e.rank, e.op, e.took)
		}
		var waits []int64
		for _, e := range tt.entries {
			waits = append(waits, m.Wait(e.took))
		}
		if !slices.Equal(waits, tt.waits) || m.Last != tt.last || m.IsWhole(3) != tt.whole {
			t.Errorf("%s: waits %v for %d, whole %v, want %v for %d, %v", tt.name, waits, m.Last, m.IsWhole(3), tt.waits, tt.last, tt.whole)
		}
	}
}

package dataset

import (
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
)

// TestMerge checks that the rows of several processes come back in order, hour
// by hour: of equal rows of a process the last one first. Some begin long
// before those beside them, as spans that hold others do.
func TestMerge(t *testing.T) {
	for _, memory := range []int{0, 1 << 12} {
		rng := rand.New(rand.NewPCG(3, 4))
		b := New(memory, t.TempDir())
		var procs []*Process
		want := make(map[int64][]cursor)
		for i := range 3 {
			p := b.Process(&job.Process{Rank: i})
			procs = append(procs, p)
			for k := range 2000 {
				ts := int64(k)*usPerHour/900 + rng.Int64N(4)
				if rng.IntN(50) == 0 {
					ts = rng.Int64N(ts + 1)
				}
				r := row{
					ts: ts, dur: rng.Int64N(3) - 1, tid: rng.Int64N(2) - 1, id: rng.Uint64(), parent: rng.Int64(), level: rng.Int64N(3),
					name: uint32(k + 1), group: rng.Uint32N(2), file: rng.Uint32N(2), args: []byte(strconv.Itoa(k)),
				}
				if rng.IntN(2) == 0 {
					r.step = number{rng.Int64N(3) - 1, true}
				}
				if rng.IntN(2) == 0 {
					r.epoch = number{rng.Int64N(3) - 1, true}
				}
				if len(p.rows) == heldRows {
					p.pack()
				}
				p.rows = append(p.rows, r)
				want[hourOf(ts)] = append(want[hourOf(ts)], cursor{process: i, row: r})
			}
		}
		if err := b.flush(); err != nil {
			t.Fatal(err)
		}
		if len(want) < 2 {
			t.Fatalf("%d hours, want more", len(want))
		}
		for hour, of := range want {
			slices.SortStableFunc(of, func(x, y cursor) int {
				return cmp.Or(x.row.compare(&y.row), cmp.Compare(x.process, y.process), cmp.Compare(y.row.name, x.row.name))
			})
			m := mergeOf(procs, 0, len(procs), hour)
			for i := range of {
				got := m.next()
				if got == nil {
					t.Fatalf("hour %d has %d rows, want %d: %v", hour, i, len(of), m.err)
				}
				r := got.row
				if !r.step.known { // an unknown value is not stored
					r.step = number{}
				}
				if !r.epoch.known {
					r.epoch = number{}
				}
				if got.process != of[i].process || !reflect.DeepEqual(r, of[i].row) {
					t.Fatalf("row %d of hour %d is %+v of process %d, want %+v of %d", i, hour, r, got.process, of[i].row, of[i].process)
				}
			}
			if got := m.next(); got != nil || m.err != nil || len(m.open) > 0 {
				t.Errorf("hour %d has %+v after the last row, want no row and no open block: %v", hour, got, m.err)
			}
		}
	}
}

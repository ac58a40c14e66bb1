package job

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/growth"
)

// TestDuring compares with checking each process.
func TestDuring(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var procs []*Process
		for range rng.IntN(20) {
			start := rng.Int64N(30)
			procs = append(procs, &Process{Start: start, LastSeen: start + rng.Int64N(20)})
		}
		during := During(procs)
		for range 5 {
			from := rng.Int64N(40) - 5
			to := from + rng.Int64N(20)
			want := slices.DeleteFunc(slices.Clone(procs), func(p *Process) bool { return p.Start > to || p.LastSeen < from })
			if got := during(from, to); !slices.Equal(got, want) {
				t.Fatalf("%d to %d of %d processes: got %d, want %d", from, to, len(procs), len(got), len(want))
			}
		}
	}
}

// BenchmarkGrowthDuring has helpers and as many attempts, one of which lives
// all the time.
func BenchmarkGrowthDuring(b *testing.B) {
	growth.Bench(b, 1<<13, func(n int) {
		procs := []*Process{{LastSeen: int64(10 * n)}}
		for i := range n {
			procs = append(procs, &Process{Start: int64(10 * i), LastSeen: int64(10*i + 9)})
		}
		during := During(procs)
		for i := range n {
			if got := during(int64(10*i), int64(10*i+9)); len(got) != 2 {
				b.Fatalf("attempt %d: %d helpers, want 2", i, len(got))
			}
		}
	})
}

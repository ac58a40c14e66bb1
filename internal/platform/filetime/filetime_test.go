package filetime_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/platform/filetime"
	"github.com/trainspan/trainspan/internal/testkit/growth"
)

const (
	day = int64(24 * time.Hour / time.Microsecond)
	now = int64(1_700_000_000_000_000)
)

// judge reads a file as the readers do: once, and again if Right returns false.
func judge(times []int64) (kept []int64, again bool) {
	j := filetime.New(time.Microsecond)
	for {
		kept = kept[:0]
		for _, t := range times {
			if j.Has(t) {
				kept = append(kept, t)
			}
		}
		if j.Right() {
			return kept, again
		}
		j, again = filetime.With(time.Microsecond, j.Median()), true
	}
}

func TestJudge(t *testing.T) {
	days := func(from, to, step int64) (out []int64) { // in tenths of days
		for d := from; d < to; d += step {
			out = append(out, now+d*day/10)
		}
		return out
	}
	hour := days(0, 1, 1)
	for range 200 {
		hour = append(hour, now+int64(len(hour))*1000)
	}
	for _, test := range []struct {
		name  string
		times []int64
		kept  int
		again bool
	}{
		{"none", nil, 0, false},
		{"one", []int64{now}, 1, false},
		{"an hour", hour, len(hour), false},
		{"one in 1970", slices.Concat(hour, []int64{0}), len(hour), false},
		{"one in 2255", slices.Concat(hour, []int64{9e15}), len(hour), false},
		{"one 40 days later", slices.Concat(hour, []int64{now + 40*day}), len(hour), false},
		{"one 28 days later", slices.Concat(hour, []int64{now + 28*day}), len(hour) + 1, false},
		{"the first is in 1970", slices.Concat([]int64{5}, hour), len(hour), true},
		{"the clock is set after 50", slices.Concat(make([]int64, 50), hour), len(hour), true},
		{"the ends of time", slices.Concat(hour, []int64{math.MinInt64, math.MaxInt64, -1}), len(hour), false},
		{"near zero", []int64{0, 1, 2, -5, 100}, 5, false},
		{"50 days", days(0, 500, 1), 500, false},
		{"90 days", days(0, 900, 1), -1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			kept, again := judge(test.times)
			if test.kept >= 0 && len(kept) != test.kept || again != test.again || test.kept < 0 && (len(kept) < 580 || len(kept) > 620) {
				t.Errorf("%d of %d times are kept, read again %v; want %d (-1: 580 to 620), %v", len(kept), len(test.times), again, test.kept, test.again)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			rng.Shuffle(len(test.times), func(i, k int) { test.times[i], test.times[k] = test.times[k], test.times[i] })
			shuffled, _ := judge(test.times)
			slices.Sort(shuffled)
			if slices.Sort(kept); !slices.Equal(kept, shuffled) {
				t.Errorf("%d times are kept in order, %d in another order, want the same", len(kept), len(shuffled))
			}
		})
	}
}

// wild returns n times, each in another interval.
func wild(n int) {
	rng := rand.New(rand.NewPCG(3, 4))
	j := filetime.New(time.Microsecond)
	for range n {
		j.Has(int64(rng.Uint64()))
	}
	j.Right()
}

func TestGrowth(t *testing.T) { growth.Allocated(t, 1<<14, wild) }

func BenchmarkGrowth(b *testing.B) { growth.Bench(b, 1<<14, wild) }

func BenchmarkHas(b *testing.B) {
	j := filetime.New(time.Microsecond)
	t := now
	for b.Loop() {
		if t += 100; !j.Has(t) {
			b.Fatalf("Has(%d) = false, want true", t)
		}
	}
}

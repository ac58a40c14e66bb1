package columns_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/columns"
)

func TestColumns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	of := func(n int, at func(i int) int64) []int64 {
		out := make([]int64, n)
		for i := range out {
			out[i] = at(i)
		}
		return out
	}
	tests := []struct {
		name   string
		values []int64
		most   int // bytes
	}{
		{"none", nil, 0},
		{"one", []int64{7}, 2},
		{"the same", of(64, func(int) int64 { return 0 }), 2},
		{"numbers", of(64, func(i int) int64 { return int64(1000 + i) }), 5},
		{"microseconds", of(64, func(int) int64 { return 14_000_000 + 1000*rng.Int64N(512) }), 64*9/8 + 8},
		{"times", of(64, func(i int) int64 { return 1e18 + int64(i)*53e6 + 1000*rng.Int64N(1024) }), 64*11/8 + 20},
		{"extremes", []int64{math.MinInt64, math.MaxInt64, 0, -1, math.MaxInt64, math.MinInt64}, 80},
		{"no end", []int64{5, math.MaxInt64, 5, 6}, 50},
		{"wide", of(100, func(int) int64 { return int64(rng.Uint64()) }), 830},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			packed := columns.Append([]byte("x"), tt.values)[1:]
			if len(packed) > tt.most {
				t.Errorf("%d values take %d bytes, want at most %d", len(tt.values), len(packed), tt.most)
			}
			got := make([]int64, len(tt.values))
			rest, err := columns.Decode(append(packed, 9), got)
			if err != nil || len(rest) != 1 || rest[0] != 9 || !slices.Equal(got, tt.values) {
				t.Fatalf("%v, rest %v: %v, want %v", err, rest, got, tt.values)
			}
			for n := range packed {
				if _, err := columns.Decode(packed[:n], got); err == nil {
					t.Errorf("Decode of %d of %d bytes: no error, want one", n, len(packed))
				}
			}
		})
	}
}

func TestWidths(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for width := range 65 {
		for _, n := range []int{2, 3, 63, 64, 65} {
			values := make([]int64, n)
			for i := range values {
				if width > 0 {
					values[i] = int64(rng.Uint64() >> (64 - width))
				}
			}
			got := make([]int64, n)
			if rest, err := columns.Decode(columns.Append(nil, values), got); err != nil || len(rest) != 0 || !slices.Equal(got, values) {
				t.Fatalf("width %d, %d values: %v, %d bytes left; want the same values and none left", width, n, err, len(rest))
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(columns.Append(nil, []int64{1, 5, 9, 1 << 40}), 4)
	f.Add([]byte{0x8b, 1, 2, 3, 4, 5, 6, 7}, 5)
	f.Fuzz(func(t *testing.T, src []byte, n int) {
		if n < 0 || n > 300 {
			return
		}
		values := make([]int64, n)
		if _, err := columns.Decode(src, values); err != nil {
			return
		}
		again := make([]int64, n)
		if _, err := columns.Decode(columns.Append(nil, values), again); err != nil || !slices.Equal(values, again) {
			t.Fatalf("%v: %v, read again %v; want the same values", err, values, again)
		}
	})
}

func BenchmarkColumn(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := make([]int64, 64)
	for i := range values {
		values[i] = 14_000_000 + 1000*rng.Int64N(512)
	}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = columns.Append(dst[:0], values)
		_, _ = columns.Decode(dst, values)
	}
}

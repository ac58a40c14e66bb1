package attrvalue_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/attrvalue"
)

var largest = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 128), big.NewInt(1))

func saturated(b *big.Int) *big.Int {
	if b.Cmp(largest) > 0 {
		return largest
	}
	return b
}

func bigOf(v uint64) *big.Int { return new(big.Int).SetUint64(v) }

// countOf returns hi*2^64+lo, made with exported functions only.
func countOf(hi, lo uint64) attrvalue.Count {
	c := attrvalue.CountOfUint(hi)
	for range 4 {
		c = c.Times(1 << 16)
	}
	return c.Add(attrvalue.CountOfUint(lo))
}

// checkCount compares every operation with math/big.
func checkCount(t *testing.T, hi, lo, hi2, lo2 uint64, n, m int64) {
	t.Helper()
	c, d := countOf(hi, lo), countOf(hi2, lo2)
	b := new(big.Int).Add(new(big.Int).Lsh(bigOf(hi), 64), bigOf(lo))
	e := new(big.Int).Add(new(big.Int).Lsh(bigOf(hi2), 64), bigOf(lo2))
	same := func(what string, got attrvalue.Count, want *big.Int) {
		t.Helper()
		if got.Big().Cmp(want) != 0 {
			t.Errorf("%s of %s, %s, %d, %d: got %s, want %s", what, b, e, n, m, got, want)
		}
		if got.String() != want.String() {
			t.Errorf("text of the count is %s, want %s", got, want)
		}
		if got.IsZero() != (want.Sign() == 0) {
			t.Errorf("%s: IsZero is %t, want %t", want, got.IsZero(), want.Sign() == 0)
		}
		f, _ := new(big.Float).SetInt(want).Float64()
		if got.Float64() != f {
			t.Errorf("float of %s: got %b, want %b", want, got.Float64(), f)
		}
		i, ok := got.Int64()
		if ok != want.IsInt64() || ok && i != want.Int64() || !ok && i != 0 {
			t.Errorf("Int64 of %s = %d, %t; want it if it fits: %t", want, i, ok, want.IsInt64())
		}
	}
	factor := big.NewInt(max(n, 0))
	same("value", c, b)
	same("sum", c.Add(d), saturated(new(big.Int).Add(b, e)))
	same("multiple", c.Times(n), saturated(new(big.Int).Mul(b, factor)))
	same("product", attrvalue.Product(n, m), new(big.Int).Mul(factor, big.NewInt(max(m, 0))))
}

func TestCountAgainstBig(t *testing.T) {
	edges := []uint64{0, 1, 2, 1 << 10, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<54 + 1, 1<<54 + 3, math.MaxInt64, 1 << 63, 1<<63 + 1<<10, math.MaxUint64, 1e19, 1e19 - 1}
	for _, hi := range edges {
		for _, lo := range edges {
			checkCount(t, hi, lo, lo, hi, int64(lo), int64(hi))
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	word := func() uint64 { return r.Uint64() >> r.IntN(64) }
	for range 50_000 {
		checkCount(t, word(), word(), word(), word(), int64(r.Uint64())>>r.IntN(64), int64(r.Uint64())>>r.IntN(64))
		if t.Failed() {
			return
		}
	}
}

func FuzzCount(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint64(3), uint64(4), int64(5), int64(-6))
	f.Add(uint64(1)<<63, uint64(1)<<10, uint64(math.MaxUint64), uint64(math.MaxUint64), int64(math.MaxInt64), int64(math.MinInt64))
	f.Fuzz(checkCount)
}

func TestZeroCount(t *testing.T) {
	var c attrvalue.Count
	if c.String() != "0" || !c.IsZero() || c.Float64() != 0 {
		t.Errorf("zero Count is %s, want 0", c)
	}
}

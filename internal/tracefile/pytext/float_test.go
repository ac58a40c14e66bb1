package pytext_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/tracefile/pytext"
)

func TestAppendFloat(t *testing.T) {
	for _, c := range []struct {
		f    float64
		want string
	}{
		{0, "0.0"}, {math.Copysign(0, -1), "-0.0"}, {5, "5.0"}, {0.1, "0.1"}, {-2.5, "-2.5"},
		{1e-4, "0.0001"}, {9.999e-5, "9.999e-05"}, {1e-5, "1e-05"}, {1.5e-300, "1.5e-300"},
		{1e15, "1000000000000000.0"}, {9999999999999998, "9999999999999998.0"}, {1e16, "1e+16"},
		{1.2345678901234568e17, "1.2345678901234568e+17"}, {1e100, "1e+100"},
		{1760000062.375, "1760000062.375"}, {410.82268656716417, "410.82268656716417"},
		{math.NaN(), "nan"}, {math.Inf(1), "inf"}, {math.Inf(-1), "-inf"},
	} {
		if got := string(pytext.AppendFloat(nil, c.f)); got != c.want {
			t.Errorf("%g: got %s, want %s", c.f, got, c.want)
		}
	}
}

func FuzzAppendFloat(f *testing.F) {
	for _, v := range []float64{0, 1, 0.1, 1e-5, 1e16, 9007199254740993, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		f.Add(math.Float64bits(v))
	}
	f.Fuzz(func(t *testing.T, bits uint64) {
		want := math.Float64frombits(bits)
		if math.IsNaN(want) || math.IsInf(want, 0) {
			return
		}
		text := string(pytext.AppendFloat(nil, want))
		got, err := strconv.ParseFloat(text, 64)
		if err != nil || math.Float64bits(got) != bits {
			t.Fatalf("%s reads back as %v, %v; want the same bits", text, got, err)
		}
		exponent := strings.Contains(text, "e")
		if abs := math.Abs(want); exponent != (abs != 0 && (abs < 1e-4 || abs >= 1e16)) {
			t.Fatalf("%s: want an exponent only below 1e-4 and from 1e16 on", text)
		}
		if !exponent && !strings.Contains(text, ".") {
			t.Fatalf("%s looks like an integer, want a point or an exponent", text)
		}
	})
}

package jsontext

import (
	"encoding/hex"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// Integers of any length are written in full, whatever the capacity of the
// buffer.
func TestIntegersOfEveryLength(t *testing.T) {
	check := func(v uint64) {
		t.Helper()
		for _, room := range []int{1, 64} {
			if got := string(AppendUint(make([]byte, 1, room), v)[1:]); got != strconv.FormatUint(v, 10) {
				t.Errorf("AppendUint(%d) = %s, want the digits", v, got)
			}
		}
	}
	for p := uint64(1); ; p *= 10 {
		check(p - 1)
		check(p)
		check(p + 1)
		check(p + p/2 + p/3)
		if p > math.MaxUint64/10 {
			break
		}
	}
	for bits := range 64 {
		check(1<<bits - 1)
		check(1 << bits)
	}
	check(math.MaxUint64)
	for _, v := range []int64{0, -1, -10_000, math.MinInt64, math.MaxInt64} {
		if got := string(AppendInt(nil, v)); got != strconv.FormatInt(v, 10) {
			t.Errorf("AppendInt(%d) = %s, want the digits", v, got)
		}
	}
}

func TestHex(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	if got, want := string(AppendHex([]byte("x"), all)), "x"+hex.EncodeToString(all); got != want {
		t.Errorf("AppendHex() = %s, want %s", got, want)
	}
}

// slowFloat is AppendFloat without the fast path.
func slowFloat(f float64) string {
	form := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		form = 'e'
	}
	s := strconv.FormatFloat(f, form, -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

func TestFloatsAreWrittenInTheirShortestForm(t *testing.T) {
	check := func(f float64) {
		t.Helper()
		if got, want := string(AppendFloat(nil, f)), slowFloat(f); got != want {
			t.Fatalf("%b is written %s, want %s", f, got, want)
		}
	}
	for _, f := range []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 0.0001, -0.0001, 0.00005, 0.0009765625, 99.9999, 1e10, 9999999999.9999,
		1e14, 1e15, 123456789012345.6, 0.1 + 0.2, math.MaxFloat64 / 4, math.SmallestNonzeroFloat64, 1.0 / 3, 100, 1e-5} {
		check(f)
		check(math.Nextafter(f, 0))
		check(math.Nextafter(f, f*2))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		check(float64(r.Int64N(1<<r.IntN(62))) / math.Pow10(r.IntN(7)))
		if f := math.Float64frombits(r.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			check(f)
		}
	}
}

func TestEveryByteIsEscapedWhereverItStands(t *testing.T) {
	for c := range 256 {
		for length := range 20 {
			for at := range length {
				b := []byte(strings.Repeat("a", length))
				b[at] = byte(c)
				if got, want := string(AppendEscaped(nil, string(b))), string(escapeFrom(nil, string(b), 0)); got != want {
					t.Fatalf("%q is written %s, want %s", b, got, want)
				}
			}
		}
	}
}

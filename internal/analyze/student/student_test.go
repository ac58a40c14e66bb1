package student_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/student"
	"gonum.org/v1/gonum/stat/distuv"
)

// TestQuantile checks values of printed tables.
func TestQuantile(t *testing.T) {
	for _, tt := range []struct{ p, nu, want float64 }{
		{0.5, 3, 0},
		{0.975, 1, 12.7062},
		{0.975, 2, 4.30265},
		{0.975, 10, 2.22814},
		{0.975, 30, 2.04227},
		{0.975, 120, 1.97993},
		{0.975, 1e6, 1.95997},
		{0.99, 1, 31.8205},
		{0.99, 5, 3.36493},
		{1, 4, math.Inf(1)},
	} {
		if got := student.Quantile(tt.p, tt.nu); got != tt.want && !(math.Abs(got-tt.want) < 1e-5*tt.want) {
			t.Errorf("Quantile(%g, %g) = %g, want %g", tt.p, tt.nu, got, tt.want)
		}
	}
}

// TestSurvival checks the degrees of freedom that have a closed form.
func TestSurvival(t *testing.T) {
	for _, x := range []float64{0, 0.01, 0.5, 1, 3, 50} {
		for nu, want := range map[float64]float64{1: 0.5 - math.Atan(x)/math.Pi, 2: 0.5 - x/math.Sqrt(2+x*x)/2} {
			if got := student.Survival(x, nu); math.Abs(got-want) > 1e-12 {
				t.Errorf("Survival(%g, %g) = %g, want %g", x, nu, got, want)
			}
		}
	}
}

// TestAsGonum compares with gonum's own distribution.
func TestAsGonum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		p, x, nu := 0.5+rng.Float64()/2, rng.ExpFloat64(), 0.5+100*rng.ExpFloat64()
		of := distuv.StudentsT{Sigma: 1, Nu: nu}
		if got, want := student.Quantile(p, nu), of.Quantile(p); got != want {
			t.Fatalf("Quantile(%g, %g) = %g, want %g", p, nu, got, want)
		}
		if got, want := student.Survival(x, nu), of.Survival(x); got != want {
			t.Fatalf("Survival(%g, %g) = %g, want %g", x, nu, got, want)
		}
	}
}

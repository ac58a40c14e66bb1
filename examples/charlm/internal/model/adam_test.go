package model_test

import (
	"math"
	"testing"

	"github.com/trainspan/trainspan/examples/charlm/internal/model"
)

// TestAdamFollowsItsEquations computes the published update in float64, with
// the bias corrections as in the paper.
func TestAdamFollowsItsEquations(t *testing.T) {
	a := model.NewAdam(2, 0.01)
	params := []float32{1, -2}
	want := []float64{1, -2}
	var m, v [2]float64
	for step := 1; step <= 50; step++ {
		grads := []float32{float32(math.Sin(float64(step))), 0.001 * float32(step)}
		if err := a.Update(params, grads); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			g := float64(grads[i])
			m[i] = 0.9*m[i] + 0.1*g
			v[i] = 0.999*v[i] + 0.001*g*g
			mHat := m[i] / (1 - math.Pow(0.9, float64(step)))
			vHat := v[i] / (1 - math.Pow(0.999, float64(step)))
			want[i] -= 0.01 * mHat / (math.Sqrt(vHat) + 1e-8)
			if math.Abs(float64(params[i])-want[i]) > 1e-5 {
				t.Fatalf("step %d: weight %d is %g, want %g", step, i, params[i], want[i])
			}
		}
	}
	if a.Step != 50 {
		t.Errorf("counted %d steps, want 50", a.Step)
	}
	if err := a.Update(params[:1], []float32{0, 0}); err == nil {
		t.Error("a slice of the wrong length was accepted")
	}
}

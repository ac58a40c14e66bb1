package model

import (
	"fmt"
	"math"
)

// Adam is the optimizer with its two running moments. The moments and the step
// count are its whole state: restoring them continues a run exactly.
type Adam struct {
	LR, Beta1, Beta2, Eps float64

	M, V []float32 // running mean of the gradient and of its square
	Step int64     // updates done so far
}

// NewAdam returns an optimizer for params weights with the usual constants.
func NewAdam(params int, lr float64) *Adam {
	return &Adam{
		LR: lr, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8,
		M: make([]float32, params), V: make([]float32, params),
	}
}

// Update moves params against grads by one step.
func (a *Adam) Update(params, grads []float32) error {
	if len(params) != len(a.M) || len(grads) != len(a.M) {
		return fmt.Errorf("model: adam for %d weights got %d weights and %d gradients", len(a.M), len(params), len(grads))
	}
	a.Step++
	// Both bias corrections are part of the rate and the epsilon. They depend only
	// on Step, so that a resumed run gets the same bits.
	c1 := 1 - math.Pow(a.Beta1, float64(a.Step))
	c2 := math.Sqrt(1 - math.Pow(a.Beta2, float64(a.Step)))
	rate, eps := float32(a.LR*c2/c1), float32(a.Eps*c2)
	b1, b2 := float32(a.Beta1), float32(a.Beta2)
	m, v := a.M[:len(params)], a.V[:len(params)]
	grads = grads[:len(params)]
	for i, g := range grads {
		m[i] = b1*m[i] + (1-b1)*g
		v[i] = b2*v[i] + (1-b2)*g*g
		params[i] -= rate * m[i] / (float32(math.Sqrt(float64(v[i]))) + eps)
	}
	return nil
}

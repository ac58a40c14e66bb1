// Package student implements Student's t distribution. It takes only the
// incomplete beta function from gonum's mathext: gonum's stat/distuv depends on
// packages for matrices, which take a twentieth of the build time of the
// command.
package student

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Quantile returns the value that a variable with nu degrees of freedom does
// not exceed with probability p, from 0.5 to 1.
func Quantile(p, nu float64) float64 {
	x := mathext.InvRegIncBeta(nu/2, 0.5, 2*(1-p))
	return math.Sqrt(nu * (1 - x) / x)
}

// Survival returns the probability that a variable with nu degrees of freedom
// exceeds t, which must be at least 0.
func Survival(t, nu float64) float64 {
	return 0.5 * mathext.RegIncBeta(nu/2, 0.5, nu/(t*t+nu))
}

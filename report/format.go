package report

import (
	"github.com/trainspan/trainspan/internal/human"
)

// known is percent, and a word where there is no number.
func known(x *float64) string {
	if x == nil {
		return "unknown"
	}
	return human.Percent(*x)
}

package pytorch_test

import (
	"bytes"

	"github.com/trainspan/trainspan/internal/trainsim"
)

const (
	sharedTraces = "../../../shared/data/kineto/"
	testBase     = trainsim.ProfileBase
)

// generated returns a relative trace with n operators, each launching a
// kernel, in steps of a thousand operators.
func generated(n int, rank int) []byte {
	var b bytes.Buffer
	trainsim.WriteProfile(&b, n, rank)
	return b.Bytes()
}

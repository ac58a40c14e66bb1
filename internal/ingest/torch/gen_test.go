package torch_test

import (
	"bytes"

	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

const (
	sharedTraces = "../../../../shared/data/kineto/"
	testBase     = simjob.ProfileBase
)

// generated returns a relative trace with n operators, each launching a kernel,
// in steps of a thousand operators.
func generated(n int, rank int) []byte {
	var b bytes.Buffer
	simjob.WriteProfile(&b, n, rank)
	return b.Bytes()
}

package kineto_test

import (
	"fmt"
	"io"
)

// writeGenerated writes a relative trace of n operators, launches and kernels.
func writeGenerated(w io.Writer, n int) {
	fmt.Fprintf(w, "\n{\n  \"schemaVersion\": 1,\n  \"baseTimeNanoseconds\": 1775078550000000000,\n  \"traceEvents\": [\n")
	for i := range n {
		if i > 0 {
			io.WriteString(w, ",\n")
		}
		ts := 4203669604595.407 + float64(i)*10
		switch i % 3 {
		case 0:
			fmt.Fprintf(w, `  {
    "ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 4711, "tid": 4711,
    "ts": %.3f, "dur": 28.125,
    "args": {
      "External id": %d,"Record function id": 0, "Concrete Inputs": ["", "", ""], "Input type": ["float", "float", "float"], "Input Dims": [[128], [5, 128], [128, 128]], "Ev Idx": %d
    }
  }`, ts, i, i)
		case 1:
			fmt.Fprintf(w, `  {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4711, "tid": 4711,
    "ts": %.3f, "dur": 4.250,
    "args": {
      "External id": %d,"cbid": 211, "correlation": %d
    }
  }`, ts, i-1, i)
		default:
			fmt.Fprintf(w, `  {
    "ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)", "pid": 0, "tid": 7,
    "ts": %.3f, "dur": 9.001,
    "args": {
      "External id": %d,"queued": 0, "device": 0, "context": 1,
      "stream": 7, "correlation": %d,
      "registers per thread": 16, "shared memory": 0, "blocks per SM": 0.3, "warps per SM": 1.2,
      "grid": [24, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %%": 2
    }
  }`, ts, i-2, i-1)
		}
	}
	fmt.Fprintf(w, "\n  ],\n  \"traceName\": \"/tmp/x.json\"\n}\n")
}

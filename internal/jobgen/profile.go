package jobgen

import (
	"fmt"
	"io"
)

// ProfileBase is the time of day, in nanoseconds, that those of a profile count from.
const ProfileBase = int64(1775078550000000000)

// WriteProfile writes a profile of PyTorch with n operators, each launching a kernel,
// in steps of a thousand operators: 3 n events, about 900 bytes each operator.
// It does not look at errors of w.
func WriteProfile(w io.Writer, n, rank int) {
	fmt.Fprintf(w, "{\n  \"schemaVersion\": 1,\n  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, \"world_size\": 2},\n  \"baseTimeNanoseconds\": %d,\n  \"traceEvents\": [\n", rank, ProfileBase)
	us := func(ns int64) string { return fmt.Sprintf("%d.%03d", ns/1000, ns%1000) }
	t := int64(4203669604595407)
	const perStep = 1000
	for i := range n {
		ts := t + int64(i)*50_000
		if i%perStep == 0 {
			fmt.Fprintf(w, "  {\n    \"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%d\", \"pid\": 4711, \"tid\": 4711,\n    \"ts\": %s, \"dur\": %s,\n    \"args\": {\n      \"External id\": 1\n    }\n  },\n",
				i/perStep+3, us(ts-10_000), us(perStep*50_000-20_000))
		}
		fmt.Fprintf(w, "  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::addmm\", \"pid\": 4711, \"tid\": 4711,\n    \"ts\": %s, \"dur\": 28.125,\n    \"args\": {\n      \"External id\": %d,\"Sequence number\": %d, \"Fwd thread id\": 0, \"Input type\": [\"float\", \"float\", \"float\"], \"Input Dims\": [[128], [5, 128], [128, 128]], \"Ev Idx\": %d\n    }\n  },\n",
			us(ts), i, i, i)
		fmt.Fprintf(w, "  {\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 4711, \"tid\": 4711,\n    \"ts\": %s, \"dur\": 4.250,\n    \"args\": {\n      \"External id\": %d,\"cbid\": 211, \"correlation\": %d\n    }\n  },\n",
			us(ts+5_000), i, i+1)
		sep := ","
		if i == n-1 {
			sep = ""
		}
		fmt.Fprintf(w, "  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void gemm<128, 64>(int)\", \"pid\": 0, \"tid\": 7,\n    \"ts\": %s, \"dur\": 20.001,\n    \"args\": {\n      \"External id\": %d,\"queued\": 0, \"device\": 0, \"context\": 1,\n      \"stream\": 7, \"correlation\": %d,\n      \"registers per thread\": 16, \"grid\": [24, 1, 1], \"block\": [128, 1, 1]\n    }\n  }%s\n",
			us(ts+12_000), i, i+1, sep)
	}
	_, _ = io.WriteString(w, "  ],\n  \"traceName\": \"/tmp/x.json\"\n}\n")
}

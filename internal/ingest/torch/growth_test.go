package torch_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// row writes a row of a profile.
func row(b *bytes.Buffer, cat, name string, tid, ts, dur int, args string) {
	fmt.Fprintf(b, `{"ph":"X","cat":%q,"name":%q,"pid":1,"tid":%d,"ts":%d,"dur":%d,"args":{%s}},`, cat, name, tid, ts, dur, args)
}

// profile returns a profile of one rank that fill writes.
func profile(rank int, fill func(b *bytes.Buffer)) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"distributedInfo":{"rank":%d,"world_size":-1},"baseTimeNanoseconds":%d,"traceEvents":[`, rank, testBase)
	fill(&b)
	b.WriteString(`{"ph":"M","name":"end"}]}`)
	return b.Bytes()
}

// shapes are profiles with n items of one kind, as the sources of an import.
var shapes = map[string]func(n int) [][]byte{
	"nested operators": func(n int) [][]byte {
		return one(func(b *bytes.Buffer) {
			for i := range n {
				row(b, "cpu_op", "aten::op", 1, i, 2*n-2*i, "")
			}
		})
	},
	"runtime calls below frames": func(n int) [][]byte { // and many at the bottom
		return one(func(b *bytes.Buffer) {
			for i := range n {
				row(b, "python_function", "f.py(1): f", 1, i, 4*n-2*i, "")
			}
			for i := range n {
				row(b, "cuda_runtime", "cudaLaunchKernel", 1, n+2*i%(n), 1, fmt.Sprintf(`"correlation":%d`, i+1))
				row(b, "user_annotation", "mine", 1, n+i, 1, "")
				row(b, "python_function", "nn.Module: X", 1, n+i, 1, "")
			}
		})
	},
	"overlapping rows": func(n int) [][]byte {
		return one(func(b *bytes.Buffer) {
			for i := range n {
				row(b, "cpu_op", "aten::op", 1, i, n, "")
				row(b, "kernel", "k", 7, i, n, `"device":0,"stream":7`)
			}
		})
	},
	"begins without an end": func(n int) [][]byte {
		return one(func(b *bytes.Buffer) {
			for i := range n {
				fmt.Fprintf(b, `{"ph":"B","cat":"cpu_op","name":"a","pid":1,"tid":%d,"ts":%d},`, i, i)
			}
		})
	},
	"names": func(n int) [][]byte {
		return one(func(b *bytes.Buffer) {
			for i := range n {
				row(b, "cpu_op", fmt.Sprintf("aten::op%d", i), 1, 3*i, 1, "")
				row(b, fmt.Sprintf("cat%d", i), fmt.Sprintf("annotation %d", i), 1, 3*i, 2, "")
			}
		})
	},
	"processes and threads": func(n int) [][]byte {
		return one(func(b *bytes.Buffer) {
			for i := range n {
				fmt.Fprintf(b, `{"ph":"X","cat":"cpu_op","name":"aten::op","pid":%d,"tid":%d,"ts":%d,"dur":1,"args":{"Sequence number":%d}},`, i, i, 5*i, i)
				fmt.Fprintf(b, `{"ph":"X","cat":"user_annotation","name":"forward","pid":%d,"tid":%d,"ts":%d,"dur":1},`, i, i, 5*i)
				fmt.Fprintf(b, `{"ph":"X","cat":"cpu_op","name":"autograd::engine::evaluate_function: X","pid":2,"tid":2,"ts":%d,"dur":1,"args":{}},`, 5000*i)
				fmt.Fprintf(b, `{"ph":"X","cat":"kernel","name":"k","pid":%d,"tid":%d,"ts":%d,"dur":1,"args":{"device":%d,"stream":%d,"correlation":%d}},`, i, i, 5*i, i, i, i+1)
				fmt.Fprintf(b, `{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":%d,"tid":%d,"ts":%d,"dur":1,"args":{"correlation":%d}},`, i, i, 5*i, i+1)
			}
		})
	},
	"links of forward and backward": func(n int) [][]byte {
		return one(func(b *bytes.Buffer) {
			for i := range n {
				row(b, "cpu_op", "aten::op", 1, 10*i, 1, fmt.Sprintf(`"Sequence number":%d`, i/3))
				row(b, "cpu_op", "autograd::engine::evaluate_function: X", 2, 20*n+10*i, 5, fmt.Sprintf(`"Sequence number":%d,"Fwd thread id":1`, i/3))
				row(b, "cuda_runtime", "cudaLaunchKernel", 1, 10*i, 1, fmt.Sprintf(`"correlation":%d`, i/3+1))
				row(b, "kernel", "k", 7, 10*i, 1, fmt.Sprintf(`"device":0,"stream":7,"correlation":%d`, i/3+1))
			}
		})
	},
	"steps": func(n int) [][]byte {
		return one(func(b *bytes.Buffer) {
			for i := range n {
				row(b, "user_annotation", fmt.Sprintf("ProfilerStep#%d", i), 1, 100*i, 90, "")
				row(b, "kernel", "k", 7, 100*i+1, 10, `"device":0,"stream":7`)
			}
		})
	},
	"defects": func(n int) [][]byte {
		return one(func(b *bytes.Buffer) { b.WriteString(strings.Repeat(`{"ph":[`, 20*n)) })
	},
	"collectives": func(n int) (files [][]byte) {
		for rank := range 4 {
			files = append(files, profile(rank, func(b *bytes.Buffer) {
				for i := range n {
					collective(b, i, i%100+rank, `"0"`)
				}
			}))
		}
		return files
	},
	"process groups": func(n int) (files [][]byte) {
		for rank := range 4 {
			files = append(files, profile(rank, func(b *bytes.Buffer) {
				for i := range n {
					collective(b, i, i%100+rank, fmt.Sprintf(`"%d"`, i))
				}
			}))
		}
		return files
	},
	"sends": func(n int) (files [][]byte) {
		for rank := range 4 {
			files = append(files, profile(rank, func(b *bytes.Buffer) {
				for i := range n {
					row(b, "kernel", "ncclDevKernel_SendRecv", 7, 10*i, 5, fmt.Sprintf(`"device":0,"stream":7,"Collective name":%q,"Process Group Name":"0","Src Rank":%d,"Dst Rank":%d,"Group size":4`,
						[]string{"send", "recv"}[(i+rank)%2], rank, (rank+1+i%3)%4))
				}
			}))
		}
		return files
	},
	"ranks": func(n int) (files [][]byte) {
		for rank := range n / 40 {
			files = append(files, profile(rank, func(b *bytes.Buffer) {
				fmt.Fprintf(b, `{"ph":"M","name":"x"},`)
				for i := range 10 {
					row(b, "user_annotation", fmt.Sprintf("ProfilerStep#%d", i), 1, 1000*i, 900, "")
					collective(b, i, i+rank%7, `"0"`)
				}
			}))
		}
		return files
	},
	"compile log": func(n int) [][]byte {
		var log bytes.Buffer
		rec := func(env, payload string) {
			fmt.Fprintf(&log, "V0822 14:00:48.902000 100 file.py:12] {%s, \"frame_id\": 0, \"frame_compile_id\": 0}\n", env)
			for _, line := range strings.Split(payload, "\n") {
				log.WriteString("\t" + line + "\n")
			}
		}
		var graph strings.Builder
		for i := range n {
			fmt.Fprintf(&graph, "    mul_%d: f32 = torch.ops.aten.mul.T%d(a)\n    x%d = torch.ops.aten.op%d.default(a)\n", i, i%2, i, i)
		}
		rec(`"aot_forward_graph": {}`, graph.String())
		rec(`"aot_backward_graph": {}`, graph.String())
		rec(`"aot_inference_graph": {}`, graph.String())
		var kernels strings.Builder
		kernels.WriteString(`{"cppCodeToPost": {"x": ["a"]`)
		for i := range n {
			fmt.Fprintf(&kernels, `, "triton_poi_fused_%d:1": ["n%d"]`, i, i)
		}
		rec(`"artifact": {"name": "inductor_provenance_tracking_node_mappings"}`, kernels.String()+"}}")
		for i := range n {
			rec(`"chromium_event": {}`, fmt.Sprintf(`{"name": "p%d", "ts": %d, "ph": "B"}`, i, i))
		}
		return append(one(func(b *bytes.Buffer) {
			row(b, "cpu_op", "Torch-Compiled Region: 0/0", 1, 0, 10*n, "")
			for i := range n {
				row(b, "cpu_op", "aten::mul", 1, 10*i, 1, "")
				row(b, "cpu_op", fmt.Sprintf("aten::op%d", i), 1, 10*i+2, 1, "")
				row(b, "cpu_op", fmt.Sprintf("triton_poi_fused_%d", i), 1, 10*i+4, 1, "")
			}
			for i := range n {
				row(b, "cpu_op", "CompiledFunctionBackward", 1, 20*n+10*i, 9, "")
				row(b, "cpu_op", fmt.Sprintf("aten::op%d", i), 1, 20*n+10*i+2, 1, "")
			}
		}), log.Bytes())
	},
}

func one(fill func(b *bytes.Buffer)) [][]byte { return [][]byte{profile(0, fill)} }

// collective writes an all-reduce that begins late and ends with the others.
func collective(b *bytes.Buffer, i, late int, group string) {
	row(b, "kernel", "ncclDevKernel_AllReduce_Sum", 7, 1000*i+late, 500-late, fmt.Sprintf(`"device":0,"stream":7,"Collective name":"allreduce","Process Group Name":%s,"In msg nelems":%d,"dtype":"Float"`, group, i%7))
}

func importShape(t testing.TB, files [][]byte) *torch.Report {
	t.Helper()
	var sources []torch.Source
	for i, data := range files {
		sources = append(sources, fromBytes(fmt.Sprintf("%d.json", i), data))
	}
	o := &torch.Options{
		PythonStacks: true, TempDir: t.TempDir(),
		Spans: &torch.SpanOptions{Exporter: tracetest.NewNoopExporter(), Level: torch.LevelAnnotation, Budget: -1},
	}
	rep, err := torch.Import(context.Background(), &nullSink{}, sources, o)
	if err != nil {
		t.Fatal(err)
	}
	_ = rep.String()
	return rep
}

func TestGrowth(t *testing.T) {
	const n = 400
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			files := map[int][][]byte{n: shape(n), 16 * n: shape(16 * n)}
			growth.Allocated(t, n, func(n int) { importShape(t, files[n]) })
		})
	}
}

func BenchmarkGrowth(b *testing.B) {
	const n = 1000
	for name, shape := range shapes {
		b.Run(name, func(b *testing.B) {
			files := map[int][][]byte{n: shape(n), 16 * n: shape(16 * n)}
			growth.Bench(b, n, func(n int) { importShape(b, files[n]) })
		})
	}
}

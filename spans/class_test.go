package spans_test

import (
	"testing"

	"github.com/trainspan/trainspan/spans"
)

// What a span means by its category and name in a trace file, in the words of
// each vocabulary.
func TestOf(t *testing.T) {
	for _, c := range []struct {
		category, event string
		want            spans.Meaning
	}{
		// ours, and DFTracer's AI logging
		{"ai_root", "ai_root", spans.Meaning{Name: spans.Application, Class: spans.ClassFrame}},
		{"pipeline", "train", spans.Meaning{Name: spans.TrainingLoop, Class: spans.ClassFrame}},
		{"pipeline", "train.iteration", spans.Meaning{Name: spans.TrainingIteration, Class: spans.ClassStep}},
		{"Pipeline", "train.iteration", spans.Meaning{Name: spans.TrainingIteration, Class: spans.ClassStep}},
		{"pipeline", "epoch.block", spans.Meaning{Name: spans.Epoch, Class: spans.ClassFrame}},
		{"pipeline", "epoch", spans.Meaning{Name: "epoch", Class: spans.ClassFrame}},
		{"pipeline", "train.iter", spans.Meaning{Name: "train.iter", Class: spans.ClassInputWait}},
		{"pipeline", "train.block", spans.Meaning{Name: "train.block", Class: spans.ClassBody}},
		{"pipeline", "evaluate", spans.Meaning{Name: spans.ValidationLoop, Class: spans.ClassEvaluation}},
		{"pipeline", "evaluate.block", spans.Meaning{Name: "evaluate.block", Class: spans.ClassEvaluation}},
		{"pipeline", "test.block", spans.Meaning{Name: "test.block", Class: spans.ClassTesting}},
		{"compute", "forward", spans.Meaning{Name: spans.ModelForward, Class: spans.ClassForward}},
		{"compute", "step.zero_grad", spans.Meaning{Name: spans.ZeroGrad, Class: spans.ClassOptimizer}},
		{"compute", "step", spans.Meaning{Name: spans.OptimizerUpdate, Class: spans.ClassOptimizer}},
		{"compute", "compute", spans.Meaning{Name: "compute", Class: spans.ClassCompute}},
		{"compute", "encoder.init", spans.Meaning{Name: "encoder.init", Class: spans.ClassInit}},
		{"ai_framework", "TorchFramework.compute", spans.Meaning{Name: "TorchFramework.compute", Class: spans.ClassCompute}},
		{"dataloader", "fetch.iter", spans.Meaning{Name: spans.DataLoading, Class: spans.ClassInputWait}},
		{"dataloader", "fetch.block", spans.Meaning{Name: "fetch.block", Class: spans.ClassBody}},
		{"dataloader", "fetch", spans.Meaning{Name: "fetch", Class: spans.ClassInputWait}},
		{"data_loader", "loop.iter", spans.Meaning{Name: "loop.iter", Class: spans.ClassInputWait}},
		{"data_loader", "loop.yield", spans.Meaning{Name: "loop.yield", Class: spans.ClassBody}},
		{"data", "preprocess", spans.Meaning{Name: "preprocess", Class: spans.ClassInputWork}},
		{"checkpoint", "capture.x", spans.Meaning{Name: "capture.x", Class: spans.ClassCheckpointSave}},
		{"checkpoint", "restart", spans.Meaning{Name: spans.CheckpointLoad, Class: spans.ClassCheckpointLoad}},
		{"checkpoint", "init", spans.Meaning{Name: "init", Class: spans.ClassInit}},
		{"comm", "comm.init", spans.Meaning{Name: spans.DistributedInit, Class: spans.ClassCommInit}},
		{"comm", "all_reduce", spans.Meaning{Name: "all_reduce", Class: spans.ClassCollective, Kind: "all_reduce"}},
		{"comm", "wait", spans.Meaning{Name: "wait", Class: spans.ClassCollective, Kind: "wait"}},
		{"comm", "p2p.recv_forward", spans.Meaning{Name: "p2p.recv_forward", Class: spans.ClassCollective}},
		// copies and work of a device share a category
		{"device", "transfer", spans.Meaning{Name: "transfer", Class: spans.ClassTransfer}},
		{"device", "backward", spans.Meaning{Name: "backward", Class: spans.ClassDeviceWork, For: spans.ClassBackward}},
		{"device", "wait", spans.Meaning{Name: "wait", Class: spans.ClassDeviceWork, For: spans.ClassCollective, Kind: "wait"}},
		// profiles of PyTorch, as imported and as they are
		{"pipeline", "ProfilerStep#12", spans.Meaning{Name: "ProfilerStep#12", Class: spans.ClassStep}},
		{"PP", "aten::mm", spans.Meaning{Name: "aten::mm", Class: spans.ClassDetail}},
		{"dynamo", "compile.backend", spans.Meaning{Name: "compile.backend", Class: spans.ClassCompile}},
		{"kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", spans.Meaning{Name: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
			Class: spans.ClassDeviceWork, For: spans.ClassCollective}},
		{"gpu_memcpy", "Memcpy HtoD", spans.Meaning{Name: "Memcpy HtoD", Class: spans.ClassTransfer}},
		// calls that DFTracer intercepts
		{"POSIX", "read", spans.Meaning{Name: "read", Class: spans.ClassIO}},
		{"STDIO", "fopen", spans.Meaning{Name: "fopen", Class: spans.ClassIO}},
		{"MPI", "MPI_Allreduce", spans.Meaning{Name: "MPI_Allreduce", Class: spans.ClassCollective, Kind: "all_reduce"}},
		{"mpi", "MPI_Comm_rank", spans.Meaning{Name: "MPI_Comm_rank", Class: spans.ClassDetail}},
		// JSON lines have no categories
		{"", "training_loop", spans.Meaning{Name: spans.TrainingLoop, Class: spans.ClassFrame}},
		{"", "all_reduce", spans.Meaning{Name: "all_reduce", Class: spans.ClassCollective, Kind: "all_reduce"}},
		{"", "reduce_learning_rate", spans.Meaning{Name: "reduce_learning_rate"}},
		{"", "graph_compile", spans.Meaning{Name: "graph_compile", Class: spans.ClassCompile}},
		{"my.library", "forward", spans.Meaning{Name: "forward"}},
	} {
		got := spans.Of(c.category, c.event)
		got.Holds, got.Step = false, spans.StepNone // TestHolds, TestStepRules
		if got != c.want {
			t.Errorf("%s/%s is %+v, want %+v", c.category, c.event, got, c.want)
		}
	}
}

// Every standard span means the same by either of its names.
func TestStandardSpansMeanOneThing(t *testing.T) {
	var book spans.Book
	for _, info := range spans.All() {
		want := spans.Meaning{Name: info.Name, Class: info.Class, Step: info.Step, Holds: info.Long}
		if info.Class == spans.ClassStartUp {
			want.Kind = info.Event
		}
		for _, got := range []spans.Meaning{spans.Of(info.Category, info.Event), spans.Of("", info.Name), *book.Of(info.Category, info.Event), *book.Of("", info.Name)} {
			if got != want {
				t.Errorf("%s is %+v, want %+v", info.Name, got, want)
			}
		}
		if info.Class == spans.ClassOther {
			t.Errorf("%s has no class", info.Name)
		}
	}
}

// TestStepRules: which spans may be training steps, or mark them.
func TestStepRules(t *testing.T) {
	for _, c := range []struct {
		category, event string
		want            spans.StepRule
	}{
		{"pipeline", "train.iteration", spans.StepIteration},
		{"", spans.TrainingIteration, spans.StepIteration},
		{"pipeline", "iteration", spans.StepIteration},
		{"pipeline", "evaluate.iteration", spans.StepNone},
		{"pipeline", "ProfilerStep#7", spans.StepProfiler},
		{"pipeline", "ProfilerStep*", spans.StepProfiler},
		{"PP", "ProfilerStep#7", spans.StepNone}, // the operator below it
		{"dataloader", "fetch.block", spans.StepBody},
		{"data_loader", "TorchDataLoader.yield", spans.StepBody},
		{"data", "item.block", spans.StepBody},
		{"ai_framework", "TorchFramework.compute", spans.StepCompute},
		{"compute", "compute", spans.StepNone},
		{"dataloader", "fetch.iter", spans.StepNone},
		{"pipeline", "epoch.block", spans.StepNone},
		{"compute", "forward.block", spans.StepNone},
		{"compute", "step", spans.StepOptimizer},
		{"", spans.OptimizerUpdate, spans.StepOptimizer},
		{"compute", "step.zero_grad", spans.StepNone},
		{"device", "step", spans.StepNone},
	} {
		if got := spans.Of(c.category, c.event).Step; got != c.want {
			t.Errorf("%s/%s: %s, want %s", c.category, c.event, got, c.want)
		}
	}
	for name, want := range map[string]int64{"ProfilerStep#0": 0, "ProfilerStep#12": 12, "ProfilerStep*": -1, "ProfilerStep#-3": -1, "step#1": -1} {
		if n, ok := spans.ProfilerStepNumber(name); ok != (want >= 0) || ok && n != want {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
	}
}

func TestBookIsBounded(t *testing.T) {
	var book spans.Book
	name := make([]byte, 0, 16)
	for i := range 1 << 16 {
		name = append(name[:0], "op"...)
		for n := i; n > 0; n /= 10 {
			name = append(name, byte('0'+n%10))
		}
		if m := book.Of("compute", string(name)); m.Class != spans.ClassCompute {
			t.Fatalf("%s is %+v", name, m)
		}
	}
	if got := testing.AllocsPerRun(100, func() { book.Of("compute", "op1"); book.Of("compute", "op2") }); got != 0 {
		t.Errorf("%v allocations for names that are known", got)
	}
}

func TestTraceName(t *testing.T) {
	for _, c := range []struct {
		scope, name, category, event string
		wantCategory, wantEvent      string
	}{
		{"trainspan", spans.ModelForward, "", "", "compute", "forward"},
		{"trainspan", spans.ModelForward, "mine", "", "mine", "forward"},
		{"trainspan", spans.ModelForward, "", "f", "compute", "f"},
		{"trainspan", spans.ModelForward, "mine", "f", "mine", "f"},
		{"opentelemetry.instrumentation.requests", "GET", "", "", "requests", "GET"},
		{"github.com/x/y", "GET", "", "get", "y", "get"},
		{"", "GET", "", "", "otel", "GET"},
		{"go.opentelemetry.io/otel/sdk/tracer", "GET", "", "", "otel", "GET"},
		{"example.com/dftracer", "start", "", "", "dftracer.app", "start"},
		{"x", "start", "DFTracer", "", "DFTracer.app", "start"},
	} {
		if cat, event := spans.TraceName(c.scope, c.name, c.category, c.event); cat != c.wantCategory || event != c.wantEvent {
			t.Errorf("%+v is %s/%s", c, cat, event)
		}
	}
}

func TestCollectiveKind(t *testing.T) {
	for name, want := range map[string]string{
		"all_reduce": "all_reduce", "allreduce": "all_reduce", "nccl:all_reduce": "all_reduce", "_allgather_base": "all_gather", "MPI_Alltoall": "all_to_all",
		"reduce_scatter_tensor": "reduce_scatter", "broadcast": "bcast", "MPI_Bcast": "bcast", "c10d::barrier": "barrier", "recv": "receive", "isend": "send",
		"reduce": "reduce", "sendrecv": "", "init": "", "": "", "p2p.send_forward": "",
	} {
		if got := spans.CollectiveKind(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestHolds(t *testing.T) {
	for name, want := range map[[2]string]bool{
		{"ai_root", "ai_root"}: true, {"pipeline", "train"}: true, {"pipeline", "epoch.block"}: true, {"pipeline", "epoch.iter"}: true, {"dataloader", "fetch.block"}: true,
		{"pipeline", "evaluate"}: true, {"pipeline", "evaluate.iteration"}: false, {"pipeline", "evaluate.block"}: true, {"PP", "ProfilerStep#3"}: true,
		{"pipeline", "train.iteration"}: false, {"pipeline", "iteration"}: false, {"compute", "forward"}: false, {"comm", "all_reduce"}: false, {"PP", "aten::mm"}: false,
	} {
		if got := spans.Of(name[0], name[1]).Holds; got != want {
			t.Errorf("%v: %v", name, got)
		}
	}
}

// Rows of a device mean what the import found them to be; older imports mark
// collectives, or have only their names.
func TestOnDevice(t *testing.T) {
	for _, c := range []struct {
		kind, class, name string
		collective        bool
		want, of          spans.Class
	}{
		{"kernel", "", "gemm", false, spans.ClassDeviceWork, spans.ClassCompute},
		{"kernel", "compute", "gemm", false, spans.ClassDeviceWork, spans.ClassCompute},
		{"kernel", "", "ncclDevKernel_AllReduce", false, spans.ClassDeviceWork, spans.ClassCollective},
		{"kernel", "", "userbuffers_x", true, spans.ClassDeviceWork, spans.ClassCollective},
		{"kernel", "comm", "deep_ep::x", false, spans.ClassDeviceWork, spans.ClassCollective},
		{"kernel", "copy", "fill", false, spans.ClassTransfer, spans.ClassOther},
		{"gpu_memcpy", "", "Memcpy HtoD", false, spans.ClassTransfer, spans.ClassOther},
		{"gpu_memcpy", "comm", "symm_mem_copy", false, spans.ClassDeviceWork, spans.ClassCollective},
		{"gpu_memset", "", "Memset", false, spans.ClassTransfer, spans.ClassOther},
		{"device", "", "a program of an accelerator", false, spans.ClassDeviceWork, spans.ClassCompute},
	} {
		m, ok := spans.OnDevice(c.kind, c.class, c.name, c.collective)
		if !ok || m.Class != c.want || m.For != c.of || m.Name != c.name {
			t.Errorf("%+v is %+v, %v", c, m, ok)
		}
	}
	for _, kind := range []string{"", "cuda_runtime", "cpu_op", "device_range"} {
		if m, ok := spans.OnDevice(kind, "copy", "cudaMemcpyAsync", false); ok {
			t.Errorf("%q is %+v", kind, m)
		}
	}
}

package vocab_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// The meaning of spans by category and name in a trace file, for each
// vocabulary.
func TestOf(t *testing.T) {
	for _, c := range []struct {
		category, event string
		want            vocab.Meaning
	}{
		// our spans, and those of DFTracer's AI logging
		{"ai_root", "ai_root", vocab.Meaning{Name: spans.Application, Class: vocab.ClassFrame}},
		{"pipeline", "train", vocab.Meaning{Name: spans.TrainingLoop, Class: vocab.ClassFrame}},
		{"pipeline", "train.iteration", vocab.Meaning{Name: spans.TrainingIteration, Class: vocab.ClassStep}},
		{"Pipeline", "train.iteration", vocab.Meaning{Name: spans.TrainingIteration, Class: vocab.ClassStep}},
		{"pipeline", "epoch.block", vocab.Meaning{Name: spans.Epoch, Class: vocab.ClassFrame}},
		{"pipeline", "epoch", vocab.Meaning{Name: "epoch", Class: vocab.ClassFrame}},
		{"pipeline", "train.iter", vocab.Meaning{Name: "train.iter", Class: vocab.ClassInputWait}},
		{"pipeline", "train.block", vocab.Meaning{Name: "train.block", Class: vocab.ClassBody}},
		{"pipeline", "evaluate", vocab.Meaning{Name: spans.ValidationLoop, Class: vocab.ClassEvaluation}},
		{"pipeline", "evaluate.block", vocab.Meaning{Name: "evaluate.block", Class: vocab.ClassEvaluation}},
		{"pipeline", "test.block", vocab.Meaning{Name: "test.block", Class: vocab.ClassTesting}},
		{"compute", "forward", vocab.Meaning{Name: spans.ModelForward, Class: vocab.ClassForward}},
		{"compute", "step.zero_grad", vocab.Meaning{Name: spans.ZeroGrad, Class: vocab.ClassOptimizer}},
		{"compute", "step", vocab.Meaning{Name: spans.OptimizerUpdate, Class: vocab.ClassOptimizer}},
		{"compute", "compute", vocab.Meaning{Name: "compute", Class: vocab.ClassCompute}},
		{"compute", "encoder.init", vocab.Meaning{Name: "encoder.init", Class: vocab.ClassInit}},
		{"ai_framework", "TorchFramework.compute", vocab.Meaning{Name: "TorchFramework.compute", Class: vocab.ClassCompute}},
		{"dataloader", "fetch.iter", vocab.Meaning{Name: spans.DataLoading, Class: vocab.ClassInputWait}},
		{"dataloader", "fetch.block", vocab.Meaning{Name: "fetch.block", Class: vocab.ClassBody}},
		{"dataloader", "fetch", vocab.Meaning{Name: "fetch", Class: vocab.ClassInputWait}},
		{"data_loader", "loop.iter", vocab.Meaning{Name: "loop.iter", Class: vocab.ClassInputWait}},
		{"data_loader", "loop.yield", vocab.Meaning{Name: "loop.yield", Class: vocab.ClassBody}},
		{"data", "preprocess", vocab.Meaning{Name: "preprocess", Class: vocab.ClassInputWork}},
		{"checkpoint", "capture.x", vocab.Meaning{Name: "capture.x", Class: vocab.ClassCheckpointSave}},
		{"checkpoint", "restart", vocab.Meaning{Name: spans.CheckpointLoad, Class: vocab.ClassCheckpointLoad}},
		{"checkpoint", "init", vocab.Meaning{Name: "init", Class: vocab.ClassInit}},
		{"comm", "comm.init", vocab.Meaning{Name: spans.DistributedInit, Class: vocab.ClassCommInit}},
		{"comm", "all_reduce", vocab.Meaning{Name: "all_reduce", Class: vocab.ClassCollective, Kind: "all_reduce"}},
		{"comm", "wait", vocab.Meaning{Name: "wait", Class: vocab.ClassCollective, Kind: "wait"}},
		{"comm", "p2p.recv_forward", vocab.Meaning{Name: "p2p.recv_forward", Class: vocab.ClassCollective}},
		// copies and work of a device share a category
		{"device", "transfer", vocab.Meaning{Name: "transfer", Class: vocab.ClassTransfer}},
		{"device", "backward", vocab.Meaning{Name: "backward", Class: vocab.ClassDeviceWork, For: vocab.ClassBackward}},
		{"device", "wait", vocab.Meaning{Name: "wait", Class: vocab.ClassDeviceWork, For: vocab.ClassCollective, Kind: "wait"}},
		// profiles of PyTorch, imported and raw
		{"pipeline", "ProfilerStep#12", vocab.Meaning{Name: "ProfilerStep#12", Class: vocab.ClassStep}},
		{"PP", "aten::mm", vocab.Meaning{Name: "aten::mm", Class: vocab.ClassDetail}},
		{"dynamo", "compile.backend", vocab.Meaning{Name: "compile.backend", Class: vocab.ClassCompile}},
		{"kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", vocab.Meaning{Name: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
			Class: vocab.ClassDeviceWork, For: vocab.ClassCollective}},
		{"gpu_memcpy", "Memcpy HtoD", vocab.Meaning{Name: "Memcpy HtoD", Class: vocab.ClassTransfer}},
		// calls that DFTracer intercepts
		{"POSIX", "read", vocab.Meaning{Name: "read", Class: vocab.ClassIO}},
		{"STDIO", "fopen", vocab.Meaning{Name: "fopen", Class: vocab.ClassIO}},
		{"MPI", "MPI_Allreduce", vocab.Meaning{Name: "MPI_Allreduce", Class: vocab.ClassCollective, Kind: "all_reduce"}},
		{"mpi", "MPI_Comm_rank", vocab.Meaning{Name: "MPI_Comm_rank", Class: vocab.ClassDetail}},
		// JSON lines have no categories
		{"", "training_loop", vocab.Meaning{Name: spans.TrainingLoop, Class: vocab.ClassFrame}},
		{"", "all_reduce", vocab.Meaning{Name: "all_reduce", Class: vocab.ClassCollective, Kind: "all_reduce"}},
		{"", "reduce_learning_rate", vocab.Meaning{Name: "reduce_learning_rate"}},
		{"", "graph_compile", vocab.Meaning{Name: "graph_compile", Class: vocab.ClassCompile}},
		// common names in a program's own categories
		{"nn", "loss.backward", vocab.Meaning{Name: spans.ModelBackward, Class: vocab.ClassBackward}},
		{"nn", "self.optimizer.step", vocab.Meaning{Name: spans.OptimizerUpdate, Class: vocab.ClassOptimizer}},
		{"nn", "scheduler.step", vocab.Meaning{Name: "scheduler.step"}},
		{"io_calls", "DataLoader.__next__", vocab.Meaning{Name: spans.DataLoading, Class: vocab.ClassInputWait}},
		{"compute", "optimizer.step", vocab.Meaning{Name: "optimizer.step", Class: vocab.ClassOptimizer}},
		{"pipeline", "validate.iteration", vocab.Meaning{Name: "validate.iteration", Class: vocab.ClassEvaluation}},
		{"my.library", "forward", vocab.Meaning{Name: spans.ModelForward, Class: vocab.ClassForward}},
		{"APP", "train_step", vocab.Meaning{Name: spans.TrainingIteration, Class: vocab.ClassStep}},
		{"app", "backward_pass", vocab.Meaning{Name: spans.ModelBackward, Class: vocab.ClassBackward}},
		{"APP", "optimizer_step", vocab.Meaning{Name: spans.OptimizerUpdate, Class: vocab.ClassOptimizer}},
		{"APP", "allreduce", vocab.Meaning{Name: "allreduce", Class: vocab.ClassCollective, Kind: "all_reduce"}},
		{"IO", "data_loading", vocab.Meaning{Name: spans.DataLoading, Class: vocab.ClassInputWait}},
		{"IO", "checkpoint", vocab.Meaning{Name: spans.CheckpointSaveSync, Class: vocab.ClassCheckpointSave}},
		{"APP", "validation", vocab.Meaning{Name: spans.ValidationLoop, Class: vocab.ClassEvaluation}},
		{"APP", "val_step", vocab.Meaning{Name: spans.ValidationIteration, Class: vocab.ClassEvaluation}},
		{"APP", "step", vocab.Meaning{Name: "step"}},
		{"net", "send", vocab.Meaning{Name: "send"}},
		{"IO", "read", vocab.Meaning{Name: "read", Class: vocab.ClassIO}},
		{"python_function", "forward", vocab.Meaning{Name: "forward", Class: vocab.ClassDetail}},
		{"compute", "train_step", vocab.Meaning{Name: "train_step", Class: vocab.ClassCompute}},
	} {
		got := vocab.Of(c.category, c.event)
		got.Holds, got.Step = false, vocab.StepNone // TestHolds, TestStepRules
		if got != c.want {
			t.Errorf("%s/%s is %+v, want %+v", c.category, c.event, got, c.want)
		}
	}
}

// Both names of every standard span have the same meaning.
func TestStandardSpansMeanOneThing(t *testing.T) {
	classes := map[string]vocab.Class{
		spans.Application: vocab.ClassFrame, spans.TrainingLoop: vocab.ClassFrame, spans.Epoch: vocab.ClassFrame, spans.TrainingIteration: vocab.ClassStep,
		spans.DistributedInit: vocab.ClassCommInit, spans.DataLoaderInit: vocab.ClassInit, spans.ModelInit: vocab.ClassInit, spans.OptimizerInit: vocab.ClassInit,
		spans.DataLoading: vocab.ClassInputWait, spans.ModelForward: vocab.ClassForward, spans.ModelBackward: vocab.ClassBackward,
		spans.ZeroGrad: vocab.ClassOptimizer, spans.OptimizerUpdate: vocab.ClassOptimizer, spans.CheckpointLoad: vocab.ClassCheckpointLoad,
		spans.CheckpointSaveSync: vocab.ClassCheckpointSave, spans.CheckpointSaveAsync: vocab.ClassCheckpointSave, spans.CheckpointSaveFinalization: vocab.ClassCheckpointSave,
		spans.ValidationLoop: vocab.ClassEvaluation, spans.ValidationIteration: vocab.ClassEvaluation,
		spans.TestingLoop: vocab.ClassTesting, spans.TestingIteration: vocab.ClassTesting,
	}
	steps := map[string]vocab.StepRule{spans.TrainingIteration: vocab.StepIteration, spans.OptimizerUpdate: vocab.StepOptimizer}
	var book vocab.Book
	for _, info := range spans.All() {
		want := vocab.Meaning{Name: info.Name, Class: classes[info.Name], Step: steps[info.Name], Holds: info.Long}
		if info.Category == "startup" {
			want.Class, want.Kind = vocab.ClassStartUp, info.Event
		}
		for _, got := range []vocab.Meaning{vocab.Of(info.Category, info.Event), vocab.Of("", info.Name), *book.Of(info.Category, info.Event),
			*book.Of("", info.Name)} {
			if got != want {
				t.Errorf("%s is %+v, want %+v", info.Name, got, want)
			}
		}
		if byEvent, ok := vocab.ByEvent(info.Category, info.Event); !ok || byEvent != info {
			t.Errorf("ByEvent(%s/%s) = %+v, %v; want %+v", info.Category, info.Event, byEvent, ok, info)
		}
	}
}

// TestStepRules checks which spans may be training steps, or mark them.
func TestStepRules(t *testing.T) {
	for _, c := range []struct {
		category, event string
		want            vocab.StepRule
	}{
		{"pipeline", "train.iteration", vocab.StepIteration},
		{"", spans.TrainingIteration, vocab.StepIteration},
		{"pipeline", "iteration", vocab.StepIteration},
		{"pipeline", "evaluate.iteration", vocab.StepNone},
		{"pipeline", "ProfilerStep#7", vocab.StepProfiler},
		{"pipeline", "ProfilerStep*", vocab.StepProfiler},
		{"PP", "ProfilerStep#7", vocab.StepNone}, // the operator below it
		{"dataloader", "fetch.block", vocab.StepBody},
		{"data_loader", "TorchDataLoader.yield", vocab.StepBody},
		{"data", "item.block", vocab.StepBody},
		{"ai_framework", "TorchFramework.compute", vocab.StepCompute},
		{"compute", "compute", vocab.StepNone},
		{"dataloader", "fetch.iter", vocab.StepNone},
		{"pipeline", "epoch.block", vocab.StepNone},
		{"compute", "forward.block", vocab.StepNone},
		{"compute", "step", vocab.StepOptimizer},
		{"", spans.OptimizerUpdate, vocab.StepOptimizer},
		{"compute", "step.zero_grad", vocab.StepNone},
		{"device", "step", vocab.StepNone},
		{"APP", "train_step", vocab.StepNamed},
		{"APP", "optimizer_step", vocab.StepOptimizer},
		{"APP", "step", vocab.StepWord},
		{"APP", "Iteration", vocab.StepWord},
	} {
		if got := vocab.Of(c.category, c.event).Step; got != c.want {
			t.Errorf("%s/%s: %s, want %s", c.category, c.event, got, c.want)
		}
	}
	for name, want := range map[string]int64{"ProfilerStep#0": 0, "ProfilerStep#12": 12, "ProfilerStep*": -1, "ProfilerStep#-3": -1, "step#1": -1} {
		if n, ok := vocab.ProfilerStepNumber(name); ok != (want >= 0) || ok && n != want {
			t.Errorf("ProfilerStepNumber(%s) = %d, %v; want %d (-1: none)", name, n, ok, want)
		}
	}
}

func TestBookIsBounded(t *testing.T) {
	var book vocab.Book
	name := make([]byte, 0, 16)
	for i := range 1 << 16 {
		name = append(name[:0], "op"...)
		for n := i; n > 0; n /= 10 {
			name = append(name, byte('0'+n%10))
		}
		if m := book.Of("compute", string(name)); m.Class != vocab.ClassCompute {
			t.Fatalf("Of(%s) = %+v, want class compute", name, m)
		}
	}
	if got := testing.AllocsPerRun(100, func() { book.Of("compute", "op1"); book.Of("compute", "op2") }); got != 0 {
		t.Errorf("%v allocations for names that are known, want 0", got)
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
		if cat, event := vocab.TraceName(c.scope, c.name, c.category, c.event); cat != c.wantCategory || event != c.wantEvent {
			t.Errorf("TraceName(%+v) = %s/%s, want %s/%s", c, cat, event, c.wantCategory, c.wantEvent)
		}
	}
}

func TestCollectiveKind(t *testing.T) {
	for name, want := range map[string]string{
		"all_reduce": "all_reduce", "allreduce": "all_reduce", "nccl:all_reduce": "all_reduce", "_allgather_base": "all_gather", "MPI_Alltoall": "all_to_all",
		"reduce_scatter_tensor": "reduce_scatter", "broadcast": "bcast", "MPI_Bcast": "bcast", "c10d::barrier": "barrier", "recv": "receive", "isend": "send",
		"reduce": "reduce", "sendrecv": "", "init": "", "": "", "p2p.send_forward": "",
	} {
		if got := vocab.CollectiveKind(name); got != want {
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
		if got := vocab.Of(name[0], name[1]).Holds; got != want {
			t.Errorf("%v: %v, want %v", name, got, want)
		}
	}
}

// Rows of a device have the class that the import found; older imports only
// mark collectives, or have only the names.
func TestOnDevice(t *testing.T) {
	for _, c := range []struct {
		kind, class, name string
		collective        bool
		want, of          vocab.Class
	}{
		{"kernel", "", "gemm", false, vocab.ClassDeviceWork, vocab.ClassCompute},
		{"kernel", "compute", "gemm", false, vocab.ClassDeviceWork, vocab.ClassCompute},
		{"kernel", "", "ncclDevKernel_AllReduce", false, vocab.ClassDeviceWork, vocab.ClassCollective},
		{"kernel", "", "userbuffers_x", true, vocab.ClassDeviceWork, vocab.ClassCollective},
		{"kernel", "comm", "deep_ep::x", false, vocab.ClassDeviceWork, vocab.ClassCollective},
		{"kernel", "copy", "fill", false, vocab.ClassTransfer, vocab.ClassOther},
		{"gpu_memcpy", "", "Memcpy HtoD", false, vocab.ClassTransfer, vocab.ClassOther},
		{"gpu_memcpy", "comm", "symm_mem_copy", false, vocab.ClassDeviceWork, vocab.ClassCollective},
		{"gpu_memset", "", "Memset", false, vocab.ClassTransfer, vocab.ClassOther},
		{"device", "", "a program of an accelerator", false, vocab.ClassDeviceWork, vocab.ClassCompute},
	} {
		m, ok := vocab.OnDevice(c.kind, c.class, c.name, c.collective)
		if !ok || m.Class != c.want || m.For != c.of || m.Name != c.name {
			t.Errorf("OnDevice(%+v) = %+v, %v; want %v, %s of %v", c, m, ok, c.want, c.name, c.of)
		}
	}
	for _, kind := range []string{"", "cuda_runtime", "cpu_op", "device_range"} {
		if m, ok := vocab.OnDevice(kind, "copy", "cudaMemcpyAsync", false); ok {
			t.Errorf("OnDevice(%q) = %+v, want none", kind, m)
		}
	}
}

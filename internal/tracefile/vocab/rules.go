package vocab

import (
	"strings"

	"github.com/trainspan/trainspan/spans"
)

// rule maps the spans of a category to a meaning.
type rule struct {
	categories string  // in lower case, separated by spaces; "x*" matches all that begin with x
	names      string  // the same; "*.x" matches all that end in .x, [collective] all names of collectives
	is         Meaning // without a Name the span keeps its own; for a standard span, Name and Holds come from its row in package spans
}

const anyCollective = "[collective]"

// rules maps categories and names. The first row that matches decides. The words are from DFTracer's AI logging,
// DLIO, DFTracer's I/O interception, the readers of PyTorch's profiles, and the
// client that runs in Python processes.
//
// A loop over an iterator writes X.iter, the wait for an element, and X.block
// (or X.yield), its body.
var rules = []rule{
	{"*", "DLIOBenchmark._train", Meaning{Name: spans.Epoch, Class: ClassFrame, Holds: true}},

	{"ai_root", "*", Meaning{Name: spans.Application, Class: ClassFrame, Holds: true}},

	{"pipeline", "evaluate* validat*", Meaning{Class: ClassEvaluation, Holds: true}},
	{"pipeline", "test*", Meaning{Class: ClassTesting, Holds: true}},
	{"pipeline", "train.iteration iteration", Meaning{Class: ClassStep, Step: StepIteration}},
	{"pipeline", "ProfilerStep*", Meaning{Class: ClassStep, Step: StepProfiler}},
	{"pipeline", "setup", Meaning{Class: ClassInit}},
	{"pipeline", "epoch", Meaning{Name: spans.Epoch, Class: ClassFrame, Holds: true}},
	{"pipeline", "epoch*", Meaning{Class: ClassFrame, Holds: true}},
	{"pipeline", "*.iter", Meaning{Class: ClassInputWait}},
	{"pipeline", "*.block *.yield", Meaning{Class: ClassBody, Holds: true}},
	{"pipeline", "*", Meaning{Class: ClassFrame, Holds: true}},

	{"*", "DLIOBenchmark._eval", Meaning{Class: ClassEvaluation, Holds: true}},

	{"ai_framework", "*.compute", Meaning{Class: ClassCompute, Step: StepCompute}},
	{"compute ai_framework", "*.init", Meaning{Class: ClassInit}},
	{"compute ai_framework", "*.block *.yield", Meaning{Class: ClassBody, Holds: true}},
	{"compute ai_framework", "forward forward.*", Meaning{Class: ClassForward}},
	{"compute ai_framework", "backward backward.*", Meaning{Class: ClassBackward}},
	{"compute ai_framework", "step optimizer.step", Meaning{Class: ClassOptimizer, Step: StepOptimizer}},
	{"compute ai_framework", "step.*", Meaning{Class: ClassOptimizer}},
	{"compute ai_framework", "evaluate", Meaning{Class: ClassEvaluation}},
	{"compute ai_framework", "*", Meaning{Class: ClassCompute}},

	{"comm", "init *.init", Meaning{Class: ClassCommInit}},
	{"comm nccl*", "*", Meaning{Class: ClassCollective}},
	{"mpi", anyCollective, Meaning{Class: ClassCollective}},
	{"mpi", "*", Meaning{Class: ClassDetail}},

	{"device", "forward", Meaning{Class: ClassDeviceWork, For: ClassForward}},
	{"device", "backward", Meaning{Class: ClassDeviceWork, For: ClassBackward}},
	{"device", "step", Meaning{Class: ClassDeviceWork, For: ClassOptimizer}},
	{"device", "replay", Meaning{Class: ClassDeviceWork, For: ClassCompute}},
	{"device", anyCollective, Meaning{Class: ClassDeviceWork, For: ClassCollective}},
	{"device", "*", Meaning{Class: ClassTransfer}},
	{"gpu_memcpy gpu_memset", "*", Meaning{Class: ClassTransfer}},
	{"kernel", "nccl*", Meaning{Class: ClassDeviceWork, For: ClassCollective}},
	{"kernel", "*", Meaning{Class: ClassDeviceWork, For: ClassCompute}},

	{"dataloader data_loader data", "init *.init", Meaning{Class: ClassInit}},
	{"dataloader data_loader data", "*.block *.yield", Meaning{Class: ClassBody, Step: StepBody, Holds: true}},
	{"dataloader data_loader data", "*.pass", Meaning{Class: ClassFrame, Holds: true}},
	{"dataloader data_loader", "fetch *.iter", Meaning{Class: ClassInputWait}},
	{"dataloader data_loader data", "*", Meaning{Class: ClassInputWork}},

	{"checkpoint", "init *.init", Meaning{Class: ClassInit}},
	{"checkpoint", "restart* restore* load*", Meaning{Class: ClassCheckpointLoad}},
	{"checkpoint", "*", Meaning{Class: ClassCheckpointSave}},

	{"compile dynamo_timed", "*", Meaning{Class: ClassCompile}},
	{"dynamo", "compile*", Meaning{Class: ClassCompile}},
	{"startup", "*", Meaning{Class: ClassStartUp}},

	{"pp", "ProfilerStep*", Meaning{Class: ClassDetail, Holds: true}}, // the step itself is a span of pipeline
	{"dynamo pp cpu_op python_function user_annotation gpu_user_annotation cuda_runtime cuda_driver ac2g overhead trace_event dftracer", "*", Meaning{Class: ClassDetail}},

	// Names that programs with their own categories use for the parts of training.
	// Ambiguous words (step, wait, send) are not among them.
	{"*", "train_step training_step train_iteration training_iteration train_batch training_batch", Meaning{Name: spans.TrainingIteration, Class: ClassStep, Step: StepNamed}},
	{"*", "step Step iteration Iteration", Meaning{Step: StepWord}}, // "step" may be the optimizer's
	{"*", "forward forward_pass model_forward *.forward", Meaning{Name: spans.ModelForward, Class: ClassForward}},
	{"*", "backward backward_pass model_backward *.backward", Meaning{Name: spans.ModelBackward, Class: ClassBackward}},
	{"*", "optimizer_step optimizer_update optim_step *optimizer.step *optim.step", Meaning{Name: spans.OptimizerUpdate, Class: ClassOptimizer, Step: StepOptimizer}},
	{"*", "zero_grad", Meaning{Name: spans.ZeroGrad, Class: ClassOptimizer}},
	{"*", "allreduce all_reduce allgather all_gather reduce_scatter reducescatter alltoall all_to_all", Meaning{Class: ClassCollective}},
	{"*", "data_loading dataloading data_load load_batch fetch_batch next_batch get_batch *.__next__", Meaning{Name: spans.DataLoading, Class: ClassInputWait}},
	{"*", "validation validation_loop validate evaluation evaluation_loop evaluate eval", Meaning{Name: spans.ValidationLoop, Class: ClassEvaluation, Holds: true}},
	{"*", "validation_step val_step valid_step evaluation_step eval_step", Meaning{Name: spans.ValidationIteration, Class: ClassEvaluation}},
	{"*", "test_loop", Meaning{Name: spans.TestingLoop, Class: ClassTesting, Holds: true}},
	{"*", "test_step", Meaning{Name: spans.TestingIteration, Class: ClassTesting}},
	{"*", "checkpoint save_checkpoint checkpoint_save", Meaning{Name: spans.CheckpointSaveSync, Class: ClassCheckpointSave}},
	{"*", "load_checkpoint checkpoint_load restore_checkpoint", Meaning{Name: spans.CheckpointLoad, Class: ClassCheckpointLoad}},
	{"*", "train_epoch training_epoch", Meaning{Name: spans.Epoch, Class: ClassFrame, Holds: true}},
	{"*", "train_loop training_loop", Meaning{Name: spans.TrainingLoop, Class: ClassFrame, Holds: true}},

	{"posix* stdio* mpiio* hdf5* reader* io storage", "*", Meaning{Class: ClassIO}},

	// JSON lines have no categories.
	{"", "all_reduce allreduce all_gather allgather reduce_scatter all_to_all alltoall broadcast bcast barrier reduce gather scatter", Meaning{Class: ClassCollective}},
	{"", spans.GraphCompile, Meaning{Class: ClassCompile}},
}

// byRule returns the meaning of the first row that matches a category in lower
// case and a name, or ClassOther.
func byRule(category, name string) (m Meaning) {
	for i := range rules {
		if matches(rules[i].categories, category) && matches(rules[i].names, name) {
			m = rules[i].is
			break
		}
	}
	if m.Name == "" {
		m.Name = name
	}
	return m
}

func matches(patterns, word string) bool {
	if patterns == "" {
		return word == ""
	}
	for p := range strings.SplitSeq(patterns, " ") {
		stem, prefix := strings.CutSuffix(p, "*")
		end, suffix := strings.CutPrefix(p, "*")
		switch {
		case prefix && strings.HasPrefix(word, stem), suffix && strings.HasSuffix(word, end), p == word,
			p == anyCollective && CollectiveKind(word) != "":
			return true
		}
	}
	return false
}

// collectives are the words for collectives. A word that is the start of
// another comes after it.
var collectives = []struct{ word, kind string }{
	{"allreducebarrier", "barrier"},
	{"barrier", "barrier"},
	{"reducescatter", "reduce_scatter"},
	{"allreduce", "all_reduce"},
	{"allgather", "all_gather"},
	{"alltoall", "all_to_all"},
	{"broadcast", "bcast"},
	{"bcast", "bcast"},
	{"reduce", "reduce"},
	{"gather", "gather"},
	{"scatter", "scatter"},
	{"receive", "receive"},
	{"recv", "receive"},
	{"irecv", "receive"},
	{"send", "send"},
	{"isend", "send"},
	{"wait", "wait"},
}

// CollectiveKind returns the name of a collective in DFTracer's AI logging by
// any name for it: all_reduce for allreduce, _allreduce_base, MPI_Allreduce and
// nccl:all_reduce. It is empty for other names.
func CollectiveKind(name string) string {
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[i+1:]
	}
	word := strings.ReplaceAll(strings.ToLower(name), "_", "")
	word = strings.TrimPrefix(word, "mpi")
	if strings.HasPrefix(word, "sendrecv") {
		return "" // point to point and all-to-all share this kernel
	}
	for _, c := range collectives {
		if strings.HasPrefix(word, c.word) {
			return c.kind
		}
	}
	return ""
}

package goodput

import (
	"strings"

	"github.com/trainspan/trainspan/analysis/run"
	"github.com/trainspan/trainspan/spans"
)

// Category says what a stretch of time was spent on. The categories of a
// ledger are exclusive and add up to the wall time. Besides the constants
// there is one category for each blocking span that is not a standard one:
// "custom." and its name.
type Category string

// The categories.
const (
	Productive     Category = "productive"      // iterations that were kept
	LostWork       Category = "lost_work"       // iterations that a resume undid, or that never finished
	Warmup         Category = "warmup"          // compiling, and what the first iteration of an attempt took beyond the usual time
	Init           Category = "init"            // the four initializations
	CheckpointLoad Category = "checkpoint_load" //
	CheckpointSave Category = "checkpoint_save" // the part of saves that holds up training
	DataWait       Category = "data_wait"       // data loading on the training thread
	Validation     Category = "validation"      //
	Testing        Category = "testing"         //
	Stall          Category = "stall"           // an unfinished iteration beyond the usual time
	Downtime       Category = "downtime"        // from the last sign of life of an attempt to the start of the next
	Unobserved     Category = "unobserved"      // after the last sign of life, when there is no later attempt
	Absent         Category = "absent"          // a rank before its first start or after its end, while the job runs
	Other          Category = "other"           // inside the application, and in no span that says for what
)

// customPrefix begins the categories of spans that are not standard ones.
const customPrefix = "custom."

// maxCustom bounds the custom categories of one attempt. What is beyond goes
// to customRest: names with numbers in them must not fill the memory.
const maxCustom = 4096

const customRest Category = customPrefix + "(more)"

// Categories lists the fixed categories in the order in which they are shown.
func Categories() []Category {
	return []Category{
		Productive, LostWork, Warmup, Stall, Init, CheckpointLoad, CheckpointSave, DataWait,
		Validation, Testing, Downtime, Unobserved, Absent, Other,
	}
}

// IsCustom reports whether the category is that of a span of the program's own.
func (c Category) IsCustom() bool { return strings.HasPrefix(string(c), customPrefix) }

// Totals is how many nanoseconds each category took. Categories without any
// time are left out.
type Totals map[Category]int64

// Sum adds the categories up.
func (t Totals) Sum() int64 {
	var sum int64
	for _, ns := range t {
		sum += ns
	}
	return sum
}

func (t Totals) add(c Category, ns int64) {
	if ns != 0 {
		t[c] += ns
	}
}

func (t Totals) addAll(o Totals) {
	for c, ns := range o {
		t[c] += ns
	}
}

// kind is what a span means to the ledger. The order is that in which
// concurrent leaves win: what holds up the training comes before the iteration
// that it holds up, and what is prefetched behind an iteration comes after it.
type kind uint8

const (
	kindLoad kind = iota
	kindInit
	kindSave
	kindTesting
	kindValidation
	kindWarmup // compiling
	kindCustom
	kindIteration
	kindData
	kindOther // application, loops, epochs
	kindCount

	// The kinds below take the place of their parent.
	kindCompute // forward, backward, collectives: part of the iteration
	kindDetail  // calls of the operating system, kernels: part of whatever they are in
)

// fixed are the categories of the kinds that have one of their own.
var fixed = [kindCount]Category{
	kindLoad: CheckpointLoad, kindInit: Init, kindSave: CheckpointSave, kindTesting: Testing,
	kindValidation: Validation, kindWarmup: Warmup, kindIteration: Productive, kindData: DataWait, kindOther: Other,
}

// kindOf classifies a span by its name in either vocabulary.
func kindOf(s *run.Span) kind {
	switch s.Name {
	case spans.Application, spans.TrainingLoop, spans.Epoch:
		return kindOther
	case spans.DistributedInit, spans.DataLoaderInit, spans.ModelInit, spans.OptimizerInit:
		return kindInit
	case spans.CheckpointLoad:
		return kindLoad
	case spans.CheckpointSaveSync, spans.CheckpointSaveAsync, spans.CheckpointSaveFinalization:
		return kindSave
	case spans.TrainingIteration:
		return kindIteration
	case spans.DataLoading:
		return kindData
	case spans.ModelForward, spans.ZeroGrad, spans.ModelBackward, spans.OptimizerUpdate:
		return kindCompute
	case spans.ValidationLoop, spans.ValidationIteration:
		return kindValidation
	case spans.TestingLoop, spans.TestingIteration:
		return kindTesting
	case spans.GraphCompile:
		return kindWarmup
	}
	if s.Cat == "" {
		return kindCustom
	}
	return kindOfCat(s.Cat, s.Name)
}

// kindOfCat classifies an event of DFTracer that is no standard span.
func kindOfCat(cat, name string) kind {
	switch strings.ToLower(cat) {
	case "ai_root":
		return kindOther
	case "compute", "comm", "device":
		if strings.HasSuffix(name, ".init") {
			return kindInit
		}
		return kindCompute
	case "data", "dataloader":
		return kindData
	case spans.CategoryCompile:
		return kindWarmup
	case "checkpoint":
		if strings.HasPrefix(name, "restart") || strings.HasPrefix(name, "load") {
			return kindLoad
		}
		return kindSave
	case "pipeline":
		switch {
		case strings.HasPrefix(name, "evaluate"):
			return kindValidation
		case strings.HasPrefix(name, "test"):
			return kindTesting
		}
		return kindOther
	case "posix", "stdio", "hdf5", "mpi", "reader", "io", "dftracer", "dynamo_timed",
		"kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cpu_op", "python_function",
		"user_annotation", "gpu_user_annotation", "ac2g", "overhead":
		return kindDetail
	}
	return kindCustom
}

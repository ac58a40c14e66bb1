package spans

import "slices"

// Info describes a standard span.
type Info struct {
	Name   string // the standard name
	Parent string // the parent span; empty for the root

	// Long marks spans that stay open for a large part of the run, unlike those of
	// single iterations.
	Long bool

	// Timed marks spans with a timer (count, total, minimum, maximum).
	Timed bool

	// Extension marks a span that one-logger does not have.
	Extension bool

	Category string // DFTracer category
	Event    string // DFTracer event name
}

// The order is that of a run, with the parts of a start at the end. Category
// and Event are the names by which DFAnalyzer's "ai" preset finds its layers.
var table = [...]Info{
	{Name: Application, Long: true, Category: "ai_root", Event: "ai_root"},
	{Name: DistributedInit, Parent: Application, Category: "comm", Event: "comm.init"},
	{Name: DataLoaderInit, Parent: Application, Category: "dataloader", Event: "dataloader.init"},
	{Name: ModelInit, Parent: Application, Category: "compute", Event: "compute.init"},
	{Name: OptimizerInit, Parent: Application, Category: "compute", Event: "step.init"},
	{Name: CheckpointLoad, Parent: Application, Timed: true, Category: "checkpoint", Event: "restart"},
	{Name: TrainingLoop, Parent: Application, Long: true, Category: "pipeline", Event: "train"},
	{Name: Epoch, Parent: TrainingLoop, Long: true, Extension: true, Category: "pipeline", Event: "epoch.block"},
	{Name: TrainingIteration, Parent: TrainingLoop, Timed: true, Category: "pipeline", Event: "train.iteration"},
	{Name: DataLoading, Parent: TrainingIteration, Category: "dataloader", Event: "fetch.iter"},
	{Name: ModelForward, Parent: TrainingIteration, Category: "compute", Event: "forward"},
	{Name: ZeroGrad, Parent: TrainingIteration, Category: "compute", Event: "step.zero_grad"},
	{Name: ModelBackward, Parent: TrainingIteration, Category: "compute", Event: "backward"},
	{Name: OptimizerUpdate, Parent: TrainingIteration, Category: "compute", Event: "step"},
	{Name: CheckpointSaveSync, Parent: TrainingLoop, Timed: true, Category: "checkpoint", Event: "capture"},
	{Name: CheckpointSaveAsync, Parent: TrainingLoop, Timed: true, Category: "checkpoint", Event: "capture.async"},
	{Name: CheckpointSaveFinalization, Parent: Application, Category: "checkpoint", Event: "capture.finalize"},
	{Name: ValidationLoop, Parent: TrainingLoop, Long: true, Category: "pipeline", Event: "evaluate"},
	{Name: ValidationIteration, Parent: ValidationLoop, Timed: true, Category: "pipeline", Event: "evaluate.iteration"},
	{Name: TestingLoop, Parent: Application, Long: true, Category: "pipeline", Event: "test"},
	{Name: TestingIteration, Parent: TestingLoop, Category: "pipeline", Event: "test.iteration"},
	{Name: StartupInterpreter, Parent: Application, Extension: true, Category: "startup", Event: "interpreter"},
	{Name: StartupImports, Parent: Application, Extension: true, Category: "startup", Event: "imports"},
	{Name: StartupRendezvous, Parent: Application, Extension: true, Category: "startup", Event: "rendezvous"},
	{Name: StartupDevice, Parent: Application, Extension: true, Category: "startup", Event: "device"},
	{Name: StartupModel, Parent: Application, Extension: true, Category: "startup", Event: "model"},
	{Name: StartupFirstBatch, Parent: Application, Extension: true, Category: "startup", Event: "first_batch"},
	{Name: StartupCompile, Parent: Application, Extension: true, Category: "startup", Event: "compile"},
}

// Lookup returns the standard span of that name.
func Lookup(name string) (Info, bool) {
	if i := Index(name); i >= 0 {
		return table[i], true
	}
	return Info{}, false
}

// Index returns the position of the name in the table, or -1 for other names.
// It allocates nothing and takes a few nanoseconds.
func Index(name string) int {
	switch name {
	case Application:
		return 0
	case DistributedInit:
		return 1
	case DataLoaderInit:
		return 2
	case ModelInit:
		return 3
	case OptimizerInit:
		return 4
	case CheckpointLoad:
		return 5
	case TrainingLoop:
		return 6
	case Epoch:
		return 7
	case TrainingIteration:
		return 8
	case DataLoading:
		return 9
	case ModelForward:
		return 10
	case ZeroGrad:
		return 11
	case ModelBackward:
		return 12
	case OptimizerUpdate:
		return 13
	case CheckpointSaveSync:
		return 14
	case CheckpointSaveAsync:
		return 15
	case CheckpointSaveFinalization:
		return 16
	case ValidationLoop:
		return 17
	case ValidationIteration:
		return 18
	case TestingLoop:
		return 19
	case TestingIteration:
		return 20
	case StartupInterpreter:
		return 21
	case StartupImports:
		return 22
	case StartupRendezvous:
		return 23
	case StartupDevice:
		return 24
	case StartupModel:
		return 25
	case StartupFirstBatch:
		return 26
	case StartupCompile:
		return 27
	}
	return -1
}

// Count is the number of rows of the table; every [Index] is below it.
const Count = len(table)

// At returns the row at an [Index]. It panics if index is out of range.
func At(index int) Info { return table[index] }

// All returns every row of the table in the order of a run.
func All() []Info { return slices.Clone(table[:]) }

// DefaultBlacklist returns the spans that exporters do not get by default:
// those of single iterations, as in one-logger.
func DefaultBlacklist() []string {
	return []string{
		TrainingIteration, ValidationIteration, TestingIteration,
		DataLoading, ModelForward, ZeroGrad, ModelBackward, OptimizerUpdate,
	}
}

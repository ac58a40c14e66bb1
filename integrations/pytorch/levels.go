package pytorch

// Level is how deep an import goes when it makes OpenTelemetry spans. Each
// level includes those before it. Empty means LevelAnnotation.
type Level string

// The levels.
const (
	LevelStep       Level = "step"       // one span per ProfilerStep
	LevelPhase      Level = "phase"      // data loading, forward, backward, optimizer step, checkpoint
	LevelAnnotation Level = "annotation" // user annotations, compiled regions, collectives, transfers
	LevelOp         Level = "op"         // operators
	LevelKernel     Level = "kernel"     // kernels, copies, runtime calls
)

// levels are in the order of their depth.
var levels = [levelCount]Level{LevelStep, LevelPhase, LevelAnnotation, LevelOp, LevelKernel}

const (
	levelStep = iota
	levelPhase
	levelAnnotation
	levelOp
	levelKernel
	levelCount
)

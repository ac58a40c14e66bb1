package pytorch

import (
	"github.com/trainspan/trainspan/internal/kineto"

	"github.com/trainspan/trainspan/spans"
)

// Level is how deep an import goes when it makes OpenTelemetry spans. Each
// level includes those before it.
type Level uint8

// The levels. The zero Level means LevelAnnotation.
const (
	LevelDefault    Level = iota
	LevelStep             // one span per ProfilerStep
	LevelPhase            // data loading, forward, backward, optimizer step, checkpoint
	LevelAnnotation       // user annotations, compiled regions, collectives, transfers
	LevelOp               // operators
	LevelKernel           // kernels, copies, runtime calls
)

var levelNames = [...]string{"annotation", "step", "phase", "annotation", "op", "kernel"}

// String returns the word used on a command line.
// MarshalText returns the words of String.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return "kernel"
}

// ParseLevel reads the word of a level.
func ParseLevel(word string) (Level, bool) {
	for i, name := range levelNames[1:] {
		if name == word {
			return Level(i + 1), true
		}
	}
	return LevelDefault, false
}

const (
	levelStep = iota
	levelPhase
	levelAnnotation
	levelOp
	levelKernel
	levelCount
)

// hostLevel returns the level of a host row.
func hostLevel(p *process, f *frame) int {
	switch {
	case f.r.kind == kineto.KindUserAnnotation:
		if _, ok := spans.ProfilerStepNumber(f.name); ok {
			return levelStep
		}
		if f.rule > 0 {
			return levelPhase
		}
		return levelAnnotation
	case f.rule > 0:
		return levelPhase
	case f.own != notContainer && !f.isMarker():
		return levelAnnotation
	case f.r.kind == kineto.KindCPUOp:
		return levelOp
	}
	return levelKernel
}

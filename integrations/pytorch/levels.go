package pytorch

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

// MarshalText returns the word of String.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// String returns the word used on a command line.
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

package kineto

import "fmt"

// Root is the outermost shape of a file.
type Root uint8

// The shapes. RootArray is what autograd.profiler and builds without Kineto
// write.
const (
	RootUnknown Root = iota
	RootObject
	RootArray
)

// Era says how the times of a file have to be read.
type Era uint8

// The eras, in the order in which PyTorch went through them.
const (
	// EraUnknown is a file without a single timed event.
	EraUnknown Era = iota
	// EraAbsoluteMicros has integer microseconds since 1970 (torch up to 2.2).
	EraAbsoluteMicros
	// EraAbsoluteFraction has microseconds since 1970 with decimals (2.3).
	EraAbsoluteFraction
	// EraRelativeNoBase has times relative to a base that was not written
	// (nightly builds of spring 2024).
	EraRelativeNoBase
	// EraRelative has times relative to baseTimeNanoseconds (2.4 and later).
	EraRelative
	// EraProfilerClock counts from the start of the profiler, with no anchor
	// (bare arrays).
	EraProfilerClock
)

var eraNames = [...]string{
	"no timed events", "absolute integer microseconds", "absolute fractional microseconds", "relative, base missing", "relative to baseTimeNanoseconds",
	"profiler clock, no anchor",
}

// MarshalText returns the words of String.
func (e Era) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

func (e Era) String() string {
	if int(e) < len(eraNames) {
		return eraNames[e]
	}
	return eraNames[0]
}

// BaseBlockSeconds is the length of the blocks to which Kineto rounds the base
// of relative times down. It is a quarter of a mean year.
const BaseBlockSeconds = 3 * 2629746

// BaseFor returns the base, in nanoseconds since 1970, that Kineto uses for a
// process that started at unix (nanoseconds since 1970).
func BaseFor(unix int64) int64 {
	const block = BaseBlockSeconds * 1_000_000_000
	return unix / block * block
}

// TopMember is a top-level member of the file other than traceEvents.
type TopMember struct {
	// Key is the name of the member.
	Key string
	// Raw is its JSON text, nil when it was longer than one mebibyte, or all of them
	// than 16.
	Raw []byte
}

// Defect is one damaged place of a file.
type Defect struct {
	// Offset and End bound the skipped bytes in the decompressed stream.
	Offset int64 `json:"offset"`
	End    int64 `json:"end"`
	// Reason says what was wrong.
	Reason string `json:"reason"`
}

// String formats the defect for a report.
func (d Defect) String() string {
	return fmt.Sprintf("bytes %d to %d skipped: %s", d.Offset, d.End, d.Reason)
}

// maxDefects bounds Info.Defects; Info.Skipped counts them all.
const maxDefects = 100

// Info is what a Reader learned about its file. It is complete once Next has
// returned io.EOF.
type Info struct {
	// Root is the outermost shape.
	Root Root
	// Base is baseTimeNanoseconds, to be added to every TS; zero without one.
	Base int64
	// HasBase reports that the base was written, BaseAfterEvents that it stood
	// behind the events.
	HasBase, BaseAfterEvents bool
	// Events counts the events returned, Bytes the bytes of the stream.
	Events, Bytes int64
	// Skipped counts damaged places, SkippedBytes their length. Defects
	// describes the first hundred.
	Skipped, SkippedBytes int64
	Defects               []Defect
	// Unsearched counts damaged places that were passed over without a search for
	// whole events in them, because others had cost too much already.
	Unsearched int64
	// Truncated reports that the stream ended inside the file, at TruncatedAt.
	// Cause is the error of the decompressor, nil for a plain early end. Without
	// Truncated the trace is whole, but the archive around it was cut behind it,
	// so that its checksum is missing.
	Truncated   bool
	TruncatedAt int64
	Cause       error
	// InexactTimes counts times with digits below one nanosecond.
	InexactTimes int64
	// FractionalTimes reports that some time had a decimal point.
	FractionalTimes bool
	// MinTS and MaxTS bound TS over all timed events but metadata.
	MinTS, MaxTS int64
	HasTS        bool
	// Top lists the top-level members in file order, traceEvents left out.
	Top []TopMember
}

// Era tells how the times have to be read.
func (in *Info) Era() Era {
	const absolute = 1e15 * 1000 // 2001 in microseconds, as nanoseconds
	switch {
	case !in.HasTS:
		return EraUnknown
	case in.HasBase:
		return EraRelative
	case in.MaxTS >= absolute && in.FractionalTimes:
		return EraAbsoluteFraction
	case in.MaxTS >= absolute:
		return EraAbsoluteMicros
	case in.Root == RootArray:
		return EraProfilerClock
	}
	return EraRelativeNoBase
}

// Member returns the raw JSON of a top-level member.
func (in *Info) Member(key string) ([]byte, bool) {
	for _, m := range in.Top {
		if m.Key == key {
			return m.Raw, m.Raw != nil
		}
	}
	return nil, false
}

// RefusedError says that a file is not a profiler trace and what it is
// instead.
type RefusedError struct {
	// What names the kind of file.
	What string
	// Hint says what to do, empty when there is nothing to do.
	Hint string
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Hint == "" {
		return "kineto: not a profiler trace: " + e.What
	}
	return "kineto: not a profiler trace: " + e.What + "; " + e.Hint
}

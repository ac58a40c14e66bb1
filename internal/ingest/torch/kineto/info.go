package kineto

import "fmt"

// Root is the outermost form of a file.
type Root uint8

// The forms. RootArray is written by autograd.profiler and builds without
// Kineto.
const (
	RootUnknown Root = iota
	RootObject
	RootArray
)

// Era is how the times of a file have to be read.
type Era uint8

// The eras, in the order of PyTorch's versions.
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
	// EraProfilerClock counts from the start of the profiler, without a known base
	// (bare arrays).
	EraProfilerClock
)

var eraNames = [...]string{
	"no timed events", "absolute integer microseconds", "absolute fractional microseconds", "relative, base missing", "relative to baseTimeNanoseconds",
	"profiler clock, no anchor",
}

// MarshalText returns the result of String.
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
	// Raw is its JSON text, nil if it was longer than 1 MiB, or all of them than 16
	// MiB.
	Raw []byte
}

// Defect is one damaged part of a file.
type Defect struct {
	// Offset and End bound the skipped bytes in the decompressed stream.
	Offset int64 `json:"offset"`
	End    int64 `json:"end"`
	// Reason is what was wrong.
	Reason string `json:"reason"`
}

// String formats the defect for a report.
func (d Defect) String() string {
	return fmt.Sprintf("bytes %d to %d skipped: %s", d.Offset, d.End, d.Reason)
}

// maxDefects bounds Info.Defects; Info.Skipped counts them all.
const maxDefects = 100

// Info is what a Reader found out about its file. It is complete once Next has
// returned io.EOF.
type Info struct {
	// Root is the outermost form.
	Root Root
	// Base is baseTimeNanoseconds, to be added to every TS; zero if there is none.
	Base int64
	// HasBase is true if the base was written, BaseAfterEvents if it was after the
	// events.
	HasBase, BaseAfterEvents bool
	// Events counts the returned events, Bytes the bytes of the stream.
	Events, Bytes int64
	// Skipped counts damaged parts, SkippedBytes their length. Defects describes
	// the first hundred.
	Skipped, SkippedBytes int64
	Defects               []Defect
	// Unsearched counts damaged parts that were skipped without a search for whole
	// events, because earlier searches had cost too much.
	Unsearched int64
	// Truncated is true if the stream ended inside the file, at TruncatedAt. Cause
	// is the error of the decompressor, nil for a plain early end. If Truncated is
	// false and Cause is set, the trace is whole, but the archive around it was cut
	// after it, so that its checksum is missing.
	Truncated   bool
	TruncatedAt int64
	Cause       error
	// InexactTimes counts times with digits below one nanosecond.
	InexactTimes int64
	// FractionalTimes is true if some time had a decimal point.
	FractionalTimes bool
	// MinTS and MaxTS bound TS over all timed events except metadata.
	MinTS, MaxTS int64
	HasTS        bool
	// Top lists the top-level members in file order, without traceEvents.
	Top []TopMember
}

// Era returns how the times have to be read.
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

// RefusedError is returned for a file that is not a profiler trace.
type RefusedError struct {
	// What is the kind of file.
	What string
	// Hint is what to do, or empty.
	Hint string
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Hint == "" {
		return "kineto: not a profiler trace: " + e.What
	}
	return "kineto: not a profiler trace: " + e.What + "; " + e.Hint
}

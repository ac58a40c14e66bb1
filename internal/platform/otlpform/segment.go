package otlpform

// Keys of the attributes of segments, which stand for a part of a long span.
const (
	SegmentIndex = "segment.index" // from zero
	SegmentFinal = "segment.final" // true on the last one
	SegmentOf    = "segment.of"    // span id of the first one, which is the span's own
	SegmentTrace = "segment.trace" // trace id of the first one, where the segment's is another
	TraceWindow  = "trace.window"  // the epoch or the number of the window of iterations of the trace
	TracePart    = "trace.part"    // how many full traces of that window, or of the run, came before
)

// LinkKind is the attribute of a link that has one of the values below.
const (
	LinkKind     = "link.kind"
	LinkPrevious = "segment.previous" // the segment before
	LinkParent   = "parent"           // the parent, which is in another trace
)

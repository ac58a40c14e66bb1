package otlpform

// Keys of the attributes of segments, which are parts of a long span.
const (
	SegmentIndex = "segment.index" // from zero
	SegmentFinal = "segment.final" // true on the last one
	SegmentOf    = "segment.of"    // span id of the first segment, which is the span's own
	SegmentTrace = "segment.trace" // trace id of the first segment, if it differs
	TraceWindow  = "trace.window"  // the epoch, or the number of the window of iterations, of the trace
	TracePart    = "trace.part"    // how many full traces of that window, or of the run, came before
)

// LinkKind is the attribute of a link with one of the values below.
const (
	LinkKind     = "link.kind"
	LinkPrevious = "segment.previous" // the previous segment
	LinkParent   = "parent"           // the parent, which is in another trace
)

package dftracer

// Custom metadata keys that the Writer uses.
const (
	// KeySpanBegin marks a record about a span that has begun. Its value is
	// the span's name; begin_id, begin_cat and begin_ts, level and p_idx
	// describe it, and its own arguments follow.
	KeySpanBegin = "span.begin"
	// KeyEventsLost marks a gap: its value is how many lines are missing;
	// reason, from_ts and to_ts (microseconds) say why and when.
	KeyEventsLost = "events.lost"
	// KeyPart marks the continuation of a rotated trace: its value is the
	// number of the part, counted from 1. Parents may be in earlier parts.
	KeyPart = "trace.part"
	// KeyHeartbeat says that the process is alive: its value is a time in microseconds.
	KeyHeartbeat = "heartbeat"
)

// argLost is how many lines the end event says are missing.
const argLost = "events_lost"

func meta(kind, name string, value Arg) Event {
	value.Key = "value"
	return Event{Phase: PhaseMetadata, Type: TypeDFTracer, Name: kind, Cat: CatDFTracer, Args: []Arg{String("name", name), value}}
}

package dft

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
	// KeyFlushInterval says what may be missing of a process that was killed: its value
	// is for how many microseconds an event may wait in memory.
	KeyFlushInterval = "flush_interval_us"
)

// ArgLost is how many lines the end event says are missing.
const ArgLost = "events_lost"

// ArgEndUnknown is the argument of an end event that is not the program's own: the trace
// was made of one that does not show how the program ended.
const ArgEndUnknown = "end_unknown"

// KeyDamaged is the key of the custom record that says of a process: records of it were
// lost by damage before this trace was made, and with them its end.
const KeyDamaged = "damaged"

// Record returns a metadata record of a kind, with a name and a value.
func Record(kind, name string, value Arg) Event {
	value.Key = "value"
	return Event{Phase: PhaseMetadata, Type: TypeDFTracer, Name: kind, Cat: CatDFTracer, Args: []Arg{String("name", name), value}}
}

// BeginOf returns the span that a begin record, as Writer.Begin writes it, is
// about, and whether ev is one. The span has no duration yet.
func BeginOf(ev *Event) (Event, bool) {
	if ev == nil || ev.Phase != PhaseMetadata || ev.Name != NameCustom || len(ev.Args) < 5 {
		return Event{}, false
	}
	key, name := ev.Meta()
	id, ok := ev.Arg("begin_id")
	if key != KeySpanBegin || !ok {
		return Event{}, false
	}
	cat, _ := ev.Arg("begin_cat")
	ts, _ := ev.Arg("begin_ts")
	span := Event{Phase: PhaseComplete, Type: ev.Type, ID: Uint64(id), Name: name, Cat: cat.Text(), PID: ev.PID, TID: ev.TID,
		TS: ts.Int64(), Level: ev.Level, Parent: ev.Parent, HostHash: ev.HostHash}
	for _, a := range ev.Args {
		switch a.Key {
		case "name", "value", "begin_id", "begin_cat", "begin_ts":
		default:
			span.Args = append(span.Args, a)
		}
	}
	return span, true
}

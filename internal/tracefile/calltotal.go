package tracefile

// ArgCalls is the argument with the number of calls, in a record that stands
// for several.
const ArgCalls = "dft_cnt"

// CallTotal adds up calls of one kind on one file, for one record of phase
// [PhaseCounter] instead of an event per call. The zero value is empty. It is
// not safe for concurrent use.
type CallTotal struct {
	calls, failed int64
	bytes, dur    extent
	moves         bool
}

// extent is a sum with the least and the largest value added.
type extent struct{ sum, least, most int64 }

func (e *extent) add(v int64, first bool) {
	if e.sum += v; first {
		e.least, e.most = v, v
		return
	}
	e.least, e.most = min(e.least, v), max(e.most, v)
}

// Add adds a call that took dur, in the time unit of the trace. A negative
// returned value means that the call failed. If moves is true, returned is a
// number of bytes of file content.
func (t *CallTotal) Add(dur, returned int64, moves bool) {
	first := t.calls == 0
	t.calls++
	t.dur.add(max(dur, 0), first)
	if returned < 0 {
		t.failed++
	}
	if moves {
		t.moves = true
		t.bytes.add(max(returned, 0), first)
	}
}

// Calls returns how many calls were added.
func (t *CallTotal) Calls() int64 { return t.calls }

// AppendArgs appends the arguments of the record: the number of calls, the sum,
// the least and the largest of their times and bytes, and the number of failed
// calls.
func (t *CallTotal) AppendArgs(dst []Arg) []Arg {
	dst = append(dst, Int(ArgCalls, t.calls))
	dst = t.dur.append(dst, "dur")
	if t.moves {
		dst = t.bytes.append(dst, "size")
	}
	if t.failed > 0 {
		dst = append(dst, Int("failed", t.failed))
	}
	return dst
}

func (e *extent) append(dst []Arg, key string) []Arg {
	return append(dst, Int(key+"_sum", e.sum), Int(key+"_min", e.least), Int(key+"_max", e.most))
}

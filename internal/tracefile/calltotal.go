package tracefile

// ArgCalls is the argument of a record that stands for several calls: how many.
const ArgCalls = "dft_cnt"

// CallTotal adds up calls of one kind on one file, for a record of phase
// [PhaseCounter] in place of an event for each. The zero value has none. It is not
// safe for concurrent use.
type CallTotal struct {
	calls, failed int64
	bytes, dur    extent
	moves         bool
}

// extent is a sum with the least and the largest of what was added.
type extent struct{ sum, least, most int64 }

func (e *extent) add(v int64, first bool) {
	if e.sum += v; first {
		e.least, e.most = v, v
		return
	}
	e.least, e.most = min(e.least, v), max(e.most, v)
}

// Add adds a call that took dur, in the unit of the trace. What it returned is less
// than zero when it failed; where moves says that it moves the content of the file it
// is a number of bytes.
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

// Calls returns how many were added.
func (t *CallTotal) Calls() int64 { return t.calls }

// AppendArgs appends the arguments of the record: how many calls, sum, least and
// largest of their times and bytes, and how many failed.
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

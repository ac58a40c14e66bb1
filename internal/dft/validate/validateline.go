package validate

import (
	"bytes"
	"encoding/json"

	"github.com/trainspan/trainspan/internal/dft"
)

func (v *validator) line(line []byte, finished bool) {
	v.report.Lines++
	switch string(line) {
	case "[":
		if v.report.Lines != 1 && !v.opts.AllowForeign {
			v.problem("opening bracket inside the trace", "opening bracket is not the first line")
		}
		v.opened = true
		return
	case "]":
		v.closed = true
		if finished && !v.opts.AllowForeign {
			v.problem("closing bracket inside the trace", "closing bracket is not the end of the trace")
		}
		return
	}
	if v.opts.AllowForeign {
		if line = dft.TrimLine(line); len(line) == 0 {
			return
		}
	} else if !v.form(line, finished) {
		return
	}
	if !v.parsed(line) {
		return
	}
	v.record(&v.event, line)
}

// form checks what a line looks like, and reports whether there is something in it.
func (v *validator) form(line []byte, finished bool) bool {
	switch {
	case v.closed:
		v.problem("record after the closing bracket", "something follows the closing bracket")
	case !finished:
		v.problem("no line feed at the end", "the last record has no line feed")
	case len(line) > dft.MaxLine:
		v.problem("line is too long", "line has %d bytes", len(line))
	case len(bytes.TrimSpace(line)) == 0:
		v.problem("blank line", "line is empty")
		return false
	}
	return true
}

// parsed fills the event from a line whose members have the right types, and
// reports whether it is one.
func (v *validator) parsed(line []byte) bool {
	args := v.event.Args[:0]
	v.event = dft.Event{Parent: dft.NoParent, Args: args}
	if v.parser.Fast(line, &v.event) && v.event.Phase != dft.PhaseUnknown {
		v.members(v.parser.Seen)
		return true
	}
	if !json.Valid(line) {
		v.problem("not valid JSON", "not valid JSON: %.80q", line)
		return false
	}
	v.types(line)
	if err := v.parser.Parse(line, &v.event); err != nil {
		v.problem("not a record", "%v", err)
		return false
	}
	return true
}

// types checks what the parser is lenient about.
func (v *validator) types(line []byte) {
	var rec struct {
		ID, TS, Dur, Type json.RawMessage
		PID               json.RawMessage `json:"pid"`
		TID               json.RawMessage `json:"tid"`
		Name, Cat         *string
		Args              map[string]json.RawMessage
	}
	if err := json.Unmarshal(line, &rec); err != nil {
		v.problem("wrong type", "%v", err)
		return
	}
	var seen dft.Keys
	for _, n := range [...]struct {
		key string
		raw json.RawMessage
		bit dft.Keys
	}{{"id", rec.ID, dft.HasID}, {"ts", rec.TS, dft.HasTS}, {"dur", rec.Dur, dft.HasDur}, {"pid", rec.PID, dft.HasPID}, {"tid", rec.TID, dft.HasTID}, {"type", rec.Type, 0}} {
		if n.raw == nil {
			continue
		}
		seen |= n.bit
		if _, next, ok := dft.Digits(n.raw, 0); !ok || next != len(n.raw) {
			v.problem(n.key+" is no integer above or equal to 0", "%s is %s, not an integer above or equal to 0", n.key, n.raw)
		}
	}
	for _, n := range [...]struct {
		has bool
		bit dft.Keys
	}{{rec.Name != nil, dft.HasName}, {rec.Cat != nil, dft.HasCat}, {len(rec.Args) > 0, dft.HasArgs}, {rec.Args["hhash"] != nil, dft.HasHost}} {
		if n.has {
			seen |= n.bit
		}
	}
	// The phase is that of the parser.
	if v.parser.Parse(line, &v.event) == nil {
		v.members(seen)
	}
}

// members checks that nothing is missing from a record.
func (v *validator) members(seen dft.Keys) {
	for _, n := range [...]struct {
		key string
		bit dft.Keys
	}{{"name", dft.HasName}, {"cat", dft.HasCat}, {"pid", dft.HasPID}, {"tid", dft.HasTID}} {
		if seen&n.bit == 0 {
			v.problem(n.key+" is missing", "%s is missing", n.key)
		}
	}
	need := dft.HasTS | dft.HasDur | dft.HasID
	if v.opts.AllowForeign {
		need = dft.HasTS | dft.HasDur
	}
	if v.event.Phase == dft.PhaseComplete && seen&need != need {
		v.problem("id, ts or dur is missing", "id, ts or dur of a complete event is missing")
	}
	if seen&(dft.HasArgs|dft.HasHost) == dft.HasArgs && !v.opts.AllowForeign {
		v.problem("args have no hhash", "args have no hhash")
	}
}

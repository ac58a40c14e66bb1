package validate

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/trainspan/trainspan/internal/tracefile"
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
		if line = tracefile.TrimLine(line); len(line) == 0 {
			return
		}
	} else if !v.checkForm(line, finished) {
		return
	}
	if !v.parsed(line) {
		return
	}
	v.record(&v.event, line)
}

// checkForm checks the form of a line, and reports whether it has a record.
func (v *validator) checkForm(line []byte, finished bool) bool {
	switch {
	case v.closed:
		v.problem("record after the closing bracket", "something follows the closing bracket")
	case !finished:
		v.problem("no line feed at the end", "the last record has no line feed")
	case len(line) > tracefile.MaxLine:
		v.problem("line is too long", "line has %d bytes", len(line))
	case len(bytes.TrimSpace(line)) == 0:
		v.problem("blank line", "line is empty")
		return false
	}
	return true
}

// parsed fills the event from a line whose members have the right types, and
// reports whether it succeeded.
func (v *validator) parsed(line []byte) bool {
	args := v.event.Args[:0]
	v.event = tracefile.Event{Parent: tracefile.NoParent, Args: args}
	if v.parser.Fast(line, &v.event) && v.event.Phase != tracefile.PhaseUnknown {
		v.checkMembers(v.parser.Seen)
		return true
	}
	if !json.Valid(line) {
		v.problem("not valid JSON", "not valid JSON: %.80q", line)
		return false
	}
	v.checkTypes(line)
	if err := v.parser.Parse(line, &v.event); err != nil {
		v.problem("not a record", "%v", err)
		return false
	}
	return true
}

// checkTypes checks the types that the parser is lenient about.
func (v *validator) checkTypes(line []byte) {
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
	var seen tracefile.Keys
	for _, n := range [...]struct {
		key string
		raw json.RawMessage
		bit tracefile.Keys
	}{{"id", rec.ID, tracefile.HasID}, {"ts", rec.TS, tracefile.HasTS}, {"dur", rec.Dur, tracefile.HasDur}, {"pid", rec.PID, tracefile.HasPID}, {"tid", rec.TID, tracefile.HasTID}, {"type", rec.Type, 0}} {
		if n.raw == nil {
			continue
		}
		seen |= n.bit
		if _, next, ok := tracefile.Digits(n.raw, 0); !ok || next != len(n.raw) {
			v.problem(n.key+" is not an integer >= 0", "%s is %s, not an integer >= 0", n.key, n.raw)
		}
	}
	for _, n := range [...]struct {
		has bool
		bit tracefile.Keys
	}{{rec.Name != nil, tracefile.HasName}, {rec.Cat != nil, tracefile.HasCat}, {len(rec.Args) > 0, tracefile.HasArgs}, {rec.Args["hhash"] != nil, tracefile.HasHost}} {
		if n.has {
			seen |= n.bit
		}
	}
	// The parser knows the phase.
	if v.parser.Parse(line, &v.event) == nil {
		v.checkMembers(seen)
	}
}

// checkMembers checks that a record has all members it needs.
func (v *validator) checkMembers(seen tracefile.Keys) {
	for _, n := range [...]struct {
		key string
		bit tracefile.Keys
	}{{"name", tracefile.HasName}, {"cat", tracefile.HasCat}, {"pid", tracefile.HasPID}, {"tid", tracefile.HasTID}} {
		if seen&n.bit == 0 {
			v.problem(n.key+" is missing", "%s is missing", n.key)
		}
	}
	need := tracefile.HasTS | tracefile.HasDur | tracefile.HasID
	if v.opts.AllowForeign {
		need = tracefile.HasTS | tracefile.HasDur
	}
	if v.event.Phase == tracefile.PhaseComplete && seen&need != need {
		v.problem("id, ts or dur is missing", "id, ts or dur of a complete event is missing")
	}
	if seen&(tracefile.HasArgs|tracefile.HasHost) == tracefile.HasArgs && !v.opts.AllowForeign {
		v.problem("args have no hhash", "args have no hhash")
	}
}

func (v *validator) record(ev *tracefile.Event, line []byte) {
	v.report.Counts[ev.Cat+"/"+ev.Name+"/"+ev.Phase.String()]++
	v.report.Dialect = tracefile.GuessDialect(line, ev, v.report.Dialect)
	if len(v.heads) < 8 {
		v.heads = append(v.heads, ev.Name)
	}
	if v.ended && !v.opts.AllowForeign {
		v.problem("record after the end event", "%s follows the end event", ev.Name)
	}
	if ev.Phase != tracefile.PhaseComplete {
		v.define(&known{kind: defFact, id: ev.ID, line: v.report.Lines})
		v.fact(ev)
		return
	}
	v.report.Events++
	framing := ev.Cat == tracefile.CatDFTracer && (ev.Name == tracefile.NameStart || ev.Name == tracefile.NameEnd)
	if !framing {
		v.report.Spans++
	}
	if framing && ev.Name == tracefile.NameEnd {
		v.ended = true
		_, part := ev.Arg("continued")
		if a, ok := ev.Arg(tracefile.ArgLost); ok { // the sum of all gaps, and of losses without a gap record
			v.report.Lost = max(v.report.Lost, int(a.Int64()))
		}
		v.loose = v.loose || part
	}
	delete(v.open, ev.ID)
	k := known{kind: defSpan, id: ev.ID, parent: ev.Parent, line: v.report.Lines, start: ev.TS, end: ev.End(), level: ev.Level}
	v.define(&k)
	v.refer(&k)
	if !framing && ev.TID != 0 { // tid 0 means that thread ids are off
		v.place(&k, lane{ev.PID, ev.TID})
	}
}

func (v *validator) fact(ev *tracefile.Event) {
	if ev.Phase != tracefile.PhaseMetadata {
		v.report.Events++
		v.report.Counters++
		return
	}
	v.report.Metadata++
	if b, ok := tracefile.BeginOf(ev); ok {
		if v.open == nil {
			v.open = make(map[uint64]bool)
		}
		v.open[b.ID] = true
	}
	key, value := ev.Meta()
	if ev.Name != tracefile.NameCustom {
		return
	}
	switch key {
	case tracefile.KeyPart:
		v.loose = true
	case tracefile.KeyEventsLost:
		n := tracefile.String("", value)
		v.report.Lost += int(n.Int64())
	}
}

func (v *validator) framing() {
	brackets := v.report.Dialect != tracefile.V22
	if brackets && !v.opened {
		v.whole("the first line is not an opening bracket", "the first line is not an opening bracket")
	}
	if !v.opts.AllowUnfinished {
		if !v.ended {
			v.whole("there is no end event", "there is no end event")
		}
		if brackets && !v.closed {
			v.whole("there is no closing bracket", "there is no closing bracket")
		}
	}
	want := []string{tracefile.NameHostHash, tracefile.NameThreadName}
	if v.report.Dialect == tracefile.V22 {
		want = append(want, tracefile.NameCustom)
	}
	withArgs := want
	if v.report.Dialect != tracefile.V1 {
		withArgs = append(slices.Clone(want), tracefile.NameFileHash)
	}
	withArgs = append(slices.Clone(withArgs), tracefile.NameStringHash, tracefile.NameStringHash, tracefile.NameStart)
	if !hasPrefix(v.heads, withArgs) && !hasPrefix(v.heads, append(slices.Clone(want), tracefile.NameStart)) {
		v.whole("unexpected first records", "the first records are %v", v.heads)
	}
}

func hasPrefix(have, want []string) bool {
	return len(have) >= len(want) && slices.Equal(have[:len(want)], want)
}

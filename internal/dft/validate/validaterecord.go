package validate

import (
	"slices"

	"github.com/trainspan/trainspan/internal/dft"
)

func (v *validator) record(ev *dft.Event, line []byte) {
	v.report.Counts[ev.Cat+"/"+ev.Name+"/"+ev.Phase.String()]++
	v.report.Dialect = dft.GuessDialect(line, ev, v.report.Dialect)
	if len(v.heads) < 8 {
		v.heads = append(v.heads, ev.Name)
	}
	if v.ended && !v.opts.AllowForeign {
		v.problem("record after the end event", "%s follows the end event", ev.Name)
	}
	if ev.Phase != dft.PhaseComplete {
		v.define(&known{kind: defFact, id: ev.ID, line: v.report.Lines})
		v.fact(ev)
		return
	}
	v.report.Events++
	framing := ev.Cat == dft.CatDFTracer && (ev.Name == dft.NameStart || ev.Name == dft.NameEnd)
	if !framing {
		v.report.Spans++
	}
	if framing && ev.Name == dft.NameEnd {
		v.ended = true
		_, part := ev.Arg("continued")
		if a, ok := ev.Arg(dft.ArgLost); ok { // the sum of what the gaps say, and what no gap could say
			v.report.Lost = max(v.report.Lost, int(a.Int64()))
		}
		v.loose = v.loose || part
	}
	delete(v.open, ev.ID)
	k := known{kind: defSpan, id: ev.ID, parent: ev.Parent, line: v.report.Lines, start: ev.TS, end: ev.End(), level: ev.Level}
	v.define(&k)
	v.refer(&k)
	if !framing && ev.TID != 0 { // 0: thread ids are off
		v.place(&k, lane{ev.PID, ev.TID})
	}
}

func (v *validator) fact(ev *dft.Event) {
	if ev.Phase != dft.PhaseMetadata {
		v.report.Events++
		v.report.Counters++
		return
	}
	v.report.Metadata++
	if b, ok := dft.BeginOf(ev); ok {
		if v.open == nil {
			v.open = make(map[uint64]bool)
		}
		v.open[b.ID] = true
	}
	key, value := ev.Meta()
	if ev.Name != dft.NameCustom {
		return
	}
	switch key {
	case dft.KeyPart:
		v.loose = true
	case dft.KeyEventsLost:
		n := dft.String("", value)
		v.report.Lost += int(n.Int64())
	}
}

func (v *validator) framing() {
	brackets := v.report.Dialect != dft.V22
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
	want := []string{dft.NameHostHash, dft.NameThreadName}
	if v.report.Dialect == dft.V22 {
		want = append(want, dft.NameCustom)
	}
	withArgs := want
	if v.report.Dialect != dft.V1 {
		withArgs = append(slices.Clone(want), dft.NameFileHash)
	}
	withArgs = append(slices.Clone(withArgs), dft.NameStringHash, dft.NameStringHash, dft.NameStart)
	if !hasPrefix(v.heads, withArgs) && !hasPrefix(v.heads, append(slices.Clone(want), dft.NameStart)) {
		v.whole("unexpected first records", "the first records are %v", v.heads)
	}
}

func hasPrefix(have, want []string) bool {
	return len(have) >= len(want) && slices.Equal(have[:len(want)], want)
}

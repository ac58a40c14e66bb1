package timelines

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
)

// base is the start of drawings, in nanoseconds. The clock of ring buffers maps
// to it.
const base = int64(1e18 + 1e12)

// span is a line of a drawing.
type span struct {
	name, parent string // "" for none
	start, end   int64  // nanoseconds after base
	open         bool   // it does not end
}

// parse reads a drawing: a line for each span, its name, its parent or -, and
// its time. A column is one unit. A span is drawn with =, one without a length
// with |, and one that does not end ends with >.
func parse(t *testing.T, drawing string, unit int64) (spans []span) {
	t.Helper()
	for line := range strings.Lines(drawing) {
		if line = strings.TrimRight(line, " \n"); strings.TrimSpace(line) == "" {
			continue
		}
		head, times, ok := strings.Cut(strings.TrimLeft(line, "\t"), ":")
		names := strings.Fields(head)
		if !ok || len(names) != 2 {
			t.Fatalf("%q is not NAME PARENT: TIMES", line)
		}
		s := span{name: names[0], parent: strings.Trim(names[1], "-")}
		at := strings.IndexAny(times, "=|>")
		s.start, s.end, s.open = int64(at)*unit, int64(len(times))*unit, strings.HasSuffix(times, ">")
		if strings.HasSuffix(times, "|") {
			s.end = s.start
		}
		spans = append(spans, s)
	}
	return spans
}

// call is a call of a program on a span.
type call struct {
	at  *span
	end bool
}

// calls returns the calls of a program in the given order, as in "+a +b -b -a",
// or else by their times: at equal times a span begins after its parent and
// ends before it.
func calls(t *testing.T, spans []span, order string) (all []call) {
	t.Helper()
	for word := range strings.FieldsSeq(order) {
		s := find(spans, word[1:])
		if s == nil {
			t.Fatalf("%q is not in the drawing", word)
		}
		all = append(all, call{s, word[0] == '-'})
	}
	if order != "" {
		return all
	}
	type timed struct {
		call
		time int64
		rank int
	}
	var list []timed
	for i := range spans {
		s := &spans[i]
		begin, end := 2*len(spans)+i, len(spans)-i
		if s.start == s.end {
			if p := find(spans, s.parent); p == nil || p.start < s.start {
				begin, end = -2, -1
			} else {
				end = 3*len(spans) + i
			}
		}
		list = append(list, timed{call{s, false}, s.start, begin})
		if !s.open {
			list = append(list, timed{call{s, true}, s.end, end})
		}
	}
	slices.SortStableFunc(list, func(a, b timed) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.rank, b.rank)) })
	for _, c := range list {
		all = append(all, c.call)
	}
	return all
}

func find(spans []span, name string) *span {
	if i := slices.IndexFunc(spans, func(s span) bool { return s.name == name }); i >= 0 {
		return &spans[i]
	}
	return nil
}

// placed returns the position of a drawing's spans in a trace:
// NAME:PARENT/LANE/LEVEL of each, and its time if that differs. Lanes are
// numbered by their first span, ? is a level that the trace does not have, * a
// span that is marked as unfinished and + one with a begin record and without
// an end.
func placed(spans []span, unit int64, events []dftracer.Event) string {
	byName, names := map[string]*dftracer.Event{}, map[int64]string{-1: "-"}
	begun := map[string]bool{}
	for i := range events {
		ev := &events[i]
		if ev.Phase != dftracer.PhaseComplete || ev.Cat == dftracer.CatDFTracer && ev.Name != "unfinished" {
			continue
		}
		if ev.Cat == "begin" {
			begun[ev.Name] = true
		}
		names[int64(ev.ID)] = ev.Name
		byName[ev.Name] = ev
	}
	var out []string
	lanes := map[int64]int{}
	for _, s := range spans {
		ev, name := byName[s.name], s.name
		if ev == nil && s.open {
			name = "unfinished"
			ev = byName[name]
		}
		if ev == nil {
			out = append(out, s.name+":missing")
			continue
		}
		if _, known := lanes[ev.TID]; !known {
			lanes[ev.TID] = len(lanes)
		}
		parent := names[ev.Parent]
		if parent == "" {
			parent = "dangling"
		}
		level := "?"
		if ev.Level > 0 {
			level = fmt.Sprint(ev.Level)
		}
		text := fmt.Sprintf("%s:%s/%d/%s", name, parent, lanes[ev.TID], level)
		if start, end := ev.TS-base/1000, ev.End()-base/1000; !s.open && (start != s.start/1000 || end != s.end/1000) {
			text += fmt.Sprintf("@%d-%d", start*1000/unit, end*1000/unit)
		}
		if a, ok := ev.Arg("truncated"); ok && a.Int64() == 1 {
			text += "*"
		}
		if begun[ev.Name] {
			text += "+"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

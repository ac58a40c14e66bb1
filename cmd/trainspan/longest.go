package main

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// longestLimit is how many spans events --sort duration prints without --limit.
const longestLimit = 20

// longSpan is one of the longest spans.
type longSpan struct {
	file  string
	ev    dftracer.Event
	order int64 // the order of reading
	proc  *job.Process
}

// compareLongest orders spans by duration, longest first, independent of the
// order of the files.
func compareLongest(a, b *longSpan) int {
	return cmp.Or(cmp.Compare(b.ev.Dur, a.ev.Dur), cmp.Compare(a.ev.TS, b.ev.TS), strings.Compare(a.file, b.file), cmp.Compare(a.order, b.order))
}

// longestSpans is a heap with the shortest span first.
type longestSpans []longSpan

func (h longestSpans) Len() int           { return len(h) }
func (h longestSpans) Less(i, j int) bool { return compareLongest(&h[i], &h[j]) > 0 }
func (h longestSpans) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *longestSpans) Push(x any) { *h = append(*h, x.(longSpan)) }

// Pop implements heap.Interface.
func (h *longestSpans) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// readLongest returns the o.limit longest spans of files, longest first, and
// the start of the first span of the files. If the default limit leaves spans
// out, it reports their number on standard error.
func readLongest(ctx context.Context, a *ui.App, files []string, o *eventsOptions) (list longestSpans, first int64, err error) {
	var n int64 // spans that could be listed
	var names vocab.Book
	begin := func() { list, first, n = nil, 0, 0 }
	err = read.Judged(ctx, a, "events", files, &o.filter, begin, func(path string) (func(*dftracer.Event) error, func(*tracefile.Hashes) error) {
		who := o.filter.Who.File(path)
		take := func(ev *dftracer.Event) error {
			p := who.Of(ev)
			if ev.Phase != dftracer.PhaseComplete || ev.Cat == dftracer.CatDFTracer {
				return nil
			}
			if first == 0 || ev.TS < first {
				first = ev.TS
			}
			if !o.all && names.Of(ev.Cat, ev.Name).Holds {
				return nil
			}
			n++
			s := longSpan{file: path, ev: *ev, order: n, proc: p}
			if int64(len(list)) == o.limit {
				if compareLongest(&s, &list[0]) > 0 {
					return nil
				}
				heap.Pop(&list)
			}
			s.ev.Args = slices.Clone(ev.Args) // the reader reuses them
			heap.Push(&list, s)
			return nil
		}
		return take, func(*tracefile.Hashes) error { return nil }
	})
	if err == nil && !o.limited && n > o.limit {
		a.Note("the %d longest of %s; --limit shows more", o.limit, display.Plural(n, "span"))
	}
	slices.SortFunc(list, func(a, b longSpan) int { return compareLongest(&a, &b) })
	return list, first, err
}

// showLongest prints spans as a table. Their files are a column if there are
// several.
func showLongest(a *ui.App, list longestSpans, first int64, several bool) {
	if len(list) == 0 {
		a.Printf("The trace, or this part of it, has no such spans.\n")
		return
	}
	t := &display.Table{Heads: []string{"duration", "<start", "after", "<rank", "epoch", "step", "<category", "<name", "<file"}, Drop: []string{"start", "file", "epoch"}, Empty: true}
	for i := range list {
		s := &list[i]
		number := func(key string) string {
			if n := read.NumberOf(&s.ev, key); n != nil {
				return display.Count(*n)
			}
			return "-"
		}
		file := ""
		if several {
			file = s.file
		}
		t.Add(display.Micros(float64(s.ev.Dur)), ui.Moment(s.ev.TS), "+"+display.Micros(float64(s.ev.TS-first)), read.RankText(s.proc), number("epoch"), number("step"),
			display.Elide(s.ev.Cat, 24), display.Elide(s.ev.Name, 56), file)
	}
	a.Table(a.Stdout, t)
}

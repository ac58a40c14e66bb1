package main

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/layout"
	runs "github.com/trainspan/trainspan/internal/run"
	"github.com/trainspan/trainspan/internal/vocab"
)

type slowestOptions struct {
	top       int
	all, json bool
	filter    read.Filter
}

func newSlowest(a *ui.App) *cobra.Command {
	var o slowestOptions
	cmd := &cobra.Command{
		Use:   "slowest FILE...",
		Short: "List the longest spans",
		Long: `Lists the spans that took longest, with the time when each began, its rank, epoch
and step. What frames a run is left out unless --all is given: the application,
loops, epochs and bodies of iterators.`,
		Example: `  trainspan slowest trace.pfw.gz
  trainspan slowest out/ --category dataloader --top 5
  trainspan slowest out/ --name forward --rank 3 --json`,
		ValidArgsFunction: ui.Traces,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runSlowest(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.top, "top", 20, "how many spans")
	f.BoolVar(&o.all, "all", false, "also what frames the run")
	f.BoolVar(&o.json, "json", false, "print a JSON array")
	o.filter.Flags(f)
	return cmd
}

// slowSpan is one span of the slowest command.
type slowSpan struct {
	File     string `json:"file"`
	Start    int64  `json:"start_us"`
	After    int64  `json:"after_us"` // since the first span of the files
	Dur      int64  `json:"dur_us"`
	Rank     string `json:"rank,omitempty"`
	PID      int64  `json:"pid"`
	Epoch    *int64 `json:"epoch,omitempty"`
	Step     *int64 `json:"step,omitempty"`
	Category string `json:"category"`
	Name     string `json:"name"`

	order int64 // in which it was read
	proc  *runs.Process
}

// slowHeap has first what comes last.
type slowHeap []slowSpan

func (h slowHeap) Len() int           { return len(h) }
func (h slowHeap) Less(i, j int) bool { return longer(&h[j], &h[i]) }
func (h slowHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *slowHeap) Push(x any)        { *h = append(*h, x.(slowSpan)) }

// Pop implements heap.Interface.
func (h *slowHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// longer reports whether a comes before b, whatever the order of the files.
func longer(a, b *slowSpan) bool {
	return cmp.Or(cmp.Compare(b.Dur, a.Dur), cmp.Compare(a.Start, b.Start), strings.Compare(a.File, b.File), cmp.Compare(a.order, b.order)) < 0
}

func runSlowest(ctx context.Context, a *ui.App, args []string, o *slowestOptions) error {
	if o.top < 1 {
		return ui.Usage("--top %d: give 1 or more", o.top)
	}
	files, err := read.Expand(args)
	if err != nil {
		return err
	}
	if err := o.filter.Prepare(ctx, files); err != nil {
		return err
	}
	var list slowHeap
	var first, n int64
	var names vocab.Book
	begin := func() { list, first, n = nil, 0, 0 }
	err = read.Judged(ctx, a, "slowest", files, &o.filter, begin, func(path string) (func(*dftracer.Event) error, func(*dft.Hashes) error) {
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
			s := slowSpan{File: path, Start: ev.TS, Dur: ev.Dur, order: n}
			if len(list) == o.top && !longer(&s, &list[0]) {
				return nil
			}
			s.PID, s.Category, s.Name, s.proc = ev.PID, ev.Cat, ev.Name, p
			s.Epoch, s.Step = read.NumberOf(ev, "epoch"), read.NumberOf(ev, "step")
			if len(list) == o.top {
				heap.Pop(&list)
			}
			heap.Push(&list, s)
			return nil
		}
		return take, func(*dft.Hashes) error { return nil }
	})
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(x, y slowSpan) int {
		if longer(&x, &y) {
			return -1
		}
		return 1
	})
	for i := range list {
		list[i].After, list[i].Rank = list[i].Start-first, read.RankText(list[i].proc)
	}
	if o.json {
		return a.PrintJSON(append([]slowSpan{}, list...))
	}
	showSlowest(a, list, len(files) > 1)
	return nil
}

func showSlowest(a *ui.App, list []slowSpan, several bool) {
	t := &layout.Table{Heads: []string{"duration", "<start", "after", "<rank", "epoch", "step", "<category", "<name", "<file"}, Drop: []string{"start", "file", "epoch"}, Empty: true}
	cell := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return human.Count(*n)
	}
	for i := range list {
		s := &list[i]
		file := ""
		if several {
			file = s.File
		}
		t.Add(human.Micros(float64(s.Dur)), ui.Moment(s.Start), "+"+human.Micros(float64(s.After)), s.Rank, cell(s.Epoch), cell(s.Step), layout.Elide(s.Category, 24), layout.Elide(s.Name, 56), file)
	}
	if len(list) == 0 {
		a.Printf("There are no such spans in the trace, or in this part of it.\n")
		return
	}
	a.Table(a.Stdout, t)
}

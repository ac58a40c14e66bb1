package main

import (
	"fmt"
	"slices"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/layout"
	"github.com/trainspan/trainspan/internal/summary"
)

func showSummary(a *ui.App, files []string, r *summary.Result, top int, sort string) {
	p := a.Paint(a.Stdout)
	what := files[0]
	if len(files) > 1 {
		what = human.Plural(len(files), "file")
	}
	a.Printf("%s  %s, %s\n", p.Head(what), human.Plural(r.Events, "event"), human.Plural(len(r.Processes), "process"))
	if r.Events == 0 {
		a.Printf("There are no spans in the trace, or in this time of it.\n")
		return
	}
	a.Printf("%s, from %s\n", human.Micros(float64(r.End-r.Start)), ui.Moment(r.Start))
	if slices.ContainsFunc(files, read.IsRecords) {
		a.Printf("JSON lines hold what was exported, often without single steps: idle may be work.\n")
	}
	showUse(a, r, p)
	showEpochs(a, r, p)
	showNames(a, "Categories", r.Categories, len(r.Categories), p)
	names := len(r.Names)
	if top > 0 {
		names = min(names, top)
	}
	title := "Names"
	if names < len(r.Names) {
		title = fmt.Sprintf("Names, the first %d of %s by %s (--top 0 shows all)", names, human.Count(len(r.Names)), sort)
	}
	showNames(a, title, r.Names, names, p)
	if r.UnionError > 0 {
		a.Printf("\nUnions may be up to %s too long: gaps were closed to bound memory.\n", human.Micros(float64(r.UnionError)))
	}
	if r.TooDeep > 0 {
		a.Printf("\n%s deeper than 4,096 levels: the time without what ran inside (self) is too long there.\n", human.Plural(r.TooDeep, "span"))
	}
}

const maxRows = 64

func useCells(u *summary.Use) []string {
	cell := func(us int64) string {
		if us == 0 {
			return "-"
		}
		return human.Micros(float64(us))
	}
	return []string{human.Micros(float64(u.Wall)), cell(u.Compute), human.Share(u.Compute, u.Wall),
		cell(u.IO), cell(u.IOStall), cell(u.Comm), cell(u.CommStall), cell(u.Copies), cell(u.Idle)}
}

var useHeads = []string{"wall", "compute", "of wall", "I/O", "I/O stall", "comm", "comm stall", "copies", "idle"}

// usePriority is the order in which columns go where a terminal is narrow.
var usePriority = []string{"events", "lanes", "pid", "I/O", "comm", "copies", "of wall", "steps"}

func showUse(a *ui.App, r *summary.Result, p ui.Painter) {
	a.Printf("\n%s\n", p.Head("Time of each rank"))
	attempts := slices.ContainsFunc(r.Processes, func(x summary.ProcessStat) bool { return x.Attempt > 1 })
	several := slices.ContainsFunc(r.Processes, func(x summary.ProcessStat) bool { return x.Run != "" })
	first := []string{"<rank"}
	if several {
		first = append(first, "<run")
	}
	if attempts {
		first = append(first, "attempt")
	}
	t := &layout.Table{Heads: slices.Concat(first, []string{"pid", "lanes", "events"}, useHeads), Drop: usePriority, Empty: true}
	for i := range r.Processes[:min(len(r.Processes), maxRows)] {
		x := &r.Processes[i]
		row := []string{x.Rank}
		if x.Rank == "" {
			row[0] = "?"
		}
		if several {
			row = append(row, x.Run)
		}
		if attempts {
			row = append(row, fmt.Sprint(x.Attempt))
		}
		row = append(row, fmt.Sprint(x.PID), human.Count(x.Lanes), human.Count(x.Events))
		t.Add(append(row, useCells(&x.Use)...)...)
	}
	if len(r.Processes) > 1 {
		mean, _ := r.Mean()
		t.Add(slices.Concat([]string{"mean"}, make([]string, len(first)+2), useCells(&mean))...)
	}
	a.Table(a.Stdout, t)
	if attempts {
		a.Printf("  the mean is that of the ranks; the attempts of a rank add up\n")
	}
	if slices.ContainsFunc(r.Processes, func(x summary.ProcessStat) bool { return x.Kernels }) {
		a.Printf("  compute is the time of kernels on devices; --compute compute,ai_framework takes\n  that of the host instead\n")
	}
	if len(r.Processes) > maxRows {
		a.Printf("  %s more are in --json and in the mean\n", human.Count(len(r.Processes)-maxRows))
	}
}

func showEpochs(a *ui.App, r *summary.Result, p ui.Painter) {
	means := r.EpochMeans()
	if len(means) == 0 {
		return
	}
	title := "Epochs"
	if len(r.Processes) > 1 {
		title = "Epochs, mean over ranks"
	}
	a.Printf("\n%s\n", p.Head(title))
	t := &layout.Table{Heads: append([]string{"epoch", "ranks", "steps", "events"}, useHeads...), Drop: append([]string{"ranks"}, usePriority...), Empty: true}
	for i := range means[:min(len(means), maxRows)] {
		e := &means[i]
		t.Add(append([]string{human.Count(e.Epoch), human.Count(e.Ranks), human.Count(e.Steps), human.Count(e.Events)}, useCells(&e.Use)...)...)
	}
	a.Table(a.Stdout, t)
	if len(means) > maxRows {
		a.Printf("  %s more are in --json\n", human.Count(len(means)-maxRows))
	}
}

func showNames(a *ui.App, title string, list []summary.NameStat, n int, p ui.Painter) {
	a.Printf("\n%s\n", p.Head(title))
	var self int64
	for i := range list {
		self += list[i].Self
	}
	heads := []string{"<category", "<name", "count", "total", "self", "of self", "mean", "p50", "p99", "max"}
	if len(list) > 0 && list[0].Name == "" {
		heads = append(heads[:1], heads[2:]...)
	}
	t := &layout.Table{Heads: heads, Drop: []string{"p50", "mean", "of self", "max", "p99", "category"}}
	for i := range list[:n] {
		s := &list[i]
		row := []string{layout.Elide(s.Category, 24)}
		if s.Name != "" {
			row = append(row, layout.Elide(s.Name, 56))
		} else if len(heads) == 10 {
			row = append(row, "")
		}
		t.Add(append(row, human.Count(s.Count), human.Micros(float64(s.Total)), human.Micros(float64(s.Self)), human.Share(s.Self, self),
			human.Micros(s.Mean), human.Micros(float64(s.P50)), human.Micros(float64(s.P99)), human.Micros(float64(s.Max)))...)
	}
	a.Table(a.Stdout, t)
}

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/stats"
)

func (a *app) showSummary(files []string, r *stats.Result, o *summaryOptions) {
	p := a.paint(a.stdout)
	what := files[0]
	if len(files) > 1 {
		what = plural(len(files), "file")
	}
	a.printf("%s  %s, %s\n", p.head(what), plural(r.Events, "event"), plural(len(r.Processes), "process"))
	if r.Events == 0 {
		a.printf("There are no spans in the trace, or in this time of it.\n")
		return
	}
	a.printf("%s, from %s\n", micros(float64(r.End-r.Start)), moment(r.Start))
	a.showUse(r, p)
	a.showEpochs(r, p)
	a.showNames("Categories", r.Categories, len(r.Categories), p)
	names := len(r.Names)
	if o.top > 0 {
		names = min(names, o.top)
	}
	title := "Names"
	if names < len(r.Names) {
		title = fmt.Sprintf("Names, the first %d of %s by %s (--top 0 shows all)", names, count(len(r.Names)), o.sort)
	}
	a.showNames(title, r.Names, names, p)
	if r.UnionError > 0 {
		a.printf("\nUnions may be up to %s too long: gaps were closed to bound memory.\n", micros(float64(r.UnionError)))
	}
}

const maxRows = 64

func useCells(u stats.Use) []string {
	cell := func(us int64) string {
		if us == 0 {
			return "-"
		}
		return micros(float64(us))
	}
	return []string{micros(float64(u.Wall)), cell(u.Compute), percent(u.Compute, u.Wall),
		cell(u.IO), cell(u.IOAlone), cell(u.Comm), cell(u.CommAlone), cell(u.Rest)}
}

var useHeads = []string{"wall", "compute", "of wall", "I/O", "unoverlapped", "comm", "unoverlapped", "none of these"}

func (a *app) showUse(r *stats.Result, p painter) {
	a.printf("\n%s\n", p.head("Time of each rank"))
	t := table{heads: append([]string{"<rank", "pid", "lanes", "events"}, useHeads...)}
	var mean stats.Use
	for i := range r.Processes {
		x := &r.Processes[i]
		addUse(&mean, &x.Use)
		if i < maxRows {
			rank := x.Rank
			if rank == "" {
				rank = "?"
			}
			t.add(append([]string{rank, fmt.Sprint(x.PID), count(x.Lanes), count(x.Events)}, useCells(x.Use)...)...)
		}
	}
	if n := int64(len(r.Processes)); n > 1 {
		t.add(append([]string{"mean", "", "", ""}, useCells(divUse(mean, n))...)...)
	}
	t.write(a.stdout, p)
	if slices.ContainsFunc(r.Processes, func(x stats.ProcessStat) bool { return x.Kernels }) {
		a.printf("  compute is the time of kernels on devices; --compute compute,ai_framework takes that of the host instead\n")
	}
	if len(r.Processes) > maxRows {
		a.printf("  %s more are in --json and in the mean\n", count(len(r.Processes)-maxRows))
	}
}

func (a *app) showEpochs(r *stats.Result, p painter) {
	if len(r.Epochs) == 0 {
		return
	}
	title := "Epochs"
	if len(r.Processes) > 1 {
		title = "Epochs, mean over ranks"
	}
	a.printf("\n%s\n", p.head(title))
	t := table{heads: append([]string{"epoch", "ranks", "steps", "events"}, useHeads...)}
	rows := 0
	for i := 0; i < len(r.Epochs); {
		var sum stats.Use
		var n, steps, events int64
		number := r.Epochs[i].Epoch
		for ; i < len(r.Epochs) && r.Epochs[i].Epoch == number; i++ {
			e := &r.Epochs[i]
			addUse(&sum, &e.Use)
			n, steps, events = n+1, max(steps, e.Steps), events+e.Events
		}
		if rows++; rows <= maxRows {
			t.add(append([]string{count(number), count(n), count(steps), count(events)}, useCells(divUse(sum, n))...)...)
		}
	}
	t.write(a.stdout, p)
	if rows > maxRows {
		a.printf("  %s more are in --json\n", count(rows-maxRows))
	}
}

func (a *app) showNames(title string, list []stats.NameStat, n int, p painter) {
	a.printf("\n%s\n", p.head(title))
	var self int64
	for i := range list {
		self += list[i].Self
	}
	heads := []string{"<category", "<name", "count", "total", "self", "of self", "mean", "p50", "p99", "max"}
	if len(list) > 0 && list[0].Name == "" {
		heads = append(heads[:1], heads[2:]...)
	}
	t := table{heads: heads}
	for i := range list[:n] {
		s := &list[i]
		row := []string{shorten(s.Category, 24)}
		if s.Name != "" {
			row = append(row, shorten(printable(s.Name), 56))
		} else if len(heads) == 10 {
			row = append(row, "")
		}
		t.add(append(row, count(s.Count), micros(float64(s.Total)), micros(float64(s.Self)), percent(s.Self, self),
			micros(s.Mean), micros(float64(s.P50)), micros(float64(s.P99)), micros(float64(s.Max)))...)
	}
	t.write(a.stdout, p)
}

// printable keeps control characters of names away from the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '·'
		}
		return r
	}, s)
}

func addUse(sum, u *stats.Use) {
	sum.Wall += u.Wall
	sum.Compute += u.Compute
	sum.IO += u.IO
	sum.IOAlone += u.IOAlone
	sum.Comm += u.Comm
	sum.CommAlone += u.CommAlone
	sum.Rest += u.Rest
}

func divUse(u stats.Use, n int64) stats.Use {
	return stats.Use{Wall: u.Wall / n, Compute: u.Compute / n, IO: u.IO / n, IOAlone: u.IOAlone / n,
		Comm: u.Comm / n, CommAlone: u.CommAlone / n, Rest: u.Rest / n}
}

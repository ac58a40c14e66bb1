package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/stats"
	"github.com/trainspan/trainspan/dftracer"
)

type summaryOptions struct {
	top     int
	sort    string
	json    bool
	from    string
	to      string
	classes stats.Classes
}

func newSummary(a *app) *cobra.Command {
	var o summaryOptions
	def := stats.DefaultClasses()
	cmd := &cobra.Command{
		Use:   "summary FILE...",
		Short: "Tell where the time went",
		Long: `Adds up the time of one or several traces of a job.

Per rank and per epoch: how long something was computed, how long I/O and
communication took, and how much of these did not overlap with computing. Each
moment counts once there, however many spans it is in.

Per category and name: how often, the time in all, the time without the spans
that ran inside on the same lane (self), and how it is spread. Percentiles are
exact to 1.6 %.

--from and --to look at the spans that start in a stretch of time. With an index
(trainspan index) only the gzip members of that time are read.

Memory does not grow with the size of the traces.`,
		Example: `  trainspan summary trace.pfw.gz
  trainspan summary 'out/trace-*.pfw.gz' --top 50
  trainspan summary out/ --json | jq '.processes[] | {rank, io_unoverlapped_us}'
  trainspan summary trace.pfw.gz --from '2026-11-21 01:04:47' --to '2026-11-21 01:04:48'
  trainspan summary trace.pfw.gz --io 'posix*,stdio*,my_storage'`,
		ValidArgsFunction: traces,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.summary(cmd.Context(), args, &o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.top, "top", 25, "how many names to show; 0 shows all")
	f.StringVar(&o.sort, "sort", "self", "order of the names: self, total, count, mean, p99 or name")
	f.BoolVar(&o.json, "json", false, "print JSON with everything, times in microseconds")
	f.StringVar(&o.from, "from", "", "leave out spans that start before this time (UTC)")
	f.StringVar(&o.to, "to", "", "leave out spans that start at this time or later")
	f.StringSliceVar(&o.classes.Compute, "compute", def.Compute, "categories that are computing")
	f.StringSliceVar(&o.classes.IO, "io", def.IO, "categories that are I/O")
	f.StringSliceVar(&o.classes.Comm, "comm", def.Comm, "categories that are communication")
	words(cmd, "sort", sortWords...)
	return cmd
}

// fileSummary is the JSON of the summary command.
type fileSummary struct {
	Files []string `json:"files"`
	*stats.Result
}

func (a *app) summary(ctx context.Context, args []string, o *summaryOptions) error {
	if o.top < 0 {
		return usage("--top %d: give 0 or more", o.top)
	}
	order, ok := sortOrders[o.sort]
	if !ok {
		return usage("--sort %s: choose one of %s", o.sort, strings.Join(sortWords, ", "))
	}
	span, err := parseWindow(o.from, o.to)
	if err != nil {
		return err
	}
	files, err := expand(args)
	if err != nil {
		return err
	}
	agg := stats.New(&stats.Options{Classes: o.classes})
	hosts := make(map[string]string)
	bar := a.startProgress("summary", files)
	for _, path := range files {
		agg.NextFile()
		hashes, err := a.scanWindow(ctx, path, span, bar, func(ev *dftracer.Event) error {
			agg.Add(ev)
			if ev.Phase == dftracer.PhaseMetadata && ev.Name == dftracer.NameHostHash {
				hosts[ev.HostHash] = ""
			}
			return nil
		})
		if err != nil {
			bar.finish()
			return err
		}
		for hash := range hosts {
			if name, ok := hashes.Host(hash); ok {
				hosts[hash] = name
			}
		}
	}
	bar.finish()
	res := agg.Result()
	for i := range res.Processes {
		p := &res.Processes[i]
		p.Host = hosts[p.HostHash]
	}
	order(res.Names)
	if o.json {
		return a.printJSON(fileSummary{files, res})
	}
	a.showSummary(files, res, o)
	return nil
}

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

// sameFile reports whether two paths are one file.
func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errors.Join(errX, errY) == nil && os.SameFile(x, y)
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/heap"
	"github.com/trainspan/trainspan/internal/tracefile"
)

type summaryOptions struct {
	top     int
	sort    string
	json    bool
	filter  read.Filter
	classes spanstats.Classes
}

func newSummary(a *ui.App) *cobra.Command {
	var o summaryOptions
	cmd := &cobra.Command{
		Use:   "summary FILE...",
		Short: "Show the time by category, name and rank",
		Long: `Sums the time in traces of a job, or in JSON lines.

Per rank and per epoch: time of compute, I/O, communication and copies, and the
stalls: time with I/O or communication, but without compute. Idle is the rest. Each
moment counts once, even if several spans cover it. The attempts of a rank are summed,
attempts of different runs are not.

A rank with kernels in its PyTorch profile computes while a kernel runs, except those
of collectives; with --compute only the categories decide.

Per category and name: count, total time, time without child spans on the same lane
(self), and the distribution. Percentiles are exact to 1.6 %.

Memory does not grow with the size of the traces.`,
		Example: `  trainspan trace summary trace.pfw.gz
  trainspan trace summary 'out/trace-*.pfw.gz' --top 50
  trainspan trace summary out/ --json | jq '.processes[] | {rank, io_stall_us}'
  trainspan trace summary trace.pfw.gz --from +10m --to +11m
  trainspan trace summary out/ --rank 0-3 --epoch 2
  trainspan trace summary trace.pfw.gz --io 'posix*,stdio*,my_storage'`,
		ValidArgsFunction: read.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			heap.Bound(largeJob)
			o.classes.NoKernels = cmd.Flags().Changed("compute")
			return runSummary(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.top, "top", 25, "number of names to show; 0 shows all")
	f.StringVar(&o.sort, "sort", "self", "order of the names: self, total, count, mean, p99 or name")
	f.BoolVar(&o.json, "json", false, "print JSON with everything, times in microseconds")
	f.StringSliceVar(&o.classes.Compute, "compute", nil, "categories that count as compute (default: the known ones)")
	f.StringSliceVar(&o.classes.IO, "io", nil, "categories that count as I/O (default: the known ones)")
	f.StringSliceVar(&o.classes.Comm, "comm", nil, "categories that count as communication (default: the known ones)")
	f.StringSliceVar(&o.classes.Copy, "copy", nil, "categories that count as copies between host and device (default: the known ones)")
	o.filter.Flags(f)
	ui.Words(cmd, "sort", sortWords...)
	return cmd
}

// fileSummary is the JSON of the summary command.
type fileSummary struct {
	Files []string `json:"files"`
	*spanstats.Result
}

func runSummary(ctx context.Context, a *ui.App, args []string, o *summaryOptions) error {
	if o.top < 0 {
		return ui.Usage("--top %d: use 0 or more", o.top)
	}
	order, ok := sortOrders[o.sort]
	if !ok {
		return ui.Usage("--sort %s: choose one of %s", o.sort, strings.Join(sortWords, ", "))
	}
	args, imported, err := withTraces(ctx, a, args)
	if err != nil {
		return err
	}
	defer imported.remove()
	files, err := read.Expand(ctx, args)
	if err != nil {
		return err
	}
	if err := o.filter.Prepare(ctx, files); err != nil {
		return err
	}
	var agg *spanstats.Aggregator
	hosts := make(map[string]string)
	starts := rundir.All(args...)
	begin := func() { agg = spanstats.New(&spanstats.Options{Classes: o.classes, Starts: starts}) }
	who := o.filter.Who
	files = who.ByStart(files)
	err = read.Judged(ctx, a, "summary", files, &o.filter, begin, func(path string) (func(*dftracer.Event) error, func(*tracefile.Hashes) error) {
		agg.NextFile(who.File(path))
		take := func(ev *dftracer.Event) error {
			agg.Add(ev)
			if ev.Phase == dftracer.PhaseMetadata && ev.Name == tracefile.NameHostHash {
				hosts[ev.HostHash], _ = ev.Meta()
			}
			return nil
		}
		return take, func(hashes *tracefile.Hashes) error {
			for hash := range hosts {
				if name, ok := hashes.Host(hash); ok {
					hosts[hash] = name
				}
			}
			return nil
		}
	})
	if err != nil {
		return err
	}
	res := agg.Result()
	for i := range res.Processes {
		p := &res.Processes[i]
		p.Host = hosts[p.HostHash]
	}
	order(res.Names)
	if o.json {
		return a.PrintJSON(fileSummary{imported.names(files), res})
	}
	showSummary(a, imported.names(files), res, o.top, o.sort)
	return nil
}

func showSummary(a *ui.App, files []string, r *spanstats.Result, top int, sort string) {
	p := a.Paint(a.Stdout)
	what := files[0]
	if len(files) > 1 {
		what = display.Plural(len(files), "file")
	}
	a.Printf("%s  %s, %s\n", p.Head(what), display.Plural(r.Events, "event"), display.Plural(len(r.Processes), "process"))
	if r.Events == 0 {
		a.Printf("The trace, or this part of it, has no spans.\n")
		return
	}
	a.Printf("%s, from %s\n", display.Micros(float64(r.End-r.Start)), ui.Moment(r.Start))
	if slices.ContainsFunc(files, func(path string) bool { return fsread.Is(path, fsread.Records) }) {
		a.Printf("JSON lines have only exported spans, often without single steps, so idle time may be work.\n")
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
		title = fmt.Sprintf("Names: the first %d of %s by %s (--top 0 shows all)", names, display.Count(len(r.Names)), sort)
	}
	showNames(a, title, r.Names, names, p)
	if r.UnionError > 0 {
		a.Printf("\nTimes per rank may be up to %s too long: small gaps were closed to limit memory.\n", display.Micros(float64(r.UnionError)))
	}
	if r.TooDeep > 0 {
		a.Printf("\n%s deeper than 4,096 levels: their self time is too long.\n", display.Plural(r.TooDeep, "span"))
	}
}

const maxRows = 64

func useCells(u *spanstats.Use) []string {
	cell := func(us int64) string {
		if us == 0 {
			return "-"
		}
		return display.Micros(float64(us))
	}
	return []string{display.Micros(float64(u.Wall)), cell(u.Compute), display.Share(u.Compute, u.Wall),
		cell(u.IO), cell(u.IOStall), cell(u.Comm), cell(u.CommStall), cell(u.Copies), cell(u.Idle)}
}

var useHeads = []string{"wall", "compute", "of wall", "I/O", "I/O stall", "comm", "comm stall", "copies", "idle"}

// usePriority is the order in which columns are dropped on a narrow terminal.
var usePriority = []string{"events", "lanes", "pid", "I/O", "comm", "copies", "of wall", "steps"}

func showUse(a *ui.App, r *spanstats.Result, p ui.Painter) {
	a.Printf("\n%s\n", p.Head("Time of each rank"))
	attempts := slices.ContainsFunc(r.Processes, func(x spanstats.ProcessStat) bool { return x.Attempt > 1 })
	several := slices.ContainsFunc(r.Processes, func(x spanstats.ProcessStat) bool { return x.Run != "" })
	first := []string{"<rank"}
	if several {
		first = append(first, "<run")
	}
	if attempts {
		first = append(first, "attempt")
	}
	t := &display.Table{Heads: slices.Concat(first, []string{"pid", "lanes", "events"}, useHeads), Drop: usePriority, Empty: true}
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
		row = append(row, fmt.Sprint(x.PID), display.Count(x.Lanes), display.Count(x.Events))
		t.Add(append(row, useCells(&x.Use)...)...)
	}
	if len(r.Processes) > 1 {
		mean, _ := r.Mean()
		t.Add(slices.Concat([]string{"mean"}, make([]string, len(first)+2), useCells(&mean))...)
	}
	a.Table(a.Stdout, t)
	if attempts {
		a.Printf("  mean over ranks; the attempts of a rank are summed\n")
	}
	if slices.ContainsFunc(r.Processes, func(x spanstats.ProcessStat) bool { return x.Kernels }) {
		a.Printf("  compute is the time of kernels on devices; --compute compute,ai_framework uses\n  the host time instead\n")
	}
	if len(r.Processes) > maxRows {
		a.Printf("  %s more: see --json (the mean includes them)\n", display.Count(len(r.Processes)-maxRows))
	}
}

func showEpochs(a *ui.App, r *spanstats.Result, p ui.Painter) {
	means := r.EpochMeans()
	if len(means) == 0 {
		return
	}
	title := "Epochs"
	if len(r.Processes) > 1 {
		title = "Epochs, mean over ranks"
	}
	a.Printf("\n%s\n", p.Head(title))
	t := &display.Table{Heads: append([]string{"epoch", "ranks", "steps", "events"}, useHeads...), Drop: append([]string{"ranks"}, usePriority...), Empty: true}
	for i := range means[:min(len(means), maxRows)] {
		e := &means[i]
		t.Add(append([]string{display.Count(e.Epoch), display.Count(e.Ranks), display.Count(e.Steps), display.Count(e.Events)}, useCells(&e.Use)...)...)
	}
	a.Table(a.Stdout, t)
	if len(means) > maxRows {
		a.Printf("  %s more: see --json\n", display.Count(len(means)-maxRows))
	}
}

func showNames(a *ui.App, title string, list []spanstats.NameStat, n int, p ui.Painter) {
	a.Printf("\n%s\n", p.Head(title))
	var self int64
	for i := range list {
		self += list[i].Self
	}
	heads := []string{"<category", "<name", "count", "total", "self", "of self", "mean", "p50", "p99", "max"}
	if len(list) > 0 && list[0].Name == "" {
		heads = append(heads[:1], heads[2:]...)
	}
	t := &display.Table{Heads: heads, Drop: []string{"p50", "mean", "of self", "max", "p99", "category"}}
	for i := range list[:n] {
		s := &list[i]
		row := []string{display.Elide(s.Category, 24)}
		if s.Name != "" {
			row = append(row, display.Elide(s.Name, 56))
		} else if len(heads) == 10 {
			row = append(row, "")
		}
		t.Add(append(row, display.Count(s.Count), display.Micros(float64(s.Total)), display.Micros(float64(s.Self)), display.Share(s.Self, self),
			display.Micros(s.Mean), display.Micros(float64(s.P50)), display.Micros(float64(s.P99)), display.Micros(float64(s.Max)))...)
	}
	a.Table(a.Stdout, t)
}

var sortWords = []string{"self", "total", "count", "mean", "p99", "name"}

// sortOrders sort the names of a summary, largest first. They come sorted by
// self time, which decides between equals.
var sortOrders = map[string]func([]spanstats.NameStat){
	"self":  func([]spanstats.NameStat) {},
	"total": descending(func(s *spanstats.NameStat) float64 { return float64(s.Total) }),
	"count": descending(func(s *spanstats.NameStat) float64 { return float64(s.Count) }),
	"mean":  descending(func(s *spanstats.NameStat) float64 { return s.Mean }),
	"p99":   descending(func(s *spanstats.NameStat) float64 { return float64(s.P99) }),
	"name": func(list []spanstats.NameStat) {
		slices.SortStableFunc(list, func(a, b spanstats.NameStat) int {
			return cmp.Or(strings.Compare(a.Category, b.Category), strings.Compare(a.Name, b.Name))
		})
	},
}

func descending(value func(*spanstats.NameStat) float64) func([]spanstats.NameStat) {
	return func(list []spanstats.NameStat) {
		slices.SortStableFunc(list, func(a, b spanstats.NameStat) int { return cmp.Compare(value(&b), value(&a)) })
	}
}

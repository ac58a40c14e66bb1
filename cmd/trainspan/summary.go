package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/rundir"
	"github.com/trainspan/trainspan/internal/summary"
)

type summaryOptions struct {
	top     int
	sort    string
	json    bool
	filter  read.Filter
	classes summary.Classes
}

func newSummary(a *ui.App) *cobra.Command {
	var o summaryOptions
	cmd := &cobra.Command{
		Use:   "summary FILE...",
		Short: "Tell where the time went",
		Long: `Adds up the time of one or several traces of a job, or of JSON lines.

Per rank and per epoch: how long something was computed, how long I/O,
communication and copies took, and the stalls: how long there was I/O or
communication while nothing was computed. Idle is none of the four. Each moment
counts once there, however many spans it is in. The attempts of a rank add up, those
of different runs do not.

A rank with kernels in its PyTorch profile computes while one of these runs, those
of collectives aside; with --compute the categories alone decide.

Per category and name: how often, the time in all, the time without the spans
that ran inside on the same lane (self), and how it is spread. Percentiles are
exact to 1.6 %.

Memory does not grow with the size of the traces.`,
		Example: `  trainspan summary trace.pfw.gz
  trainspan summary 'out/trace-*.pfw.gz' --top 50
  trainspan summary out/ --json | jq '.processes[] | {rank, io_stall_us}'
  trainspan summary trace.pfw.gz --from +10m --to +11m
  trainspan summary out/ --rank 0-3 --epoch 2
  trainspan summary trace.pfw.gz --io 'posix*,stdio*,my_storage'`,
		ValidArgsFunction: ui.Traces,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.classes.NoKernels = cmd.Flags().Changed("compute")
			return runSummary(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.top, "top", 25, "how many names to show; 0 shows all")
	f.StringVar(&o.sort, "sort", "self", "order of the names: self, total, count, mean, p99 or name")
	f.BoolVar(&o.json, "json", false, "print JSON with everything, times in microseconds")
	f.StringSliceVar(&o.classes.Compute, "compute", nil, "categories that are computing; without, those that mean it")
	f.StringSliceVar(&o.classes.IO, "io", nil, "categories that are I/O; without, those that mean it")
	f.StringSliceVar(&o.classes.Comm, "comm", nil, "categories that are communication; without, those that mean it")
	f.StringSliceVar(&o.classes.Copy, "copy", nil, "categories that are copies between host and device; without, those that mean it")
	o.filter.Flags(f)
	ui.Words(cmd, "sort", sortWords...)
	return cmd
}

// fileSummary is the JSON of the summary command.
type fileSummary struct {
	Files []string `json:"files"`
	*summary.Result
}

func runSummary(ctx context.Context, a *ui.App, args []string, o *summaryOptions) error {
	if o.top < 0 {
		return ui.Usage("--top %d: give 0 or more", o.top)
	}
	order, ok := sortOrders[o.sort]
	if !ok {
		return ui.Usage("--sort %s: choose one of %s", o.sort, strings.Join(sortWords, ", "))
	}
	files, err := read.Expand(args)
	if err != nil {
		return err
	}
	if err := o.filter.Prepare(ctx, files); err != nil {
		return err
	}
	var agg *summary.Aggregator
	hosts := make(map[string]string)
	starts := rundir.All(args...)
	begin := func() { agg = summary.New(&summary.Options{Classes: o.classes, Starts: starts}) }
	who := o.filter.Who
	files = who.ByStart(files)
	err = read.Judged(ctx, a, "summary", files, &o.filter, begin, func(path string) (func(*dftracer.Event) error, func(*dft.Hashes) error) {
		agg.NextFile(who.File(path))
		take := func(ev *dftracer.Event) error {
			agg.Add(ev)
			if ev.Phase == dftracer.PhaseMetadata && ev.Name == dft.NameHostHash {
				hosts[ev.HostHash], _ = ev.Meta()
			}
			return nil
		}
		return take, func(hashes *dft.Hashes) error {
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
		return a.PrintJSON(fileSummary{files, res})
	}
	showSummary(a, files, res, o.top, o.sort)
	return nil
}

package main

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/tracefile"
)

type mergeOptions struct {
	output, dialect string
	force, json     bool
	nesting         bool
	filter          read.Filter
}

func newMerge(a *ui.App) *cobra.Command {
	var o mergeOptions
	cmd := &cobra.Command{
		Use:   "merge FILE... -o OUTPUT",
		Short: "Merge several traces into one",
		Long: `Writes the events of several traces, such as the ranks of a job or the parts of a
rotated trace, into one. Ids are renumbered to be unique; processes on different hosts
or in different attempts with the same pid too. The traces follow each other, each in its own order, which
viewers and analyzers accept. A trace that cannot be read is reported and skipped.

Without --dialect, the dialect is that of the first trace.`,
		Example: `  trainspan trace merge out/rank-*.pfw.gz -o job.pfw.gz
  trainspan trace merge out/ -o job.pfw.gz --dialect v2 --force`,
		ValidArgsFunction: read.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runMerge(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", `trace to write, .pfw.gz or .pfw; "-" is standard output`)
	f.StringVar(&o.dialect, "dialect", "", "dialect to write: v1, v2 or v22")
	f.BoolVar(&o.nesting, "nesting", false, "write level and p_idx in dialect v22 too")
	f.BoolVar(&o.force, "force", false, "replace the output when it exists")
	f.BoolVar(&o.json, "json", false, "print a JSON object with the counts")
	ui.Words(cmd, "dialect", dialectWords...)
	o.filter.Flags(f)
	return cmd
}

func runMerge(ctx context.Context, a *ui.App, args []string, o *mergeOptions) error {
	args, imported, err := withTraces(ctx, a, args)
	if err != nil {
		return err
	}
	defer imported.remove()
	files, err := read.Expand(ctx, args)
	if err != nil {
		return err
	}
	if o.output == "" {
		return ui.Usage("no output is given; add -o job.pfw.gz")
	}
	if o.output == "-" && o.json {
		return ui.Usage("--json and -o - both use standard output; choose one")
	}
	if o.output != "-" {
		if err := ui.CheckOutput(o.output, o.force, files); err != nil {
			return err
		}
	}
	if err := o.filter.Prepare(ctx, files); err != nil {
		return err
	}
	bar := a.StartProgress("merge", append(slices.Clone(files), files...))
	defer bar.Finish()
	surveys, err := surveyEach(ctx, a, files, &o.filter, bar)
	if err != nil {
		return err
	}
	opts := dftracer.Options{Dialect: surveys[0].dialect}
	if o.dialect != "" {
		if opts.Dialect, err = parseDialect(o.dialect); err != nil {
			return err
		}
	}
	n, err := writeMerged(ctx, a, surveys, o, opts, bar)
	bar.Finish()
	if err != nil {
		return err
	}
	if o.json {
		var merged []string
		for _, s := range surveys {
			merged = append(merged, s.path)
		}
		return a.PrintJSON(map[string]any{"output": o.output, "files": imported.names(merged), "events": n, "dialect": opts.Dialect.String()})
	}
	if o.output != "-" {
		a.Printf("%s: %s of %s\n", o.output, display.Plural(n, "event"), display.Plural(len(surveys), "trace"))
	}
	return nil
}

// surveyEach surveys the traces to be merged, without unreadable ones.
func surveyEach(ctx context.Context, a *ui.App, files []string, q *read.Filter, bar *ui.Progress) ([]*survey, error) {
	surveys := make([]*survey, 0, len(files))
	err := a.Each(ctx, files, func(path string) error {
		s, err := surveyAll(ctx, a, path, q, bar, true)
		if err == nil {
			surveys = append(surveys, s)
		}
		return err
	})
	return surveys, err
}

// mergeFor writes some traces completely to one, for another command.
func mergeFor(ctx context.Context, a *ui.App, files []string, output string) error {
	o := mergeOptions{output: output}
	if err := o.filter.Prepare(ctx, files); err != nil {
		return err
	}
	bar := a.StartProgress("merge", append(slices.Clone(files), files...))
	defer bar.Finish()
	surveys, err := surveyEach(ctx, a, files, &o.filter, bar)
	if err != nil {
		return err
	}
	_, err = writeMerged(ctx, a, surveys, &o, dftracer.Options{Dialect: surveys[0].dialect, Level: 1}, bar)
	return err
}

// common returns the process of the first trace, with the place in a job that
// all of them share, because a reader assumes that processes without one belong
// to the same job.
func common(surveys []*survey) dftracer.Process {
	p := surveys[0].process()
	for _, s := range surveys[1:] {
		o := s.process()
		if o.WorldSize != p.WorldSize {
			p.WorldSize = 0
		}
		if o.Attempt == nil || p.Attempt == nil || *o.Attempt != *p.Attempt {
			p.Attempt = nil
		}
		if o.JobID != p.JobID {
			p.JobID = ""
		}
		if o.SessionTag != p.SessionTag {
			p.SessionTag = ""
		}
	}
	return p
}

// writeMerged writes the traces one after the other.
func writeMerged(ctx context.Context, a *ui.App, surveys []*survey, o *mergeOptions, opts dftracer.Options, bar *ui.Progress) (events int64, err error) {
	var now clock
	opts.Process, opts.Now = common(surveys), now.now
	if o.nesting {
		opts.Nesting = dftracer.NestingOn
	}
	for _, s := range surveys {
		if t := now.us.Load(); t == 0 || s.startTime < t {
			now.us.Store(s.startTime)
		}
	}
	out, err := createTrace(ctx, a, o.output, o.force, nil, &opts)
	if err != nil {
		return 0, err
	}
	if !o.filter.All() {
		tracefile.WriteCustom(out, tracefile.KeyPart, "1") // parents may be left out
	}
	pids := distinctPIDs(surveys)
	base, end := firstID(surveys...), int64(0)
	var all []*rewriter
	for _, s := range surveys {
		r := newRewriter(out.Writer, s, base)
		all = append(all, r)
		r.pids = pids[s]
		err = passThrough(ctx, s, bar, func(ev *dftracer.Event) error {
			if ev.Cat != dftracer.CatDFTracer {
				events++
			}
			r.write(ev)
			return out.failed()
		})
		if err != nil {
			break
		}
		base += s.maxID
		end = max(end, s.endTime)
	}
	now.us.Store(end)
	sayEnd(out.Writer, all...)
	return events, out.finish(err)
}

// distinctPIDs returns new ids for processes that share one: on different hosts,
// or in different attempts, as in a container that restarts.
func distinctPIDs(surveys []*survey) map[*survey]map[job.Key]int64 {
	type owner struct {
		host string
		pid  int64
	}
	type process struct {
		attempt int // -1 is unknown, and may be any
		pid     int64
	}
	taken := make(map[int64]bool)
	known := make(map[owner][]process)
	pids := make(map[*survey]map[job.Key]int64)
	highest := int64(0)
	for _, s := range surveys {
		for key := range s.procs {
			highest = max(highest, key.PID)
		}
	}
	for _, s := range surveys {
		attempt := s.origin().attempt
		pids[s] = make(map[job.Key]int64)
		keys := slices.SortedFunc(maps.Keys(s.procs), func(a, b job.Key) int {
			return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(s.hostName(a.Host), s.hostName(b.Host)))
		})
		for _, key := range keys {
			who := owner{s.hostName(key.Host), key.PID}
			i := slices.IndexFunc(known[who], func(p process) bool { return p.attempt == attempt || p.attempt < 0 || attempt < 0 })
			if i < 0 {
				pid := key.PID
				if taken[pid] {
					highest++
					pid = highest
				}
				taken[pid] = true
				i, known[who] = len(known[who]), append(known[who], process{attempt, pid})
			}
			p := &known[who][i]
			p.attempt = max(p.attempt, attempt)
			pids[s][key] = p.pid
		}
	}
	return pids
}

package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/tracefile"
)

type convertOptions struct {
	to, output  string
	run         string
	part        bool
	nesting     bool
	force, json bool
	filter      read.Filter
}

var convertWords = []string{"v1", "v2", "v22", "chrome", "otlp", "parquet"}

func newConvert(a *ui.App) *cobra.Command {
	var o convertOptions
	cmd := &cobra.Command{
		Use:   "convert FILE... --to FORMAT -o OUTPUT",
		Short: "Write a trace in another dialect or format",
		Long: `Writes a trace in another dialect or format:

  v1, v2, v22  a dialect of the trace format, with its hashes, phases and framing
  chrome       one JSON array with commas, for chrome://tracing, Perfetto and
               tools that need strict JSON; file names replace their hashes, and
               arrows lead from launches to kernels and from forward to backward
  otlp         OTLP as JSON lines, for an OpenTelemetry Collector's otlpjsonfile
               receiver or trainspan trace replay; one trace per process
  parquet      a directory of Parquet files for DuckDB, Spark and other engines:
               tables of the events, the steps and the goodput ledger, for any
               number of runs. Without --run, the session tag or job id names the
               run. With --part each node adds its ranks, and one node adds the
               ledger, from digests

chrome and otlp outputs are compressed if the name ends in .gz. With several
traces, -o is a directory. Without --nesting, v22 has no level and no p_idx, so
converting back loses the parents.`,
		Example: `  trainspan trace convert old.pfw.gz --to v2 -o new.pfw.gz
  trainspan trace convert trace.pfw.gz --to chrome -o trace.json.gz
  trainspan trace convert trace.pfw.gz --to chrome -o - | gzip > trace.json.gz
  trainspan trace convert trace.pfw.gz --to otlp -o spill/trace.otlp.jsonl
  trainspan trace convert out/demo --to parquet -o lake --run demo-1
  trainspan trace convert /local/traces --to parquet -o /shared/lake --run demo-2 --part
  trainspan trace convert /shared/digests --to parquet -o /shared/lake --run demo-2 --part`,
		ValidArgsFunction: read.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runConvert(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "format: v1, v2, v22, chrome, otlp or parquet")
	f.StringVarP(&o.output, "output", "o", "", `file to write, or directory for several traces; "-" is standard output`)
	f.StringVar(&o.run, "run", "", "name of the run in a parquet output")
	f.BoolVar(&o.part, "part", false, "the files are some ranks of a run: add them to the parquet output, or replace them in it")
	f.BoolVar(&o.nesting, "nesting", false, "write level and p_idx in dialect v22 too")
	f.BoolVar(&o.force, "force", false, "replace the output when it exists")
	f.BoolVar(&o.json, "json", false, "print a JSON array with one object per output")
	ui.Words(cmd, "to", convertWords...)
	o.filter.Flags(f)
	return cmd
}

// converted is the JSON of the convert command about one file.
type converted struct {
	File   string `json:"file"`
	Output string `json:"output"`
	Events int64  `json:"events"`
}

func runConvert(ctx context.Context, a *ui.App, args []string, o *convertOptions) error {
	toParquet := o.to == "parquet"
	switch {
	case o.to == "":
		return ui.Usage("no format is given; add --to with one of %s", strings.Join(convertWords, ", "))
	case !slices.Contains(convertWords, o.to):
		return ui.Usage("--to %s: choose one of %s", o.to, strings.Join(convertWords, ", "))
	case o.output == "":
		return ui.Usage("no output is given; add -o FILE")
	case o.run != "" && !toParquet:
		return ui.Usage("--run %s: use it with --to parquet only", o.run)
	case o.part && !toParquet:
		return ui.Usage("--part: use it with --to parquet only")
	case o.part && o.filter.Given():
		return ui.Usage("--part: remove the filters; filtered ranks would look like missing ranks")
	case o.nesting && toParquet:
		return ui.Usage("--nesting: use it for traces only; a parquet output always has the parents of each span")
	}
	args, imported, err := withTraces(ctx, a, args)
	if err != nil {
		return err
	}
	defer imported.remove()
	if o.part {
		digests, traces := digestsIn(args)
		if len(digests) > 0 && traces {
			return ui.Usage("%s: a digest has a ledger and no events; convert digests and traces separately", digests[0])
		}
		if len(digests) > 0 {
			return convertDigests(ctx, a, digests, o)
		}
	}
	files, err := read.Expand(ctx, args)
	switch {
	case err != nil:
		return err
	case toParquet:
		return convertParquet(ctx, a, args, files, o)
	case o.output == "-" && (o.json || len(files) > 1):
		return ui.Usage("-o - works with one trace and without --json; write to files instead")
	}
	outputs, err := convertOutputs(files, o)
	if err != nil {
		return err
	}
	if err := o.filter.Prepare(ctx, files); err != nil {
		return err
	}
	bar := a.StartProgress("convert", append(slices.Clone(files), files...))
	defer bar.Finish()
	all := make([]converted, 0, len(files))
	err = a.Each(ctx, files, func(path string) error {
		s, err := surveyAll(ctx, a, path, &o.filter, bar, o.to != "chrome" && o.to != "otlp")
		if err != nil {
			return err
		}
		output := outputs[slices.Index(files, path)]
		n, err := convertOne(ctx, a, s, output, o, bar)
		if err == nil {
			all = append(all, converted{imported.name(path), output, n})
		}
		return err
	})
	bar.Finish()
	if err != nil {
		return err
	}
	if o.json {
		return a.PrintJSON(all)
	}
	for _, c := range all {
		if c.Output != "-" {
			a.Printf("%s: %s\n", c.Output, display.Plural(c.Events, "event"))
		}
	}
	return nil
}

// convertOutputs returns the output file for each trace.
func convertOutputs(files []string, o *convertOptions) ([]string, error) {
	info, err := os.Stat(o.output)
	isDir := err == nil && info.IsDir()
	if !isDir {
		if len(files) > 1 {
			return nil, ui.Usage("%s: %d traces need an output directory; create it first", o.output, len(files))
		}
		if o.output != "-" {
			err = ui.CheckOutput(o.output, o.force, files)
		} else {
			err = nil
		}
		return []string{o.output}, err
	}
	ext := map[string]string{"chrome": ".json", "otlp": ".otlp.jsonl"}[o.to]
	if ext == "" {
		ext = ".pfw.gz"
	}
	var out []string
	for _, f := range files {
		path := filepath.Join(o.output, strings.TrimSuffix(strings.TrimSuffix(filepath.Base(f), ".gz"), ".pfw")+ext)
		if slices.Contains(out, path) {
			return nil, ui.Usage("%s: two traces would be written to this file; convert them one by one", path)
		}
		if err := ui.CheckOutput(path, o.force, files); err != nil {
			return nil, err
		}
		out = append(out, path)
	}
	return out, nil
}

func convertOne(ctx context.Context, a *ui.App, s *survey, output string, o *convertOptions, bar *ui.Progress) (int64, error) {
	if o.to == "chrome" || o.to == "otlp" {
		return exportText(ctx, a, s, output, o, bar)
	}
	d, err := parseDialect(o.to)
	if err != nil {
		return 0, err
	}
	var now clock
	now.us.Store(s.startTime)
	opts := dftracer.Options{Dialect: d, Process: s.process(), Now: now.now}
	if o.nesting {
		opts.Nesting = dftracer.NestingOn
	}
	out, err := createTrace(ctx, a, output, o.force, nil, &opts)
	if err != nil {
		return 0, err
	}
	if s.filter != nil {
		tracefile.WriteCustom(out, tracefile.KeyPart, "1") // parents may be left out
	}
	r := newRewriter(out.Writer, s, firstID(s))
	var n int64
	err = passThrough(ctx, s, bar, func(ev *dftracer.Event) error {
		if ev.Cat != dftracer.CatDFTracer {
			n++
		}
		r.write(ev)
		return out.failed()
	})
	now.us.Store(s.endTime)
	sayEnd(out.Writer, r)
	return n, out.finish(err)
}

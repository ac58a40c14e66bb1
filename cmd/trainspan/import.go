package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/ingest/torch/torchrules"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/heap"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

type importOptions struct {
	output    string
	force     bool
	json      bool
	quiet     bool
	verbose   bool
	dialect   string
	level     string
	budget    int
	job       string
	rank      int64
	epoch     int64
	memory    int64
	rule      []string
	ruleFile  string
	showRules bool
	torch.Options
	otlp otlpFlags
}

func (o *importOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "", "trace to write, .pfw.gz or .pfw; for rings, the output directory")
	f.StringVar(&o.dialect, "dialect", "v2", "dialect to write: v1, v2 or v22")
	f.BoolVar(&o.PythonStacks, "python-stacks", false, "also import the rows of Python functions")
	f.BoolVar(&o.NoInference, "no-inference", false, "omit inferred events")
	f.BoolVar(&o.NoAlignment, "no-alignment", false, "do not align the clocks of the ranks")
	f.DurationVar(&o.MaxSkew, "max-skew", 10*time.Minute, "largest possible difference between the clocks of ranks")
	f.StringArrayVar(&o.rule, "rule", nil, `rule for names, such as "kernel comm.all_reduce ^mylib::"; may be given several times`)
	f.StringVar(&o.ruleFile, "rule-file", "", "file with one rule per line; --rules prints the built-in ones in its format")
	f.StringVar(&o.Host, "host", "", "host name for traces without one")
	f.Int64Var(&o.rank, "rank", -1, "rank of a trace without one")
	f.Int64Var(&o.epoch, "epoch", -1, "epoch of every event (-1: none)")
	f.Int64Var(&o.memory, "memory", 64, "MiB of memory for sorting; the rest uses a temporary file")
	f.StringVar(&o.level, "span-level", "annotation", "deepest level of OTLP spans: step, phase, annotation, op or kernel")
	f.IntVar(&o.budget, "span-budget", 10000, "largest number of OTLP spans; -1 for no limit")
	f.StringVar(&o.job, "job", "", "job name, an attribute of OTLP spans")
	o.otlp.add(f, "otlp-", "without it nothing is sent")
	ui.Words(cmd, "dialect", dialectWords...)
	ui.Words(cmd, "span-level", "step", "phase", "annotation", "op", "kernel")
	ui.Words(cmd, "otlp-protocol", "http/protobuf", "grpc")
}

func newImport(a *ui.App) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE|DIRECTORY...",
		Short: "Convert profiler files, compile logs and rings to traces",
		Long: `Reads files of torch.profiler and torch.compile (Chrome traces, plain, .gz or in a tar
of ranks, and TORCH_TRACE logs) and writes one trace, sends OTLP spans, or both. Several
ranks are aligned on one time axis. A directory means the profiler files in it. The
report lists what was skipped, what was inferred, and what is unknown.

Rules decide which annotations and operators become events of the AI categories, and
the kind of work of a kernel. --rules prints them; rules of --rule and --rule-file come
first.

Rings that Python processes left behind (.ring, with .names) become one trace per
process and, if the program uses one-logger's callbacks, JSON lines. The output is in
the directory of -o, or that of the rings. Rings are not changed, except those of the
directory of a trainspan run: they are deleted when their spans are in files.

The journal of an OTLP receiver that was killed (otlp.N.journal, in the directory of a
trainspan run) has spans that are not in a trace yet: each is added once to the traces
of its directory, and the journal is deleted.

OTLP spans are sent only with --otlp-endpoint; headers, protocol and certificates come
from the OTEL_EXPORTER_OTLP_ variables.
The status is 1 if a file was rejected or damaged; the others are imported.`,
		Example: `  trainspan trace import profiler/ -o run.pfw.gz
  trainspan trace import rank*.pt.trace.json.gz -o run.pfw.gz --quiet
  trainspan trace import rings/ -o traces/
  trainspan trace import trace.json --otlp-endpoint http://localhost:4318 --span-level phase`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"json", "gz", "tar", "log", "ring"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			heap.Bound(largeJob)
			return runImport(cmd.Context(), a, args, &o)
		},
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&o.force, "force", false, "replace the output when it exists")
	cmd.Flags().BoolVarP(&o.quiet, "quiet", "q", false, "print no report")
	cmd.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "print all details of each file")
	cmd.Flags().BoolVar(&o.showRules, "rules", false, "print the rules and exit")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the report as JSON")
	return cmd
}

// settings validates the flags and returns the options of torch.Import.
func (o *importOptions) settings(ctx context.Context, lookup func(string) (string, bool)) (*torch.Options, func(context.Context) error, error) {
	d, err := parseDialect(o.dialect)
	if err != nil {
		return nil, nil, err
	}
	level := torch.Level(o.level)
	if !slices.Contains([]torch.Level{torch.LevelStep, torch.LevelPhase, torch.LevelAnnotation, torch.LevelOp, torch.LevelKernel}, level) {
		return nil, nil, ui.Usage("--span-level %s: choose one of step, phase, annotation, op, kernel", o.level)
	}
	if o.memory < 1 {
		return nil, nil, ui.Usage("--memory %d: use 1 MiB or more", o.memory)
	}
	rules, err := o.rules()
	if err != nil {
		return nil, nil, err
	}
	opts := o.Options
	opts.Dialect, opts.Memory = d, o.memory<<20
	if o.epoch >= 0 {
		opts.Epoch, opts.HasEpoch = o.epoch, true
	}
	if len(rules.Rows) > 0 {
		opts.Rules = append(rules.Rows, torchrules.Annotations()...)
	}
	opts.DeviceRules = rules.Kernels
	if o.rank >= 0 {
		opts.Rank = &o.rank
	}
	exp, err := o.otlp.asked(ctx, lookup)
	if err != nil {
		return nil, nil, err
	}
	if exp == nil {
		return &opts, func(context.Context) error { return nil }, nil
	}
	opts.Spans = &torch.SpanOptions{Exporter: delivery.Patient(exp), Level: level, Budget: o.budget, Job: o.job}
	return &opts, exp.Shutdown, nil
}

func runImport(ctx context.Context, a *ui.App, args []string, o *importOptions) error {
	if o.showRules {
		return o.printRules(a)
	}
	paths, err := importPaths(args)
	if err != nil {
		return err
	}
	found := leftReport{Rings: []ringReport{}}
	left, err := importLeft(ctx, a, paths, o, &found)
	spans, spansErr := importJournals(ctx, a, paths, o, &found)
	if err = errors.Join(err, spansErr); left || spans || err != nil {
		noteProfiles(a, paths)
		if o.json && (err == nil || len(found.Rings) > 0 || found.Journals != nil) {
			err = errors.Join(err, a.PrintJSON(&found))
		}
		return err
	}
	if done, err := importRings(ctx, a, paths, o); done {
		return err
	}
	if o.output != "" && o.output != "-" {
		if err := ui.CheckOutput(o.output, o.force, paths); err != nil {
			return err
		}
	}
	opts, shutdown, err := o.settings(ctx, a.Streams.Lookup)
	if err != nil {
		return err
	}
	if o.output == "" && opts.Spans == nil {
		if rundir.Any(paths...) {
			elsewhere := noteElsewhere(a, paths)
			switch {
			case o.json:
				return a.PrintJSON(&found)
			case !elsewhere && !o.quiet:
				a.Printf("nothing is left to import: all data that trainspan run recorded is in its files\n")
			}
			return nil
		}
		return ui.Usage("no output is given; add -o trace.pfw.gz or --otlp-endpoint URL")
	}
	sources, err := torch.Files(paths...)
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		return ui.Usage("%s: no profiler file found; name the directory that PyTorch writes to", strings.Join(args, ", "))
	}
	var out *traceFile
	if o.output != "" {
		opts.Begin = func(start time.Time) (torch.Sink, error) {
			out, err = createTrace(ctx, a, o.output, o.force, paths, &dftracer.Options{Dialect: opts.Dialect, Level: 1, Start: start})
			if err != nil {
				return nil, err
			}
			return out.Writer, nil
		}
	}
	bar := a.StartSpinner("import")
	report, err := torch.Import(ctx, nil, sources, opts)
	bar.Finish()
	// The trace is kept if spans were not delivered.
	lost := undelivered(report, err)
	if lost {
		err = nil
	}
	if stop := shutdown(context.WithoutCancel(ctx)); stop != nil && !lost {
		a.Problem("spans were not delivered: %s; see "+helptopic.Delivery, ui.Explain(stop))
	}
	if out != nil {
		err = out.finish(err)
	}
	if err != nil {
		for _, x := range report.Failed[:max(len(report.Failed)-1, 0)] {
			a.Problem("%s: %s; see "+helptopic.Profile, x.Name, ui.Explain(x.Err))
		}
		return importError(err)
	}
	judgeImport(a, report)
	return showImport(a, report, o, out != nil)
}

// noteProfiles reports the profiles among paths whose other files were imported.
func noteProfiles(a *ui.App, paths []string) {
	sources, _ := torch.Files(paths...) // what cannot be read is no profile
	n := 0
	for _, s := range sources {
		if kind, err := fsread.KindOf(s.Name); err == nil && kind.Profiler() {
			n++
		}
	}
	if n > 0 {
		a.Note("%s not imported, because these paths have records of a run, too; import them in another command", display.Plural(n, "profiler file"))
	}
}

// undelivered reports whether the events of an import were written to the trace
// and not all of its spans were delivered.
func undelivered(r *torch.Report, err error) bool {
	return err != nil && r != nil && r.Spans != nil && errors.Is(err, r.Spans.Err)
}

// printRules prints the tables for an import, the user's rules first.
func (o *importOptions) printRules(a *ui.App) error {
	t, err := o.rules()
	if err != nil {
		return err
	}
	t.Rows = append(t.Rows, torchrules.Annotations()...)
	t.Kernels = append(t.Kernels, torchrules.Kernels()...)
	_, err = t.WriteTo(a.Stdout)
	return err
}

// rules reads the rules of the flags and of the file.
func (o *importOptions) rules() (torchrules.Table, error) {
	t, err := torchrules.Parse(strings.NewReader(strings.Join(o.rule, "\n")))
	if err != nil {
		return t, ui.Usage("--rule: %v", err)
	}
	if o.ruleFile == "" {
		return t, nil
	}
	f, err := os.Open(o.ruleFile)
	if err != nil {
		return t, err
	}
	defer f.Close()
	more, err := torchrules.Parse(f)
	if err != nil {
		return t, ui.Usage("--rule-file %s: %v", o.ruleFile, err)
	}
	t.Rows, t.Kernels = append(t.Rows, more.Rows...), append(t.Kernels, more.Kernels...)
	return t, nil
}

// importPaths expands patterns and leaves directories to the importer.
func importPaths(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, ui.Usage("no file is given; name the profiler's files or their directory")
	}
	var out []string
	for _, arg := range args {
		if _, err := os.Stat(arg); err == nil {
			out = append(out, arg)
			continue
		} else if !strings.ContainsAny(arg, "*?[") {
			for _, r := range rundir.Attempts(time.Now(), rundir.Roots()...) {
				if r.ID() == arg {
					return nil, ui.Usage("%s: import takes the directory of a run: %s", arg, r.Dir)
				}
			}
			return nil, err
		}
		found, err := filepath.Glob(arg)
		if err != nil || len(found) == 0 {
			return nil, ui.Usage("%s: no file matches; check the pattern", arg)
		}
		out = append(out, found...)
	}
	for _, path := range out {
		if fsread.NamedTrace(path) || !fsread.NamedProfile(path) && fsread.Is(path, fsread.Trace) {
			return nil, ui.Usage("%s: is a trace already; use trainspan trace merge or trainspan trace convert", path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// judgeImport reports what was not imported.
func judgeImport(a *ui.App, r *torch.Report) {
	for _, x := range r.Copies {
		a.Note("%s: %s", x.Name, x.Err)
	}
	for _, x := range r.Refused {
		a.Problem("%s: not imported: %s; see "+helptopic.Profile, x.Name, strings.TrimPrefix(strings.TrimPrefix(x.Err.Error(), "kineto: "), "not a profiler trace: "))
	}
	for _, x := range r.Failed {
		a.Problem("%s: %s; see "+helptopic.Profile, x.Name, ui.Explain(x.Err))
	}
	for _, f := range r.Files {
		if f.Skipped > 0 {
			a.Problem("%s: %s of damaged text skipped; see "+helptopic.Profile, f.Name, display.Bytes(f.SkippedBytes))
		}
		if f.Truncated {
			a.Problem("%s: truncated at byte %d; the events before it were imported; see "+helptopic.Profile, f.Name, f.TruncatedAt)
		}
	}
	if s := r.Spans; s != nil && s.Err != nil {
		a.Problem("spans were not delivered: %v; see "+helptopic.Delivery, s.Err)
	}
}

// importError adds the exit status to an error of the importer.
func importError(err error) error {
	if ui.IsSystem(err) || errors.Is(err, context.Canceled) {
		return err
	}
	var known *ui.StatusError
	if errors.As(err, &known) {
		return err
	}
	return ui.BadData("%w; see %s", err, helptopic.Profile)
}

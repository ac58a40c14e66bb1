package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/heap"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/report"
)

type reportOptions struct {
	json  bool
	full  bool
	html  string
	check bool
	run   string
	all   bool

	flops, peak float64
}

// largeJob is the memory above which reading a job collects garbage often.
const largeJob = 128 << 20

func newReport(a *ui.App) *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report [RUN|FILE...]",
		Short: "Show where a job's time went, and which rank is slow",
		Long: `Reads all telemetry of a job (traces and JSON lines, of all ranks and attempts; or
profiles and compile logs of PyTorch, alone or in a tar, if there is nothing else)
and answers on one screen: how the job ended, what costs most and why, what to do
next, and where the time went. --full adds the detailed tables.

Name a run by its id (train.3), by its job for the newest run (train), relative to the
newest (latest~1), or by its files. Without an argument, the newest run in
trainspan-runs is reported.

--html also writes one file with charts. It needs no network and loads nothing.

If the files have several jobs, the one with the most processes is reported; if it has
several runs, the latest. The others are listed.

With --check the exit status is the answer: 0 no slow rank; 3 a slow rank, or another
problem that costs time in the steps; 4 not enough data.`,
		Example: `  trainspan report
  trainspan report train.3
  trainspan report out/demo
  trainspan report out/demo --full
  trainspan report out/demo --html report.html
  trainspan report out/demo --json | jq .verdict
  trainspan report out/job --check`,
		ValidArgsFunction: read.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			heap.Bound(largeJob)
			return runReport(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print JSON with everything")
	f.BoolVar(&o.full, "full", false, "print all tables: ledger, attempts, ranks, steps, checkpoints, files, data")
	f.StringVar(&o.html, "html", "", "write a report with charts to this `file`")
	f.BoolVar(&o.check, "check", false, "exit with status 3 if a rank is slow, with 4 if the data is not sufficient")
	f.StringVar(&o.run, "run", "", "report the run with this `id`, as trainspan runs lists it")
	f.BoolVar(&o.all, "all", false, "report all runs, one after the other, the latest first")
	f.Float64Var(&o.flops, "flops-per-step", 0, "operations per step, forward and backward, of all ranks; with --peak the report has MFU, and MFU without each loss")
	f.Float64Var(&o.peak, "peak", 0, "peak operations per second of one device, such as 989e12")
	cmd.MarkFlagsMutuallyExclusive("run", "all")
	cmd.MarkFlagsMutuallyExclusive("html", "all")
	cmd.MarkFlagsMutuallyExclusive("full", "json")
	return cmd
}

func runReport(ctx context.Context, a *ui.App, args []string, o *reportOptions) error {
	if o.html != "" {
		_, err := os.Stat(filepath.Dir(o.html))
		if err := cmp.Or(err, fswrite.Check(o.html, report.IsPage)); err != nil {
			return ui.Usage("%s", ui.Explain(notPage(o.html, err)))
		}
	}
	if len(args) == 0 && (o.all || o.run != "") {
		args = rundir.Roots()
	}
	newest := len(args) == 0
	refs, err := read.Resolve(ctx, args)
	if err != nil {
		return err
	}
	if newest && refs[0].Run != "" {
		a.Note("the newest run: %s; trainspan runs lists all", refs[0].Run)
	}
	args = nil
	for i := range refs {
		args = append(args, refs[i].Paths...)
	}
	basis, err := o.limits(a.Streams.Lookup)
	if err != nil {
		return err
	}
	noteJournals(a, args)
	found, err := readJobs(ctx, a, args)
	for _, j := range found {
		j.Basis = basis
		if len(refs) == 1 && refs[0].Run != "" {
			j.Name = refs[0].Run
		}
	}
	var only *startsOnly
	if errors.As(err, &only) && o.html == "" {
		run := ""
		if len(refs) == 1 {
			run = refs[0].Run
		}
		if err := showStarts(a, only, run, o.json); err != nil || !o.check {
			return err
		}
		return &ui.StatusError{Status: 4, Quiet: true, Err: errors.New("check: no training process")}
	}
	switch {
	case err != nil:
		return err
	case o.run != "":
		i := slices.IndexFunc(found, func(j *report.Job) bool { return j.Job.Label == o.run })
		if i < 0 {
			return ui.Usage("--run %s: no such run; trainspan runs %s lists all runs", o.run, strings.Join(args, " "))
		}
		return showReport(a, found[i], o)
	case !o.all:
		leaveOut(a, found)
		return showReport(a, found[0], o)
	}
	slices.SortStableFunc(found, func(x, y *report.Job) int { return cmp.Compare(begin(y), begin(x)) })
	var checked *ui.StatusError // of --check: a slow rank before insufficient data
	for i, j := range found {
		if i > 0 && !o.json {
			a.Printf("\n")
		}
		if !o.json {
			a.Printf("%s\n\n", j.Job.Label)
		}
		var status *ui.StatusError
		if err := showReport(a, j, o); !errors.As(err, &status) || !status.Quiet {
			if err != nil {
				return err
			}
		} else if checked == nil || status.Status < checked.Status {
			checked = status
		}
	}
	if checked != nil {
		return checked
	}
	return nil
}

// limits returns the floating-point operations of a step and the peak of a
// device from the flags, or from the configuration.
func (o *reportOptions) limits(lookup func(string) (string, bool)) (account.Basis, error) {
	for flag, v := range map[string]float64{"--flops-per-step": o.flops, "--peak": o.peak} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return account.Basis{}, ui.Usage("%s %v: use a number of operations, such as 989e12", flag, v)
		}
	}
	b := account.Basis{ModelFLOPs: o.flops, PeakFLOPs: o.peak}
	if b.ModelFLOPs == 0 || b.PeakFLOPs == 0 {
		cfg, err := config.Load(config.LoadOptions{Partial: true, LookupEnv: lookup})
		if err != nil && (o.flops > 0 || o.peak > 0) {
			return b, ui.Usage("%v", err)
		}
		if t := cfg.Training; err == nil && t != nil {
			b.ModelFLOPs = cmp.Or(b.ModelFLOPs, float64(t.FlopsPerSample.Get())*float64(t.GlobalBatchSize.Get()))
			b.PeakFLOPs = cmp.Or(b.PeakFLOPs, float64(t.PeakFlops.Get()))
		}
	}
	switch {
	case o.flops > 0 && b.PeakFLOPs == 0:
		return b, ui.Usage("--flops-per-step needs --peak, or peak_flops in the configuration")
	case o.peak > 0 && b.ModelFLOPs == 0:
		return b, ui.Usage("--peak needs --flops-per-step, or flops_per_sample and global_batch_size in the configuration")
	}
	return b, nil
}

// begin returns when the first process of a job began.
func begin(j *report.Job) int64 {
	first := int64(math.MaxInt64)
	for _, p := range j.Job.Processes {
		first = min(first, p.Start)
	}
	return first
}

// showReport prints the report of a job, or writes its page as well.
func showReport(a *ui.App, j *report.Job, o *reportOptions) error {
	r := report.BuildNow(j, time.Now().UnixNano())
	var err error
	if o.html != "" {
		if err := report.WritePage(o.html, r); err != nil {
			return notPage(o.html, err)
		}
	}
	switch {
	case o.json:
		err = report.JSON(a.Stdout, r)
	default:
		ui.Screen(a.Stdout, a.Paint(a.Stdout), a.Width(), r, o.full)
	}
	if err != nil {
		return err
	}
	if code := r.ExitCode(); o.check && code != ui.StatusOK {
		return &ui.StatusError{Status: code, Quiet: true, Err: fmt.Errorf("check: %s", r.Verdict.Sentence)}
	}
	return nil
}

// readJobs reads the jobs below some paths, at least one.
func readJobs(ctx context.Context, a *ui.App, args []string) ([]*report.Job, error) {
	found, err := findAnyJobs(ctx, a, args)
	nothing := errors.Is(err, errNoProcess) || errors.Is(err, job.ErrNoTelemetry)
	switch {
	case errors.Is(err, errNoProcess):
		err = ui.BadData("%s: %w; see %s", strings.Join(args, ", "), err, helptopic.NoTraining)
	case err != nil:
		err = unreadable(ctx, args, err)
	}
	if nothing {
		if starts := rundir.All(args...); len(starts) > 0 {
			return nil, &startsOnly{err, starts, helpers(found)}
		}
	}
	return slices.DeleteFunc(found, func(j *report.Job) bool { return len(j.Job.Processes) == 0 }), err
}

// leaveOut reports the jobs other than the first in one line.
func leaveOut(a *ui.App, found []*report.Job) {
	others := found[1:]
	if len(others) == 0 {
		return
	}
	it := "one"
	if len(others) == 1 {
		it = "it"
	}
	a.Note("not reported: %s in the same files: %s; --run %s reports %s; see "+helptopic.SeveralJobs,
		display.Plural(len(others), "other job"), labels(others), others[0].Job.Label, it)
}

// labels lists the ids of some jobs.
func labels(jobs []*report.Job) string {
	const most = 4
	var ids []string
	for _, j := range jobs[:min(len(jobs), most)] {
		ids = append(ids, j.Job.Label)
	}
	if n := len(jobs) - most; n > 0 {
		ids = append(ids, fmt.Sprintf("%d more", n))
	}
	return strings.Join(ids, ", ")
}

// unreadable explains why paths could not be read as telemetry or digests.
func unreadable(ctx context.Context, paths []string, err error) error {
	switch {
	case errors.Is(err, job.ErrNoTelemetry):
		return read.Refuse(paths)
	case ctx.Err() != nil:
		return err
	case errors.Is(err, report.ErrDigest):
		return ui.BadData("%s; see "+helptopic.Damaged, strings.TrimPrefix(err.Error(), "report: "))
	}
	return ui.Usage("%s", strings.TrimPrefix(ui.Explain(err), "run: "))
}

// helpers returns the processes of jobs that do not train.
func helpers(found []*report.Job) (out []*job.Process) {
	for _, j := range found {
		out = append(out, j.Job.Helpers...)
	}
	return out
}

// errNoProcess means that files have records, but of no training process.
var errNoProcess = errors.New("these files have no training process")

// findJobs reads all jobs below some paths, the largest first, and reports the
// defects of their files to a.
func findJobs(ctx context.Context, a *ui.App, paths []string) ([]*report.Job, error) {
	state, err := report.Load(ctx.Err, paths...)
	return jobsOf(a, paths, state, err)
}

func jobsOf(a *ui.App, named []string, state *report.State, err error) ([]*report.Job, error) {
	if err != nil {
		return nil, err
	}
	judgeJobs(a, named, state.Skipped(), state.Processes())
	found := state.Jobs()
	if len(found) == 0 || len(found[0].Job.Processes) == 0 {
		return found, errNoProcess
	}
	return found, nil
}

// notPage returns why a page does not get its name.
func notPage(path string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return ui.Usage("--html %s: this file exists and is not a report of trainspan; name another file", path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return ui.Usage("%s: its directory does not exist; create it first", path)
	}
	return err
}

// findAnyJobs is findJobs that also imports the profiles of paths without other
// telemetry.
func findAnyJobs(ctx context.Context, a *ui.App, paths []string) ([]*report.Job, error) {
	im := &profileImport{app: a, ctx: ctx}
	defer im.remove()
	state, err := report.LoadWith(ctx.Err, im.traces, paths...)
	return jobsOf(a, paths, state, err)
}

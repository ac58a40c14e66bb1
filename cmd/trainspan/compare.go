package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trainspan/trainspan/analysis/compare"
	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/rundir"
	"github.com/trainspan/trainspan/report"
)

type compareOptions struct {
	failOver string
	margin   string
	json     bool
	markdown bool
	seed     uint64
}

func newCompare(a *app) *cobra.Command {
	var o compareOptions
	cmd := &cobra.Command{
		Use:   "compare BASE... NEW",
		Short: "Say whether a run is slower than another, or than a set of runs",
		Long: `Compares the steps of a run with those of a base run, each given by its directory, or of
those in trainspan-runs by its id. A run is called slower only when the whole 99 % interval of the change lies
beyond 1 % (--margin).

One run each does not show how much runs of the same thing differ. Several base
runs do: give five or more, the new one last.

Exit status: 0 no difference, or faster, or slower by less than --fail-over; 3
slower; 4 the runs cannot be compared, or do not say enough.`,
		Example: `  trainspan compare out/base out/new
  trainspan compare out/base out/new --fail-over 3%
  trainspan compare train.1 train.2
  trainspan compare nightly/*/ out/new --markdown >> "$SUMMARY"`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.compare(cmd.Context(), args, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.failOver, "fail-over", "0%", "the change from which on a slower run is status 3")
	f.StringVar(&o.margin, "margin", "1%", "the change that does not matter")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.markdown, "markdown", false, "print a table for a pull request")
	f.Uint64Var(&o.seed, "seed", 1, "of the draws; the same seed gives the same answer")
	return cmd
}

func (a *app) compare(ctx context.Context, args []string, o *compareOptions) error {
	if len(args) < 2 {
		return usage("compare needs a base run and a new one; name two directories")
	}
	if o.json && o.markdown {
		return usage("--json and --markdown: choose one")
	}
	failOver, err := parsePercent("--fail-over", o.failOver)
	if err != nil {
		return err
	}
	margin, err := parsePercent("--margin", o.margin)
	if err != nil {
		return err
	}
	if margin == 0 {
		return usage("--margin %s: give more than 0; runs of the same thing differ by some tenths of a percent", o.margin)
	}
	runs := make([]*compare.Run, len(args))
	for i, dir := range args {
		j, err := a.readRun(ctx, dir)
		if err != nil {
			return err
		}
		runs[i] = report.Comparable(j, dir)
	}
	last := len(runs) - 1
	res := compare.Against(runs[:last], runs[last], &compare.Options{FailOver: failOver, Margin: margin, Seed: o.seed})
	switch {
	case o.json:
		if err := a.printJSON(res); err != nil {
			return err
		}
	case o.markdown:
		_, _ = io.WriteString(a.stdout, res.Markdown()) // it remembers its error
	default:
		a.showComparison(res)
	}
	if code := res.ExitCode(); code != statusOK {
		return &statusError{status: code, quiet: true, err: fmt.Errorf("%s", res.Sentence)}
	}
	return nil
}

// readRun reads the job at a path, or what trainspan runs lists by that id.
func (a *app) readRun(ctx context.Context, name string) (*report.Job, error) {
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, "*?[/") {
		found, _ := findJobs(ctx, rundir.Roots()) // what is wrong with these is not what was asked
		if i := slices.IndexFunc(found, func(j *report.Job) bool { return j.Job.Label == name }); i >= 0 {
			return found[i], nil
		}
	}
	return a.readJob(ctx, []string{name})
}

func (a *app) showComparison(r *compare.Result) {
	a.printf("%s\n", r.Sentence)
	for _, n := range r.Notes {
		a.printf("Note: %s.\n", strings.TrimSuffix(n, "."))
	}
	if r.Kind == compare.NotComparable {
		return
	}
	a.printf("\n")
	t := &table{heads: []string{"<", "base", "new", "change", "<99 % interval"}}
	row := func(name, base, next string, iv compare.Interval, mark string) {
		t.add(name, base, next, fmt.Sprintf("%+.1f %%", 100*iv.Change), fmt.Sprintf("%+.1f … %+.1f %%%s", 100*iv.Low, 100*iv.High, mark))
	}
	ms := func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) + " ms" }
	row("step, median", ms(r.BaseMS), ms(r.NewMS), r.Median, "")
	row("step, mean", "", "", r.Mean, "")
	for _, p := range r.Phases {
		mark := ""
		if p.Sure {
			mark = " (sure)"
		}
		row("  "+p.Phase, ms(p.Base), ms(p.New), p.Change, mark)
	}
	if g := r.Goodput; g != nil {
		t.add("goodput", human.Percent(g[0]), human.Percent(g[1]), fmt.Sprintf("%+.1f points", 100*(g[1]-g[0])), "")
	}
	t.write(a.stdout, a.paint(a.stdout), a.width())
}

// parsePercent reads 3% or 0.03.
func parsePercent(flag, text string) (float64, error) {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 10) {
		return 0, usage("%s %s: give a share such as 3%% or 0.03", flag, text)
	}
	return v, nil
}

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/analyze/compare"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/report"
)

type compareOptions struct {
	failOver string
	floor    time.Duration
	margin   string
	pairs    int
	json     bool
	markdown bool

	failOverShare, marginShare float64 // set by check
}

// check validates the flags before anything is run.
func (o *compareOptions) check() (err error) {
	if o.json && o.markdown {
		return ui.Usage("--json and --markdown: choose one")
	}
	if o.failOverShare, err = parsePercent("--fail-over", o.failOver); err != nil {
		return err
	}
	if o.marginShare, err = parsePercent("--margin", o.margin); err != nil {
		return err
	}
	if o.marginShare == 0 {
		return ui.Usage("--margin %s: use more than 0; equal runs differ by some tenths of a percent", o.margin)
	}
	if o.floor < 0 {
		return ui.Usage("--floor %s: use a time of 0 or more", o.floor)
	}
	return nil
}

func newCompare(a *ui.App) *cobra.Command {
	var o compareOptions
	cmd := &cobra.Command{
		Use:   "compare BASE... NEW | BASE... -- NEW... | --pairs N -- COMMAND... -- COMMAND...",
		Short: "Compare runs, and show where their times differ",
		Long: `Compares the steps of a run with those of a base run. Name each by its id in
trainspan-runs (train.3, latest~1) or by its directory; PyTorch profiles count as runs.
A run is reported as slower if the whole 98 % interval of the change is on one side of 0
and its nearer half is beyond 1 % (--margin). The difference is divided into start, lost
work and number of steps, and within steps into phases, ranks and groups.

One run of each does not show how much equal runs differ. Several of each do: write the
base runs, --, and the new runs. Without --, the last run is the new one. Your change is
named as the reason only with two or more runs of each, or with runs on the same hosts.

--pairs runs two commands alternately, in reverse order in every other pair, and compares
the runs of each pair, so that other load on the machine affects both. The files are in
trainspan-runs/pairs-TIME.

Exit status: 0 no difference, faster, or slower by less than --fail-over or --floor; 3
slower; 4 the runs cannot be compared, or there is not enough data.`,
		Example: `  trainspan compare out/base out/new
  trainspan compare out/base out/new --fail-over 3%
  trainspan compare train.1 train.2 --fail-over 3% --floor 2ms
  trainspan compare --pairs 5 -- python train.py -- python train.py --compile
  trainspan compare before/*/ -- after/*/
  trainspan compare nightly/*/ out/new --markdown >> "$SUMMARY"`,
		ValidArgsFunction: read.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("pairs") {
				one, other, err := splitCommands(args, cmd.ArgsLenAtDash())
				if err == nil {
					err = o.check()
				}
				if err != nil {
					return err
				}
				bases, nexts, err := runPairs(cmd.Context(), a, o.pairs, one, other)
				if err != nil {
					return err
				}
				return runCompare(cmd.Context(), a, append(bases, nexts...), len(bases), &o)
			}
			base := len(args) - 1
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				base = at
			}
			return runCompare(cmd.Context(), a, args, base, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.failOver, "fail-over", "0%", "smallest slowdown of a step for exit status 3")
	f.DurationVar(&o.floor, "floor", 0, "smallest time that a step must be slower for exit status 3, such as 2ms")
	f.IntVar(&o.pairs, "pairs", 0, "run two commands alternately, this many times each, and compare them")
	f.StringVar(&o.margin, "margin", "1%", "changes below this are ignored")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.markdown, "markdown", false, "print a table for a pull request")
	return cmd
}

// runCompare compares the first base runs with the others.
func runCompare(ctx context.Context, a *ui.App, args []string, base int, o *compareOptions) error {
	if base < 1 || base >= len(args) {
		return ui.Usage("compare needs a base run and a new run; name two, such as latest~1 latest")
	}
	if err := o.check(); err != nil {
		return err
	}
	runs := make([]*compare.Run, len(args))
	refs, err := read.Resolve(ctx, args)
	if err != nil {
		return err
	}
	for i := range refs {
		found, err := readJobs(ctx, a, refs[i].Paths)
		if err != nil {
			return err
		}
		j := found[0]
		if others := found[1:]; len(others) > 0 {
			how := "name the files of one job"
			if refs[i].Run != "" {
				how = "name one by its id"
			}
			a.Note("%s: %s is compared, and not %s in the same files: %s; %s; see "+helptopic.SeveralJobs,
				refs[i].Name(), j.Job.Label, display.Plural(len(others), "other job"), labels(others), how)
		}
		name := refs[i].Name()
		if o.pairs > 0 {
			name = filepath.Base(args[i])
		}
		runs[i] = report.Comparable(j, name)
	}
	res := compare.Sides(runs[:base], runs[base:], &compare.Options{FailOver: o.failOverShare, Margin: o.marginShare, Floor: float64(o.floor) / 1e6, Paired: o.pairs > 0})
	switch {
	case o.json:
		if err := a.PrintJSON(res); err != nil {
			return err
		}
	case o.markdown:
		_, _ = io.WriteString(a.Stdout, res.Markdown()) // it remembers its error
	default:
		showComparison(a, res)
	}
	if code := res.ExitCode(); code != ui.StatusOK {
		return &ui.StatusError{Status: code, Quiet: true, Err: fmt.Errorf("%s", res.Sentence)}
	}
	return nil
}

func showComparison(a *ui.App, r *compare.Result) {
	a.Printf("%s\n", r.Sentence)
	for _, n := range r.Notes {
		a.Printf("Note: %s.\n", strings.TrimSuffix(n, "."))
	}
	if r.Kind == compare.NotComparable {
		return
	}
	if r.BaseMS > 0 {
		showSteps(a, r)
	}
	showAccount(a, r)
	showParts(a, r)
	showProfiles(a, r.Profile)
}

// showSteps prints the step times.
func showSteps(a *ui.App, r *compare.Result) {
	a.Printf("\n")
	t := &display.Table{Heads: []string{"<", "base", "new", "change", "<98 % interval"}}
	row := func(name, base, next string, iv compare.Interval) {
		t.Add(name, base, next, display.Change(iv.Change), fmt.Sprintf("%+.1f … %s", 100*iv.Low, display.Change(iv.High)))
	}
	ms := func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) + " ms" }
	row("step, median", ms(r.BaseMS), ms(r.NewMS), r.Median)
	row("step, mean", "", "", r.Mean)
	for _, p := range r.Phases {
		mark := ""
		if !p.Sure {
			mark = ", may be chance"
		}
		change, interval := p.Of()
		t.Add("  "+p.Name(), ms(p.Base), ms(p.New), change, interval+mark)
	}
	if s := r.RunTime; s != nil {
		t.Add("run", display.Duration(int64(s[0]*1e9)), display.Duration(int64(s[1]*1e9)), display.Change(s[1]/s[0]-1), "")
	}
	if g := r.Goodput; g != nil {
		t.Add("in steps", display.Percent(g[0]), display.Percent(g[1]), "", "")
	}
	printTable(a, t)
}

// printTable prints a table. On a narrow terminal, where rows become paragraphs, the first heading stands above them.
func printTable(a *ui.App, t *display.Table) {
	heading := strings.TrimPrefix(t.Heads[0], "<")
	if heads, _ := t.Lines(a.Width()); heads == "" && heading != "" {
		a.Printf("%s\n", a.Paint(a.Stdout).Dim(heading))
	}
	a.Table(a.Stdout, t)
}

// showAccount prints what the time of both runs was spent on.
func showAccount(a *ui.App, r *compare.Result) {
	if len(r.Account) == 0 {
		return
	}
	t := &display.Table{Heads: []string{"<time of a rank", "base", "new", "difference"}}
	for _, c := range r.Rows(compare.MostAccount) {
		t.Add("  "+c.Name, display.Duration(int64(c.Base*1e9)), display.Duration(int64(c.New*1e9)), c.Difference())
	}
	a.Printf("\n")
	printTable(a, t)
}

// showParts prints the parts of the difference.
func showParts(a *ui.App, r *compare.Result) {
	if len(r.Parts) < 2 {
		return
	}
	t := &display.Table{Heads: []string{"<difference", "of a step", "of the run"}}
	total := compare.Part{Kind: compare.PartInSteps, StepMS: r.StepMS, Seconds: r.Difference}
	t.Add("all", total.Step(), total.Run())
	rest, small := compare.Part{Kind: compare.PartInSteps}, false
	for i := range r.Parts {
		if p := &r.Parts[i]; p.Large(r) {
			t.Add("  "+p.Words(), p.Step(), p.Run())
		} else {
			rest.Plus(p)
			small = true
		}
	}
	if small {
		t.Add("  all others", rest.Step(), rest.Run())
	}
	a.Printf("\n")
	printTable(a, t)
}

// mostName is how many characters of the name of an operator or a kernel are
// shown.
const mostName = 60

// showProfiles prints what changed within the steps of profiles.
func showProfiles(a *ui.App, p *compare.ProfileChange) {
	if p == nil {
		return
	}
	for _, list := range [...]struct {
		head string
		of   []compare.NamedChange
	}{{"<of a step", p.PartsInWords()}, {"<operator", p.Operators}, {"<kernel", p.Kernels}} {
		if len(list.of) == 0 {
			continue
		}
		t := &display.Table{Heads: []string{list.head, "base", "new", "difference"}}
		for _, c := range list.of {
			t.Add("  "+display.Elide(c.Name, mostName), display.Milliseconds(c.Base), display.Milliseconds(c.New), c.Difference())
		}
		a.Printf("\n")
		printTable(a, t)
	}
}

// parsePercent reads 3% or 0.03.
func parsePercent(flag, text string) (float64, error) {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 10) || v >= 1 && !isPercent {
		return 0, ui.Usage("%s %s: use a share such as 3%% or 0.03", flag, text)
	}
	return v, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"golang.org/x/sync/errgroup"
)

type validateOptions struct {
	dftracer.ValidateOptions
	json, quiet bool
	show        int
	showSet     bool
}

func newValidate(a *ui.App) *cobra.Command {
	var o validateOptions
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check traces against every rule of the format",
		Long: `Checks that every line is strict JSON with the right types, the framing, the order of
the first records, that ids are unique and parents exist, that spans are inside their
parents, and that spans on a lane do not overlap partially. Problems are grouped by
rule, with a count and the first line; --show lists single problems. For JSON lines it
checks that each line is a record.

The status is 0 if all traces are valid, else 1. Memory does not grow with the number
of events: large traces are sorted in temporary files in TMPDIR, with about 60 bytes per
event.`,
		Example: `  trainspan trace validate out/*.pfw.gz
  trainspan trace validate --unfinished running.pfw.gz
  trainspan trace validate --foreign trace-of-dftracer.pfw.gz
  trainspan trace validate out/ --json | jq '.[] | select(.ok | not)'`,
		ValidArgsFunction: read.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.showSet = cmd.Flags().Changed("show")
			return runValidate(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.AllowUnfinished, "unfinished", false, "accept a trace without an end, such as from a running job")
	f.BoolVar(&o.AllowMissingParents, "missing-parents", false, "accept parents that are not in the trace")
	f.BoolVar(&o.AllowOutliving, "outliving", false, "accept spans that are not inside their parent")
	f.BoolVar(&o.AllowForeign, "foreign", false, "accept deviations of other producers: repeated ids, no or repeated framing, overlaps, unknown parents")
	f.IntVar(&o.show, "show", 10, "list this many problems per trace, at most 100")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing about valid traces")
	f.BoolVar(&o.json, "json", false, "print a JSON array with one object per file")
	return cmd
}

// verdict is the JSON of the validate command about one file.
type verdict struct {
	File     string         `json:"file"`
	OK       bool           `json:"ok"`
	Dialect  string         `json:"dialect"`
	Lines    int            `json:"lines"`
	Events   int            `json:"events"`
	Counters int            `json:"counters"`
	Metadata int            `json:"metadata"`
	Lanes    int            `json:"lanes"`
	Open     int            `json:"open_spans"`
	Orphans  int            `json:"orphans"`
	Lost     int            `json:"events_lost"`
	Count    int            `json:"problem_count"`
	Groups   []problemGroup `json:"groups"`
	Problems []problemLine  `json:"problems"`
	Counts   map[string]int `json:"counts"`
}

type problemGroup struct {
	Rule  string `json:"rule"`
	Count int    `json:"count"`
	Line  int    `json:"first_line,omitempty"`
	Text  string `json:"first"`
}

type problemLine struct {
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
}

// checked is the result for one file.
type checked struct {
	dftracer.Report
	dialect string
	err     error
}

func runValidate(ctx context.Context, a *ui.App, args []string, o *validateOptions) error {
	if o.show < 0 || o.show > 100 {
		return ui.Usage("--show %d: use a number from 0 to 100", o.show)
	}
	files, err := read.ExpandTraces(ctx, args)
	if err != nil {
		return err
	}
	o.Stop = ctx.Err
	bar := a.StartProgress("validate", files)
	results := make([]checked, len(files))
	done := make([]chan struct{}, len(files))
	for i := range done {
		done[i] = make(chan struct{})
	}
	var advance errgroup.Group // guards the bar
	advance.Go(func() error {
		for i, path := range files {
			bar.File(path, 1)
			<-done[i]
			bar.EndFile()
		}
		return nil
	})
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, path := range files {
		group.Go(func() error {
			defer close(done[i])
			results[i] = checkTrace(ctx, path, o)
			return nil
		})
	}
	_ = group.Wait() // errors are in the results
	_ = advance.Wait()
	bar.Finish()
	if err := ctx.Err(); err != nil {
		return err
	}
	return showVerdicts(ctx, a, files, results, o)
}

// checkTrace validates one file.
func checkTrace(ctx context.Context, path string, o *validateOptions) (c checked) {
	if err := ctx.Err(); err != nil {
		c.err = err
		return c
	}
	if read.IsRecords(path) {
		return checkRecords(ctx, path)
	}
	c.Report, c.err = dftracer.ValidateFile(path, &o.ValidateOptions)
	c.dialect = c.Dialect.String()
	if c.err != nil && !ui.IsSystem(c.err) { // not even the first bytes could be read
		c.add("not a trace", "not a trace: %v", c.err)
		c.err = nil
	} else if c.err == nil && c.Events+c.Metadata == 0 {
		c.add("not a trace", "not a trace: it has no record")
	}
	return c
}

// add counts a problem of the whole file.
func (c *checked) add(rule, format string, args ...any) {
	p := dftracer.Problem{Rule: rule, Text: fmt.Sprintf(format, args...)}
	c.Count++
	c.Problems = append([]dftracer.Problem{p}, c.Problems...)
	c.Groups = append([]dftracer.ProblemGroup{{Rule: rule, Count: 1, First: p}}, c.Groups...)
}

// checkRecords checks that every line of a file of JSON lines is a record.
func checkRecords(ctx context.Context, path string) (c checked) {
	c.dialect = "JSON lines"
	if !fsread.Is(path, fsread.Records) {
		c.dialect = "OTLP"
	}
	procs, err := read.ReadRecords(ctx, path, func(ev *dftracer.Event) error {
		if ev.Phase == dftracer.PhaseComplete && ev.Cat != dftracer.CatDFTracer {
			c.Spans++
			if _, open := ev.Arg("truncated"); open {
				c.Open++
			}
		}
		return nil
	})
	var known *ui.StatusError
	switch {
	case errors.As(err, &known):
		c.add("no records", "not a file of JSON lines: no line is a record")
	case err != nil:
		c.err = err
	}
	for _, p := range procs {
		if p.Bad > 0 {
			c.add("not a record", "%s that are not records", display.Plural(p.Bad, "line"))
		}
		if p.Torn {
			c.add("cut off", "the last record is truncated")
		}
	}
	return c
}

func showVerdicts(ctx context.Context, a *ui.App, files []string, results []checked, o *validateOptions) error {
	all := make([]verdict, 0, len(files))
	at := 0
	err := a.Each(ctx, files, func(path string) error {
		c := &results[at]
		at++
		if c.err != nil {
			return c.err
		}
		if !c.OK() {
			a.Problems++
		}
		if o.json {
			all = append(all, verdictOf(path, c, o.show))
		} else {
			showVerdict(a, path, c, o)
		}
		return nil
	})
	if err != nil || !o.json {
		return err
	}
	return a.PrintJSON(all)
}

func showVerdict(a *ui.App, path string, c *checked, o *validateOptions) {
	p := a.Paint(a.Stdout)
	if c.OK() {
		if !o.quiet {
			a.Printf("%s: %s, %s, %s\n", path, p.Good("ok"), c.dialect, c.numbers())
		}
		return
	}
	a.Printf("%s: %s, %s\n", path, p.Bad(display.Plural(c.Count, "problem")), c.numbers())
	if !o.showSet {
		t := &display.Table{Heads: []string{"count", "<problem", "<first"}}
		for _, g := range c.Groups {
			t.Add(display.Count(g.Count), g.Rule, display.Elide(g.First.String(), 100))
		}
		a.Table(a.Stdout, t)
		return
	}
	shown := c.Problems[:min(len(c.Problems), o.show)]
	for _, x := range shown {
		a.Printf("  %s\n", x.String())
	}
	if len(shown) < c.Count {
		a.Printf("  and %s more\n", display.Count(c.Count-len(shown)))
	}
}

// numbers returns the counts of a trace like info: spans, samples, and metadata
// including the start and end records.
func (c *checked) numbers() string {
	return display.Plural(c.Spans, "event") + ", " + display.Plural(c.Counters, "sample") + ", " + display.Plural(c.metadata(), "metadata record")
}

func (c *checked) metadata() int { return c.Metadata + max(c.Events-c.Spans-c.Counters, 0) }

func verdictOf(file string, c *checked, show int) verdict {
	v := verdict{File: file, OK: c.OK(), Dialect: c.dialect, Lines: c.Lines, Events: c.Spans, Counters: c.Counters, Metadata: c.metadata(),
		Lanes: c.Lanes, Open: c.Open, Orphans: c.Orphans, Lost: c.Lost, Count: c.Count, Counts: c.Counts, Groups: []problemGroup{}, Problems: []problemLine{}}
	for _, g := range c.Groups {
		v.Groups = append(v.Groups, problemGroup{g.Rule, g.Count, g.First.Line, g.First.Text})
	}
	for _, x := range c.Problems[:min(len(c.Problems), show)] {
		v.Problems = append(v.Problems, problemLine{x.Line, x.Text})
	}
	return v
}

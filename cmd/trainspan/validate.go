package main

import (
	"context"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/trainspan/trainspan/dftracer"
)

type validateOptions struct {
	dftracer.ValidateOptions
	json, quiet bool
	show        int
}

func newValidate(a *app) *cobra.Command {
	var o validateOptions
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check traces against every rule of the format",
		Long: `Checks that every line is strict JSON with the right types, the framing, the
order of the first records, that ids are unique and parents exist, that spans
lie inside their parents and do not overlap partially on a lane.

The status is 0 when every trace is in order and 1 when one is not. Memory does
not grow with the number of events: large traces are sorted in temporary files,
about 60 bytes per event, in the directory that TMPDIR names.`,
		Example: `  trainspan validate out/*.pfw.gz
  trainspan validate --unfinished running.pfw.gz
  trainspan validate --foreign trace-of-dftracer.pfw.gz
  trainspan validate out/ --json | jq '.[] | select(.ok | not)'`,
		ValidArgsFunction: traces,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.validate(cmd.Context(), args, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.AllowUnfinished, "unfinished", false, "accept a trace without end, such as that of a running job")
	f.BoolVar(&o.AllowMissingParents, "missing-parents", false, "accept parents that are not in the trace")
	f.BoolVar(&o.AllowOutliving, "outliving", false, "accept spans that are not inside their parent")
	f.BoolVar(&o.AllowForeign, "foreign", false, "accept what other producers do: repeated ids, no framing, overlaps")
	f.IntVar(&o.show, "show", 10, "how many problems to show of a trace, at most 100")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing about traces that are in order")
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
	Metadata int            `json:"metadata"`
	Lanes    int            `json:"lanes"`
	Open     int            `json:"open_spans"`
	Orphans  int            `json:"orphans"`
	Lost     int            `json:"events_lost"`
	Count    int            `json:"problem_count"`
	Problems []problemLine  `json:"problems"`
	Counts   map[string]int `json:"counts"`
}

type problemLine struct {
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
}

func (a *app) validate(ctx context.Context, args []string, o *validateOptions) error {
	if o.show < 0 || o.show > 100 {
		return usage("--show %d: give a number from 0 to 100", o.show)
	}
	files, err := expand(args)
	if err != nil {
		return err
	}
	bar := a.startProgress("validate", files)
	reports := make([]dftracer.Report, len(files))
	done := make([]chan struct{}, len(files))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range done {
		done[i] = make(chan struct{})
	}
	var advance errgroup.Group // only it touches the bar
	advance.Go(func() error {
		for i, path := range files {
			bar.file(path, 1)
			select {
			case <-done[i]:
			case <-gctx.Done():
				return nil
			}
			bar.endFile()
		}
		return nil
	})
	for i, path := range files {
		group.Go(func() (err error) {
			if err := gctx.Err(); err != nil {
				return usage("interrupted before %s was checked", path)
			}
			reports[i], err = dftracer.ValidateFile(path, &o.ValidateOptions)
			close(done[i])
			return err
		})
	}
	err = group.Wait()
	_ = advance.Wait() // it returns none
	bar.finish()
	if err != nil {
		return err
	}
	return a.showVerdicts(files, reports, o)
}

func (a *app) showVerdicts(files []string, reports []dftracer.Report, o *validateOptions) error {
	bad := 0
	all := make([]verdict, 0, len(files))
	p := a.paint(a.stdout)
	for i := range reports {
		r := &reports[i]
		if r.Events+r.Metadata == 0 {
			r.Count++
			r.Problems = append([]dftracer.Problem{{Text: "not a trace: there is no record in it"}}, r.Problems...)
		}
		if !r.OK() {
			bad++
		}
		if o.json {
			all = append(all, verdictOf(files[i], r, o.show))
			continue
		}
		if r.OK() {
			if !o.quiet {
				a.printf("%s: %s, %s, %s, %s\n", files[i], p.good("ok"), r.Dialect, plural(r.Events, "event"), plural(r.Lanes, "lane"))
			}
			continue
		}
		a.printf("%s: %s\n", files[i], p.bad(plural(r.Count, "problem")))
		shown := r.Problems[:min(len(r.Problems), o.show)]
		for _, x := range shown {
			a.printf("  %s\n", printable(x.String()))
		}
		if len(shown) < r.Count {
			a.printf("  and %s more\n", count(r.Count-len(shown)))
		}
	}
	if o.json {
		if err := a.printJSON(all); err != nil {
			return err
		}
	}
	a.problems += bad
	return nil
}

func verdictOf(file string, r *dftracer.Report, show int) verdict {
	v := verdict{File: file, OK: r.OK(), Dialect: r.Dialect.String(), Lines: r.Lines, Events: r.Events, Metadata: r.Metadata,
		Lanes: r.Lanes, Open: r.Open, Orphans: r.Orphans, Lost: r.Lost, Count: r.Count, Counts: r.Counts, Problems: []problemLine{}}
	for _, x := range r.Problems[:min(len(r.Problems), show)] {
		v.Problems = append(v.Problems, problemLine{x.Line, x.Text})
	}
	return v
}

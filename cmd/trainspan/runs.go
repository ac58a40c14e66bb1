package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/report"
)

func newRuns(a *ui.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "runs [DIR...]",
		Short: "List the runs in a directory, the latest first",
		Long: `Lists what was run: when, for how long, with how many ranks and attempts, how it
ended, how much of the time is in steps, and what stands out. Without a directory those in
trainspan-runs. trainspan report --run ID shows one of them.

Which starts are attempts of one run is in docs/run.md.`,
		Example: `  trainspan runs
  trainspan runs /scratch/jobs --json`,
		RunE: func(cmd *cobra.Command, args []string) error { return runRuns(cmd.Context(), a, args, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one run a line")
	return cmd
}

// runRow is one run.
type runRow struct {
	ID        string    `json:"id"`
	Began     time.Time `json:"began"`
	Lasted    int64     `json:"lasted_ns"`
	Command   string    `json:"command,omitempty"`
	Ranks     int       `json:"ranks,omitempty"`
	Attempts  int       `json:"attempts,omitempty"`
	Outcome   string    `json:"outcome"`
	Goodput   *float64  `json:"goodput"`
	Diagnosis string    `json:"diagnosis,omitempty"`
}

func runRuns(ctx context.Context, a *ui.App, args []string, asJSON bool) error {
	if len(args) == 0 {
		args = rundir.Roots()
	}
	found, err := findJobs(ctx, a, args)
	if err != nil && !errors.Is(err, errNoProcess) && !errors.Is(err, job.ErrNoTelemetry) {
		return unreadable(ctx, err)
	}
	starts := rundir.All(args...)
	var rows []runRow
	for _, j := range found {
		if len(j.Job.Processes) > 0 {
			rows = append(rows, rowOf(j))
		}
	}
	others := helpers(found)
	for _, s := range starts {
		of := func(j *report.Job) bool {
			return slices.ContainsFunc(j.Job.Starts, func(o *rundir.Run) bool {
				return s.Host == o.Host && s.Job == o.Job && s.Started.Equal(o.Started)
			})
		}
		if !slices.ContainsFunc(found, of) {
			rows = append(rows, runRow{ID: s.ID(), Began: s.Started, Lasted: int64(s.Took()), Command: s.Command(), Attempts: 1, Outcome: job.OutcomeOfStart(s, others).Text})
		}
	}
	if len(rows) == 0 {
		return ui.Usage("%s: no run is here; name a directory of runs", args[0])
	}
	slices.SortStableFunc(rows, func(x, y runRow) int { return cmp.Or(y.Began.Compare(x.Began), cmp.Compare(x.ID, y.ID)) })
	if asJSON {
		enc := json.NewEncoder(display.JSON(a.Stdout))
		for _, r := range rows {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	t := &display.Table{Heads: []string{"<id", "<began", "lasted", "<command", "ranks", "attempts", "<end", "in steps", "<"}, Drop: []string{"command", "ranks"}}
	for _, r := range rows {
		trained := "unknown"
		if r.Goodput != nil {
			trained = display.Percent(*r.Goodput)
		}
		ranks := ""
		if r.Ranks > 0 {
			ranks = fmt.Sprint(r.Ranks)
		}
		t.Add(r.ID, r.Began.UTC().Format(time.DateTime), display.Duration(r.Lasted), r.Command, ranks, fmt.Sprint(r.Attempts), r.Outcome, trained, r.Diagnosis)
	}
	a.Table(a.Stdout, t)
	return nil
}

// rowOf says of a run what the list has.
func rowOf(j *report.Job) runRow {
	r := report.Live(j, time.Now().UnixNano())
	row := runRow{ID: j.Job.Label, Began: time.Unix(0, r.Ledger.From), Lasted: r.Ledger.Wall, Ranks: len(r.Ranks), Attempts: len(r.Attempts), Goodput: r.Goodput}
	if n := len(j.Job.Starts); n > 0 {
		row.Command = j.Job.Starts[n-1].Command()
	}
	if n := len(r.Attempts); n > 0 {
		row.Outcome = r.Attempts[n-1].End()
	}
	switch v := r.Verdict.Rank; {
	case v != nil && v.Kind != straggler.Fine && v.Kind != straggler.Unknown:
		row.Diagnosis = string(v.Kind)
	case len(r.Losses) > 0 && r.Losses[0].Share >= 0.05 && r.Goodput != nil && r.Profile == nil:
		row.Diagnosis = fmt.Sprintf("%s %s", r.Losses[0].Category, display.Percent(r.Losses[0].Share))
	}
	return row
}

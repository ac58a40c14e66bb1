package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/report"
)

// runsOptions select and order the listed runs.
type runsOptions struct {
	since string
	job   string
	sort  string
	json  bool
	sum   bool
}

// Orders of trainspan runs.
const (
	sortBegan    = "began"
	sortLost     = "lost"
	sortRankTime = "rank-time"
	sortLasted   = "lasted"
)

func newRuns(a *ui.App) *cobra.Command {
	var o runsOptions
	cmd := &cobra.Command{
		Use:   "runs [RUN|DIR...]",
		Short: "List runs, and sum up what their time went to",
		Long: `Lists what was run: when, for how long, with how many ranks and attempts, how it
ended, how much of the time of its ranks is in steps and how much is lost, and what
stands out. Below the list is the sum: the time of all ranks of all runs, what it went
to, and the hosts whose ranks were slow in several runs. Without an argument,
those in trainspan-runs are listed. trainspan report ID shows one of them.

"trainspan help runs-and-attempts" explains which starts are attempts of one run.`,
		Example: `  trainspan runs
  trainspan runs --since 4w --job 'train*' --sort lost
  trainspan runs --since 2026-11-01 --sum --json
  trainspan runs /scratch/jobs --json`,
		ValidArgsFunction: read.Complete,
		RunE:              func(cmd *cobra.Command, args []string) error { return runRuns(cmd.Context(), a, args, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.since, "since", "", "only runs that began since then: 90m, 12h, 3d, 4w ago, or a time in UTC such as 2026-11-01")
	f.StringVar(&o.job, "job", "", "only runs of this job; * stands for anything")
	orders := []string{sortBegan, sortLost, sortRankTime, sortLasted}
	f.Var(ui.NewChoice(&o.sort, orders...), "sort", "order: "+strings.Join(orders, ", ")+"; the latest or largest first")
	ui.Words(cmd, "sort", orders...)
	f.BoolVar(&o.sum, "sum", false, "print only the sum")
	f.BoolVar(&o.json, "json", false, "print JSON: one run a line, with --sum one object")
	return cmd
}

// runRow is one run.
type runRow struct {
	ID        string    `json:"id"`
	Job       string    `json:"job"` // its name; a run is one or more attempts of it
	Began     time.Time `json:"began"`
	Lasted    int64     `json:"lasted_ns"`
	Command   string    `json:"command,omitempty"`
	Ranks     int       `json:"ranks,omitempty"`
	Attempts  int       `json:"attempts,omitempty"`
	Outcome   string    `json:"outcome"`
	Goodput   *float64  `json:"goodput"`
	Diagnosis string    `json:"diagnosis,omitempty"` // the kind of the finding of its report
	// RankTime is the time of all ranks, and Spent its categories. Lost is the part
	// that is neither productive step time nor evaluation: waiting for other ranks
	// counts as lost in steps as well. All are absent if the steps are unknown, and
	// for a profile, which is a part of a run.
	RankTime int64   `json:"rank_time_ns,omitempty"`
	Lost     int64   `json:"lost_ns,omitempty"`
	Spent    []spent `json:"spent,omitempty"`
	// SlowHosts are the hosts of slow ranks, if the run also had other hosts.
	SlowHosts []string `json:"slow_hosts,omitempty"`

	hosts   []string // all of them
	finding string   // the diagnosis in words
}

// spent is one category of the time of all ranks.
type spent struct {
	Part string `json:"part"` // as in the shares of a report
	Time int64  `json:"ns"`   // of all ranks together
}

// runsSum summarizes several runs.
type runsSum struct {
	Runs      int        `json:"runs"`
	Unknown   int        `json:"unknown_runs,omitempty"` // runs without a known time in steps: they are in no sum
	From      time.Time  `json:"from"`                   // when the earliest of them began
	RankTime  int64      `json:"rank_time_ns"`
	Lost      int64      `json:"lost_ns"`
	Spent     []spent    `json:"spent"` // largest first
	SlowHosts []slowHost `json:"slow_hosts,omitempty"`
}

// slowHost is a host whose ranks were slow in several runs.
type slowHost struct {
	Host string   `json:"host"`
	Runs []string `json:"runs"` // ids of the runs in which it was slow, in the order of the list
	Of   int      `json:"of"`   // the number of runs on it and on other hosts
}

func runRuns(ctx context.Context, a *ui.App, args []string, o *runsOptions) error {
	since, err := sinceTime(o.since, time.Now())
	if err != nil {
		return err
	}
	if _, err := path.Match(o.job, ""); err != nil {
		return ui.Usage("--job %s: %v; * stands for anything", o.job, err)
	}
	wanted := func(job string) bool {
		match, _ := path.Match(cmp.Or(o.job, "*"), strings.ReplaceAll(job, "/", "-"))
		return match || job == o.job
	}
	rows, err := listRuns(ctx, a, args, since, wanted)
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r runRow) bool { return r.Began.Before(since) || !wanted(r.Job) })
	if len(rows) == 0 {
		of, began := "", ""
		if o.job != "" {
			of = " of job " + o.job
		}
		if o.since != "" {
			began = " began since " + since.UTC().Format(time.DateTime)
		}
		return ui.Usage("found no run%s%s; leave out --job and --since to see all runs", of, began)
	}
	slices.SortStableFunc(rows, func(x, y runRow) int {
		by := 0
		switch o.sort {
		case sortLost:
			by = cmp.Compare(y.Lost, x.Lost)
		case sortRankTime:
			by = cmp.Compare(y.RankTime, x.RankTime)
		case sortLasted:
			by = cmp.Compare(y.Lasted, x.Lasted)
		}
		return cmp.Or(by, y.Began.Compare(x.Began), cmp.Compare(x.ID, y.ID))
	})
	sum := sumOf(rows)
	if o.json {
		enc := json.NewEncoder(display.JSON(a.Stdout))
		if o.sum {
			return enc.Encode(sum)
		}
		for _, r := range rows {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	if !o.sum {
		printRows(a, rows)
		a.Printf("\n")
	}
	for _, line := range sum.lines(rows) {
		for _, part := range display.Fold(line, a.Width()) {
			a.Printf("%s\n", part)
		}
	}
	return nil
}

// sinceTime returns the time of --since: a duration before now, or a time in
// UTC.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.DateTime, "2006-01-02T15:04:05", time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	unit := map[byte]time.Duration{'w': 7 * 24 * time.Hour, 'd': 24 * time.Hour, 'h': time.Hour, 'm': time.Minute, 's': time.Second}[text[len(text)-1]]
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 63)
	if err != nil || unit == 0 || time.Duration(n) > maxSince/unit {
		return time.Time{}, ui.Usage("--since %s: give a length of time such as 90m, 12h, 3d or 4w, or a time in UTC such as 2026-11-01", text)
	}
	return now.Add(-time.Duration(n) * unit), nil
}

// maxSince is a hundred years: a longer duration is a mistake.
const maxSince = 100 * 366 * 24 * time.Hour

// listRuns returns the runs below some directories, in no order. It does not
// read the records of runs that certainly began before since, or belong to no
// wanted job, except if attempts in several folders have the same id: all runs
// are then numbered together.
func listRuns(ctx context.Context, a *ui.App, args []string, since time.Time, wanted func(job string) bool) ([]runRow, error) {
	if len(args) == 0 {
		args = rundir.Roots()
		if _, err := os.Lstat(args[0]); errors.Is(err, fs.ErrNotExist) {
			_, err := read.Resolve(ctx, nil) // it says that there is no run
			return nil, err
		}
	}
	args, err := read.ResolvePaths(ctx, args)
	if err != nil {
		return nil, err
	}
	named, less := args, false
	if !rundir.Clash(args...) {
		var selected []string
		for _, arg := range args {
			paths, some := rundir.Select(arg, since, wanted)
			selected, less = append(selected, paths...), less || some
		}
		if args = selected; len(args) == 0 {
			return nil, nil
		}
	}
	found, err := findJobs(ctx, a, args)
	if err != nil && !errors.Is(err, errNoProcess) && !errors.Is(err, job.ErrNoTelemetry) {
		return nil, unreadable(ctx, args, err)
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
			rows = append(rows, runRow{ID: s.ID(), Job: jobOfID(s.ID()), Began: s.Started, Lasted: int64(s.Took()), Command: s.Command(), Attempts: 1, Outcome: job.OutcomeOfStart(s, others).Text})
		}
	}
	if len(rows) == 0 && !less {
		return nil, read.Refuse(named)
	}
	return rows, nil
}

func printRows(a *ui.App, rows []runRow) {
	t := &display.Table{Heads: []string{"<id", "<began", "lasted", "<command", "ranks", "attempts", "<end", "in steps", "lost", "<finding"}, Drop: []string{"command", "ranks", "lost"}}
	for i := range rows {
		r := &rows[i]
		trained, lost, ranks := "unknown", "", ""
		if r.Goodput != nil {
			trained = display.Percent(*r.Goodput)
		}
		if r.RankTime > 0 {
			lost = display.Duration(r.Lost)
		}
		if r.Ranks > 0 {
			ranks = strconv.Itoa(r.Ranks)
		}
		t.Add(r.ID, r.Began.UTC().Format(time.DateTime), display.Duration(r.Lasted), r.Command, ranks, strconv.Itoa(r.Attempts), r.Outcome, trained, lost, r.finding)
	}
	a.Table(a.Stdout, t)
}

// rowOf returns the row of a run.
func rowOf(j *report.Job) runRow {
	r := report.Live(j, time.Now().UnixNano())
	row := runRow{ID: j.Job.Label, Job: jobOfID(j.Job.Label), Began: time.Unix(0, r.Ledger.From), Lasted: r.Ledger.Wall, Ranks: len(r.Ranks), Attempts: len(r.Attempts), Goodput: r.Goodput}
	if n := len(j.Job.Starts); n > 0 {
		row.Command = j.Job.Starts[n-1].Command()
	}
	if n := len(r.Attempts); n > 0 {
		row.Outcome = r.Attempts[n-1].End()
	}
	if f := r.Verdict.Finding; f != nil {
		row.Diagnosis = string(f.Kind)
	}
	row.finding = strings.ToLower(r.Verdict.Diagnosis)
	row.account(r)
	return row
}

// useful are the categories of rank time for which a job is run. All others are
// lost: waiting for other ranks, data and checkpoints, the start, lost steps,
// and so on.
var useful = []string{
	string(account.Compute), string(account.Communication), string(account.OtherCode), string(account.StepUnsplit), string(account.Validation), string(account.Testing),
}

// account adds the categories of the ranks' time, and the hosts on which they
// were slow.
func (row *runRow) account(r *report.Report) {
	if r.Goodput != nil && r.Profile == nil {
		parts := make(map[string]int64)
		for _, s := range r.Shares {
			parts[s.Part] += s.Time
		}
		row.Spent = spentOf(parts)
		for _, s := range row.Spent {
			row.RankTime += s.Time
			if !slices.Contains(useful, s.Part) {
				row.Lost += s.Time
			}
		}
	}
	slow := make(map[string]bool)
	v := r.Verdict.Rank
	for i := range r.Ranks {
		k := &r.Ranks[i]
		if k.Host == "" {
			continue
		}
		row.hosts = append(row.hosts, k.Host)
		if v != nil && v.Kind == finding.SlowRanks && slices.Contains(v.Ranks, k.Rank) {
			slow[k.Host] = true
		}
	}
	slices.Sort(row.hosts)
	if row.hosts = slices.Compact(row.hosts); len(row.hosts) > 1 {
		row.SlowHosts = slices.Sorted(maps.Keys(slow))
	}
}

// jobOfID returns the name of the job in the id of a run.
func jobOfID(id string) string {
	if dot := strings.LastIndexByte(id, '.'); dot > 0 {
		return id[:dot]
	}
	return id
}

// spentOf returns a list of categories, largest first.
func spentOf(parts map[string]int64) (out []spent) {
	for part, ns := range parts {
		out = append(out, spent{part, ns})
	}
	slices.SortFunc(out, func(x, y spent) int { return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.Part, y.Part)) })
	return out
}

// sumOf summarizes runs.
func sumOf(rows []runRow) *runsSum {
	sum := &runsSum{Runs: len(rows), From: rows[0].Began}
	parts := make(map[string]int64)
	slow := make(map[string][]string)
	for i := range rows {
		r := &rows[i]
		if r.Began.Before(sum.From) {
			sum.From = r.Began
		}
		if r.RankTime == 0 {
			sum.Unknown++
		}
		sum.RankTime, sum.Lost = sum.RankTime+r.RankTime, sum.Lost+r.Lost
		for _, s := range r.Spent {
			parts[s.Part] += s.Time
		}
		for _, host := range r.SlowHosts {
			slow[host] = append(slow[host], r.ID)
		}
	}
	sum.Spent = spentOf(parts)
	for host, ids := range slow {
		if len(ids) < 2 {
			continue
		}
		of := 0
		for i := range rows {
			if len(rows[i].hosts) > 1 && slices.Contains(rows[i].hosts, host) {
				of++
			}
		}
		sum.SlowHosts = append(sum.SlowHosts, slowHost{host, ids, of})
	}
	slices.SortFunc(sum.SlowHosts, func(x, y slowHost) int {
		return cmp.Or(cmp.Compare(len(y.Runs), len(x.Runs)), cmp.Compare(x.Host, y.Host))
	})
	return sum
}

// lines returns the summary in words.
func (s *runsSum) lines(rows []runRow) (out []string) {
	text := display.Plural(s.Runs, "run") + " since " + s.From.UTC().Format(time.DateTime)
	if s.Unknown > 0 {
		text += fmt.Sprintf("; the time of %d is unknown", s.Unknown)
	}
	out = append(out, text)
	if s.RankTime == 0 {
		return out
	}
	var parts []string
	for _, p := range s.Spent {
		if float64(p.Time) >= 0.005*float64(s.RankTime) {
			parts = append(parts, report.PartName(p.Part)+" "+display.Share(p.Time, s.RankTime))
		}
	}
	worst := slices.MaxFunc(rows, func(x, y runRow) int { return cmp.Compare(x.Lost, y.Lost) })
	out = append(out,
		fmt.Sprintf("Rank time: %s: %s", rankHours(s.RankTime), strings.Join(parts, ", ")),
		fmt.Sprintf("Lost: %s, %s; most in %s: %s", rankHours(s.Lost), display.Share(s.Lost, s.RankTime), worst.ID, rankHours(worst.Lost)))
	for _, h := range s.SlowHosts {
		out = append(out, fmt.Sprintf("Slow host: %s in %d of %d runs on several hosts: %s", h.Host, len(h.Runs), h.Of, strings.Join(h.Runs, ", ")))
	}
	return out
}

// rankHours formats the time of several ranks together: in hours from one hour
// on.
func rankHours(ns int64) string {
	if hours := time.Duration(ns).Hours(); hours >= 1 {
		return fmt.Sprintf("%.1f rank-hours", hours)
	}
	return display.Duration(ns)
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/layout"
	runs "github.com/trainspan/trainspan/internal/run"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/internal/visible"
)

type stepsOptions struct {
	json, csv bool
	filter    read.Filter
}

func newSteps(a *ui.App) *cobra.Command {
	var o stepsOptions
	cmd := &cobra.Command{
		Use:   "steps FILE...",
		Short: "Show each training step and its phases",
		Long: `Prints one row per step and rank: how long it took and how long its phases were,
as columns. Which spans are steps is decided as for the report: spans that are
called an iteration, or else the steps of PyTorch's profiler, or else the bodies of
the loop over the data loader, or else what lies between the ends of the steps of
the optimizer. A span belongs to the step in which it begins, a collective to the
one that it names. The phases of a row are sums of spans: what ran side by side
counts for each. Steps come in order.`,
		Example: `  trainspan steps trace.pfw.gz
  trainspan steps out/ --step 100-110
  trainspan steps out/ --csv > steps.csv`,
		ValidArgsFunction: ui.Traces,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runSteps(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print a JSON object per line")
	f.BoolVar(&o.csv, "csv", false, "print comma-separated values")
	o.filter.NumberFlags(f)
	return cmd
}

func runSteps(ctx context.Context, a *ui.App, args []string, o *stepsOptions) error {
	if o.json && o.csv {
		return ui.Usage("--json and --csv: choose one")
	}
	files, err := read.Expand(args)
	if err != nil {
		return err
	}
	q := &o.filter
	if err := q.Prepare(ctx, files); err != nil {
		return err
	}
	set, err := openSet(args)
	if err != nil {
		return err
	}
	set.Stop = ctx.Err
	table := newStepTable()
	defer table.close()
	spin := a.StartSpinner("steps")
	jobs, err := set.Read(table.open)
	spin.Finish()
	if stopped := ctx.Err(); stopped != nil {
		return stopped
	}
	if err != nil {
		return err
	}
	dropForeign(set, files)
	if n := len(set.Skipped); len(table.procs) == 0 && n > 0 {
		last := set.Skipped[n-1]
		set.Skipped = set.Skipped[:n-1]
		defer judgeSet(a, set, jobs)
		return ui.BadData("%s: %s; see "+see.NotATrace, last.Path, ui.Explain(last.Err))
	}
	judgeSet(a, set, jobs)
	var relative []string
	for _, j := range jobs {
		for _, p := range slices.Concat(j.Processes, j.Helpers) {
			read.TellAside(a, strings.Join(p.Sources, ", "), int64(p.Aside))
			if p.RelativeClock {
				relative = append(relative, p.Sources...)
			}
		}
	}
	read.TellRelative(a, relative)
	n, first := 0, int64(0)
	keep := func(p *runs.Process, r *stepRow) bool {
		us := r.start / 1000
		has := (q.Ranks == nil || q.Ranks[read.RankText(p)]) && (len(q.Steps) == 0 || read.Within(q.Steps, r.step)) && (len(q.Epochs) == 0 || read.Within(q.Epochs, r.epoch)) &&
			q.Window.HasTime(us)
		if has {
			if n++; n == 1 || r.start < first {
				first = r.start
			}
		}
		return has
	}
	show := stepText
	switch {
	case o.json:
		show = writeStepJSON
	case o.csv:
		show = stepCSV
	}
	if err := show(a, table, keep, &first); err != nil {
		return err
	}
	var procs []*runs.Process
	for _, j := range jobs {
		procs = append(procs, j.Processes...)
	}
	rules, remarks := runs.StepRules(procs)
	for _, text := range remarks {
		a.Note("%s; see "+see.NoTraining, text)
	}
	switch {
	case rules == "" && len(remarks) == 0:
		a.Note("no span is a training step; see " + see.NoTraining)
	case rules != "" && n == 0:
		a.Note("no training step is left by the flags; see " + see.NoTraining)
	}
	return nil
}

// stepJSON is a row for machines.
type stepJSON struct {
	Run     string           `json:"run,omitempty"` // as trainspan runs lists it, where there are several
	Attempt int              `json:"attempt"`
	Step    int64            `json:"step"`
	Rank    string           `json:"rank,omitempty"`
	PID     int64            `json:"pid"`
	Epoch   *int64           `json:"epoch,omitempty"`
	Start   int64            `json:"start_us"`
	Dur     *int64           `json:"dur_us,omitempty"`
	Rule    string           `json:"rule"`
	Phases  map[string]int64 `json:"phases_us"`
}

type keepStep func(*runs.Process, *stepRow) bool

func writeStepJSON(a *ui.App, t *stepTable, keep keepStep, _ *int64) error {
	w := bufio.NewWriterSize(visible.JSON(a.Stdout), 64<<10)
	enc := json.NewEncoder(w)
	err := t.sorted(keep, func(p *runs.Process, s *stepRow) error {
		row := stepJSON{Run: p.Run, Attempt: p.Attempt, Step: s.step, Rank: read.RankText(p), PID: p.PID, Start: s.start / 1000, Rule: p.Steps.Rule.String(), Phases: make(map[string]int64)}
		if s.epoch >= 0 {
			row.Epoch = &s.epoch
		}
		if s.dur >= 0 {
			us := s.dur / 1000
			row.Dur = &us
		}
		for i, d := range s.phases {
			if d > 0 {
				row.Phases[phaseNames[i]] = d / 1000
			}
		}
		return enc.Encode(row)
	})
	return errors.Join(err, w.Flush())
}

func stepCSV(a *ui.App, t *stepTable, keep keepStep, _ *int64) error {
	w := bufio.NewWriterSize(a.Stdout, 64<<10)
	c := ui.NewCSV(w)
	head := []string{"attempt", "step", "rank", "pid", "epoch", "start_us", "dur_us"}
	for _, name := range phaseNames {
		head = append(head, name+"_us")
	}
	_ = c.Row(append(head, "rule", "run")) // the writer keeps its error
	err := t.sorted(keep, func(p *runs.Process, s *stepRow) error {
		number := func(n int64) string {
			if n < 0 {
				return ""
			}
			return strconv.FormatInt(n, 10)
		}
		row := []string{strconv.Itoa(p.Attempt), number(s.step), read.RankText(p), number(p.PID), number(s.epoch), number(s.start / 1000), number(usOf(s.dur))}
		for _, d := range s.phases {
			row = append(row, number(d/1000))
		}
		return c.Row(append(row, p.Steps.Rule.String(), p.Run))
	})
	c.Flush()
	return errors.Join(err, w.Flush())
}

// usOf is a duration in microseconds; -1 stays what it is.
func usOf(ns int64) int64 { return max(ns/1000, min(ns, 0)) }

// stepText prints tables of some steps each, so that memory does not grow.
func stepText(a *ui.App, t *stepTable, keep keepStep, first *int64) error {
	const page = 1000
	heads := append([]string{"attempt", "step", "epoch", "<rank", "start", "wall"}, phaseNames[:]...)
	out := &layout.Table{Heads: heads, Drop: []string{"start", "epoch", "copies", "checkpoint"}, Empty: true}
	attempts := slices.ContainsFunc(t.procs, func(p *runs.Process) bool { return p != nil && p.Attempt > 1 })
	if !attempts {
		out.Heads = heads[1:]
	}
	cell := func(ns int64) string {
		if ns <= 0 {
			return "-"
		}
		return human.Micros(float64(ns) / 1000)
	}
	err := t.sorted(keep, func(p *runs.Process, s *stepRow) error {
		rank, epoch := read.RankText(p), "-"
		if rank == "" {
			rank = "pid " + strconv.FormatInt(p.PID, 10)
		}
		if s.epoch >= 0 {
			epoch = human.Count(s.epoch)
		}
		row := []string{strconv.Itoa(p.Attempt), human.Count(s.step), epoch, rank, "+" + human.Micros(float64(s.start-*first)/1000), cell(s.dur)}
		for _, d := range s.phases {
			row = append(row, cell(d))
		}
		if !attempts {
			row = row[1:]
		}
		if out.Add(row...); out.Len() == page {
			a.Table(a.Stdout, out)
			out.Clear()
		}
		return nil
	})
	if out.Len() > 0 {
		a.Table(a.Stdout, out)
	}
	return err
}

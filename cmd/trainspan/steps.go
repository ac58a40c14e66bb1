package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/see"
)

type stepsOptions struct {
	json, csv bool
	filter    filter
}

func newSteps(a *app) *cobra.Command {
	var o stepsOptions
	cmd := &cobra.Command{
		Use:   "steps FILE...",
		Short: "Show each training step and its phases",
		Long: `Prints one row per step and rank: how long the iteration took and how long its
phases were, as columns. A span belongs to the step that its argument step names,
or else to the iteration of its process that it begins in. The phases of a row are
sums of spans: what ran side by side counts for each. Steps come in order.`,
		Example: `  trainspan steps trace.pfw.gz
  trainspan steps out/ --step 100-110
  trainspan steps out/ --csv > steps.csv`,
		ValidArgsFunction: traces,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.steps(cmd.Context(), args, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print a JSON object per line")
	f.BoolVar(&o.csv, "csv", false, "print comma-separated values")
	o.filter.flags(f)
	return cmd
}

func (a *app) steps(ctx context.Context, args []string, o *stepsOptions) error {
	if o.json && o.csv {
		return usage("--json and --csv: choose one")
	}
	files, err := expand(args)
	if err != nil {
		return err
	}
	if err := o.filter.prepare(ctx, files); err != nil {
		return err
	}
	all := newStepTable()
	defer all.close()
	bar := a.startProgress("steps", files)
	err = a.each(ctx, files, func(path string) error {
		ranks := newRankTracker(o.filter.files[path])
		b := newStepBuilder(all, ranks)
		_, err := a.read(ctx, path, &o.filter, bar, func(ev *dftracer.Event) error {
			ranks.note(ev)
			if ev.Phase != dftracer.PhaseComplete || ev.Cat == dftracer.CatDFTracer {
				return nil
			}
			return b.take(ev)
		})
		if flushed := b.flush(); err == nil {
			err = flushed
		}
		return err
	})
	bar.finish()
	if err != nil {
		return err
	}
	if all.n == 0 {
		a.note("no span has a step, and there is no iteration of training; see " + see.NoTraining)
	}
	return a.showSteps(all, o)
}

// stepJSON is a row for machines.
type stepJSON struct {
	Step   int64            `json:"step"`
	Rank   string           `json:"rank,omitempty"`
	PID    int64            `json:"pid"`
	Epoch  *int64           `json:"epoch,omitempty"`
	Start  int64            `json:"start_us"`
	Dur    int64            `json:"dur_us"`
	Phases map[string]int64 `json:"phases_us"`
}

func (a *app) showSteps(all *stepTable, o *stepsOptions) error {
	w := bufio.NewWriterSize(a.stdout, 64<<10)
	switch {
	case o.json:
		enc := json.NewEncoder(w)
		err := all.each(func(s *stepRow) error {
			row := stepJSON{Step: s.step, Rank: s.rank, PID: s.pid, Start: s.start, Dur: s.dur, Phases: make(map[string]int64)}
			if s.epoch >= 0 {
				row.Epoch = &s.epoch
			}
			for i, d := range s.phases {
				if d > 0 {
					row.Phases[phaseNames[i]] = d
				}
			}
			return enc.Encode(row)
		})
		if err != nil {
			return err
		}
		return w.Flush()
	case o.csv:
		c := csv.NewWriter(w)
		head := []string{"step", "rank", "pid", "epoch", "start_us", "dur_us"}
		for _, name := range phaseNames {
			head = append(head, name+"_us")
		}
		_ = c.Write(head) // the writer keeps its error
		err := all.each(func(s *stepRow) error {
			row := []string{strconv.FormatInt(s.step, 10), s.rank, strconv.FormatInt(s.pid, 10), "", strconv.FormatInt(s.start, 10), strconv.FormatInt(s.dur, 10)}
			if s.epoch >= 0 {
				row[3] = strconv.FormatInt(s.epoch, 10)
			}
			for _, d := range s.phases {
				row = append(row, strconv.FormatInt(d, 10))
			}
			return c.Write(row)
		})
		if err != nil {
			return err
		}
		c.Flush()
		return w.Flush()
	}
	return a.stepText(all)
}

// stepText prints tables of some steps each, so that memory does not grow.
func (a *app) stepText(all *stepTable) error {
	const page = 1000
	heads := append([]string{"step", "epoch", "<rank", "start", "wall"}, phaseNames[:]...)
	t := table{heads: heads, drop: []string{"start", "epoch", "copies", "checkpoint"}, empty: true}
	cell := func(us int64) string {
		if us == 0 {
			return "-"
		}
		return micros(float64(us))
	}
	err := all.each(func(s *stepRow) error {
		rank, epoch := s.rank, "-"
		if rank == "" {
			rank = "pid " + strconv.FormatInt(s.pid, 10)
		}
		if s.epoch >= 0 {
			epoch = count(s.epoch)
		}
		row := []string{count(s.step), epoch, rank, "+" + micros(float64(s.start-all.first)), cell(s.dur)}
		for _, d := range s.phases {
			row = append(row, cell(d))
		}
		if t.add(row...); len(t.rows) == page {
			t.write(a.stdout, a.paint(a.stdout), a.width())
			t.rows = t.rows[:0]
		}
		return nil
	})
	if len(t.rows) > 0 {
		t.write(a.stdout, a.paint(a.stdout), a.width())
	}
	return err
}

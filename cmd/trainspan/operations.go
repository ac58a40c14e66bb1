package main

import (
	"context"
	"fmt"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/optrace"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/infile"
	"github.com/trainspan/trainspan/internal/layout"
	"github.com/trainspan/trainspan/internal/replay"
)

// reportOperations reports a trace of operations, which is a table and no telemetry of
// ours. It says false where the arguments are something else.
func reportOperations(ctx context.Context, a *ui.App, args []string, o *reportOptions) (bool, error) {
	if len(args) != 1 || !infile.Is(args[0], infile.Parquet) {
		return false, nil
	}
	path := args[0]
	if o.html != "" || o.run != "" || o.all {
		return true, ui.Usage("%s: a table of operations is reported as text or with --json only", path)
	}
	t, err := optrace.Read(path)
	if err != nil {
		if ui.IsSystem(err) {
			return true, err
		}
		return true, ui.BadData("%s: %w", path, err)
	}
	slowdown, st, err := t.Replay()
	if err != nil {
		return true, ui.BadData("%s: %w", path, err)
	}
	if err := ctx.Err(); err != nil {
		return true, err
	}
	v := st.Verdict()
	if o.json {
		err = a.PrintJSON(map[string]any{"version": 1, "name": path, "verdict": map[string]any{"straggler": v}, "slowdown": slowdown})
	} else {
		showOperations(a, t, v, slowdown)
	}
	if code := v.ExitCode(); err == nil && o.check && code != ui.StatusOK {
		err = &ui.StatusError{Status: code, Quiet: true, Err: fmt.Errorf("check: %s", v.Sentence)}
	}
	return true, err
}

func showOperations(a *ui.App, t *optrace.Trace, v *replay.Verdict, s *optrace.Slowdown) {
	a.Printf("%s\n", v.Sentence)
	if v.Second != "" {
		a.Printf("%s\n", v.Second)
	}
	if n := t.Stages(); n > 1 {
		a.Printf("Rank r is stage r mod %d of data parallel rank r / %d.\n", n, n)
	}
	if most := s.Stages[0]; v.Kind != replay.SlowRanks && most.S-1 > (s.S-1)/2 && s.S > 1.03 {
		a.Printf("Ranks are compared within a stage. The stages are uneven: stage %s alone makes a step %.2fx longer.\n", most.Name, most.S)
	}
	duration := func(seconds float64) string { return fmt.Sprintf("%.3g s", seconds) }
	a.Printf("\nSlowdown %.2f: a step takes %s (recorded: %s, with delays of launches), and %s where every computation takes the mean time of its kind and every transfer the median.\n\n",
		s.S, duration(s.Step), duration(s.Recorded), duration(s.Ideal))
	out := &layout.Table{Heads: []string{"<what alone", "slowdown"}}
	for _, list := range [...]struct {
		word string
		of   []optrace.Added
	}{{"", s.Kinds}, {"data parallel rank ", s.Ranks}, {"stage ", s.Stages}} {
		for _, x := range list.of[:min(len(list.of), 3)] {
			out.Add("  "+list.word+x.Name, fmt.Sprintf("%.2f", x.S))
		}
	}
	a.Table(a.Stdout, out)
}

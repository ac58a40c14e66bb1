package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/report"
)

// untrained is a report of commands without training: how they ended, and what
// they used.
type untrained struct {
	Version int        `json:"version"`
	Goodput *float64   `json:"goodput"` // always null
	Starts  []ranStart `json:"starts"`  // latest first
}

// ranStart is a start, and how it ended. docs/guide/run.md has the fields.
type ranStart struct {
	*rundir.Run
	Outcome *job.Outcome `json:"outcome"`
}

// startsOnly is the error for a job with starts, but without training.
type startsOnly struct {
	error
	starts []*rundir.Run
	procs  []*job.Process
}

func (s *startsOnly) Unwrap() error { return s.error }

// maxStarts is how many starts the screen shows.
const maxStarts = 10

// showStarts reports starts in which no process trains: the screen of the last
// one, and a table if there are more. Run is the id of their run, if known.
func showStarts(a *ui.App, only *startsOnly, run string, asJSON bool) error {
	var starts []ranStart
	for _, s := range only.starts {
		starts = append(starts, ranStart{s, job.OutcomeOfStart(s, only.procs)})
	}
	if asJSON {
		enc := json.NewEncoder(display.JSON(a.Stdout))
		enc.SetIndent("", "  ")
		return enc.Encode(untrained{Version: report.Version, Starts: starts})
	}
	ui.Untrained(a.Stdout, a.Paint(a.Stdout), a.Width(), report.NewUntrained(run, starts[0].Run, only.procs))
	if len(starts) == 1 {
		return nil
	}
	a.Printf("\n")
	t := &display.Table{Heads: []string{"<command", "<began", "lasted", "processor", "cores", "memory", "GPU", "<end"}, Drop: []string{"cores", "began"}}
	for _, s := range starts[:min(len(starts), maxStarts)] {
		used := s.User + s.System
		t.Add(s.Command(), s.Started.UTC().Format(time.DateTime), display.Duration(int64(s.Took())), display.Duration(int64(used*1e9)),
			fmt.Sprintf("%.1f", used/max(s.Took().Seconds(), 1e-3)), cmp.Or(sizeOf(s.MaxRSS), "unknown"), gpusOf(s.GPUs), s.Outcome.Text)
	}
	a.Table(a.Stdout, t)
	if left := len(starts) - maxStarts; left > 0 {
		a.Printf("… %s, see --json\n", display.Plural(left, "more start"))
	}
	return nil
}

// gpusOf describes how busy the GPUs of a start were, and how much of their
// memory was in use.
func gpusOf(all []rundir.GPU) string {
	if len(all) == 0 {
		return "unknown"
	}
	busy, memory := 0.0, int64(0)
	for _, g := range all {
		busy += g.Busy / float64(len(all))
		memory = max(memory, g.Memory)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.0f %% of %d, %s", busy, len(all), sizeOf(memory)), ", ")
}

// sizeOf formats a size, "" if unknown.
func sizeOf(n int64) string {
	if n <= 0 {
		return ""
	}
	return display.Bytes(n)
}

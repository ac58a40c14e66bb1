package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/rundir"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/internal/visible"
	"github.com/trainspan/trainspan/report"
)

// untrained is what a report says of commands in which nothing trains: how they ended,
// and what they used.
type untrained struct {
	Version int           `json:"version"`
	Goodput *float64      `json:"goodput"` // is not known
	Starts  []*rundir.Run `json:"starts"`  // docs/run.md has the fields; the latest first
}

// startsOnly is the error of reading a job where there are starts in which nothing
// trains.
type startsOnly struct {
	error
	starts []*rundir.Run
}

func (s *startsOnly) Unwrap() error { return s.error }

// maxStarts is how many starts the screen shows.
const maxStarts = 10

// showStarts answers for starts in which no process trains.
func (a *app) showStarts(starts []*rundir.Run, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(visible.JSON(a.stdout))
		enc.SetIndent("", "  ")
		return enc.Encode(untrained{Version: report.Version, Starts: starts})
	}
	last := starts[0]
	a.printf("%s %s after %s on %s. Whether it trains is unknown: no span of a training was recorded.\n", last.Command(), last.Ending(), human.Duration(int64(last.Took())), last.Host)
	a.printf("Next: put trainspan run in front of the command that trains, or record its steps; see %s\n\n", see.NoTraining)
	t := table{heads: []string{"<command", "<began", "lasted", "processor", "cores", "memory", "<end"}, drop: []string{"cores", "began"}}
	for _, s := range starts[:min(len(starts), maxStarts)] {
		used := s.User + s.System
		t.add(s.Command(), s.Started.UTC().Format(time.DateTime), human.Duration(int64(s.Took())), human.Duration(int64(used*1e9)),
			fmt.Sprintf("%.1f", used/max(s.Took().Seconds(), 1e-3)), cmp.Or(sizeOf(s.MaxRSS), "unknown"), s.Ending())
	}
	t.write(a.stdout, a.paint(a.stdout), a.width())
	if left := len(starts) - maxStarts; left > 0 {
		a.printf("… %s, see --json\n", human.Plural(left, "more start"))
	}
	for _, e := range last.Evidence {
		a.printf("%s\n", e)
	}
	return nil
}

// sizeOf is a size, empty where nothing is known.
func sizeOf(n int64) string {
	if n <= 0 {
		return ""
	}
	return human.Bytes(n)
}

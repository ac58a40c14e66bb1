package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

// Untrained describes a start of a command in which no process trained, as far as it is on record.
type Untrained struct {
	Run     string // the id of the run; empty means that of the start
	Start   *rundir.Run
	Outcome *job.Outcome
	Reason  string // why nothing was recorded, with a remedy, if known
}

// NewUntrained returns the description of a start with the given id. The processes are those of its records.
func NewUntrained(run string, start *rundir.Run, procs []*job.Process) *Untrained {
	return &Untrained{Run: run, Start: start, Outcome: job.OutcomeOfStart(start, procs), Reason: describeMissing(notRecorded(procs))}
}

// First returns the lines of the screen, at most columns wide if columns is above 0: how the command
// ended, why, what it used, and what is not known.
func (u *Untrained) First(columns int) []string {
	if columns <= 0 || columns > screenColumns {
		columns = screenColumns
	}
	s := &screen{columns: columns}
	o, start := u.Outcome, u.Start
	end, bad := wordsOf(o), o.How.Bad()
	if bad && o.How != job.NotStarted {
		end += " before the first step"
	}
	parts := []string{cmp.Or(u.Run, start.ID()), end}
	if start.Host != "" {
		parts = append(parts, "host "+start.Host)
	}
	s.plain(strings.Join(append(parts, display.Duration(int64(start.Took()))), " · "))
	if label, text, source := describeEnd(o); o.Status == nil || o.Text != fmt.Sprintf("failed: status %d", *o.Status) { // the first line has the status
		s.labelled(label, text)
		s.labelled("", display.Elide(display.Text(source), columns-labelWidth))
	}
	if bad && u.Reason == "" {
		s.labelled("Reached", "no training step is on record")
	} else {
		s.labelled("Not known", strings.TrimSuffix("where the time went: no span of a training is on record. "+sentence(u.Reason), " "))
	}
	if u.Reason == "" && o.How == job.Completed {
		s.labelled("Next", "Put trainspan run in front of the command that trains. Own loops need a line or two: "+helptopic.NoTraining)
	}
	s.labelled("Used", used(start))
	for i, e := range start.Evidence {
		if i == maxEvidence {
			break
		}
		s.labelled("Resources", e)
	}
	return s.lines
}

// used describes the processor time, memory and GPUs that a command used, as far as known.
func used(s *rundir.Run) string {
	var parts []string
	if cpu := s.User + s.System; cpu > 0 {
		parts = append(parts, display.Duration(int64(cpu*1e9))+" of processor time")
	}
	if s.MaxRSS > 0 {
		parts = append(parts, "at most "+display.Bytes(float64(s.MaxRSS))+" of memory")
	}
	if n := len(s.GPUs); n > 0 {
		busy, memory := 0.0, int64(0)
		for _, g := range s.GPUs {
			busy += g.Busy / float64(n)
			memory = max(memory, g.Memory)
		}
		text := fmt.Sprintf("%s %.0f %% busy", display.Plural(n, "GPU"), busy)
		if memory > 0 {
			text += ", at most " + display.Bytes(float64(memory)) + " of its memory"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

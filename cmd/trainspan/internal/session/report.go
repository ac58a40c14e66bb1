//go:build unix

package session

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	jobs "github.com/trainspan/trainspan/analysis/run"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/rundir"
	"github.com/trainspan/trainspan/report"
)

// report reads all starts of the job and says what they show. Of the ranks of a
// launcher only the first does: it sees the files of the others.
func (s *Session) report() error {
	defer s.summary()
	if s.ranks.Rank.Or(0) > 0 {
		return nil
	}
	set, err := jobs.Open(s.where.Job)
	if err != nil {
		return nil //nolint:nilerr // no telemetry is in the folder, which the summary says
	}
	found, err := report.Read(set)
	if err != nil {
		return err
	}
	if len(found) == 0 || len(found[0].Job.Processes) == 0 {
		return nil
	}
	found[0].Name = s.where.Job
	r := report.Build(found[0])
	s.reported = true
	errs := []error{writePage(filepath.Join(s.dir, "report.html"), r)}
	if !s.set.Quiet {
		errs = append(errs, report.Text(s.out, r))
	}
	return errors.Join(errs...)
}

func writePage(path string, r *report.Report) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644) //nolint:gosec // a page to be shown to others
	if err != nil {
		return err
	}
	return errors.Join(report.HTML(f, r), f.Close())
}

// maxSaid bounds the problems that are said at the end.
const maxSaid = 4

// summary says in a line or two how the command ended and where the files are.
func (s *Session) summary() {
	if s.set.Quiet || s.ranks.Rank.Or(0) > 0 {
		return
	}
	s.mu.Lock()
	r, said := s.run, s.said
	s.mu.Unlock()
	for i, problem := range r.Problems[said:] {
		if i == maxSaid {
			s.say("%d more problems are in run.json", len(r.Problems)-said-i)
			break
		}
		s.say("%s", problem)
	}
	if !s.reported {
		s.say("no process that trains was seen: what was recorded is in the files")
		for _, e := range r.Evidence {
			s.say("%s", e)
		}
	}
	s.say("%s after %v; files in %s", ending(&r), r.Ended.Sub(r.Started).Round(10*time.Millisecond), s.where.Dir)
}

// ending is how a command ended, in words.
func ending(r *rundir.Run) string {
	text := "ended"
	switch {
	case r.Signal != "":
		text = "ended by " + r.Signal
	case r.ExitStatus != nil && *r.ExitStatus == 0:
		text = "ended well"
	case r.ExitStatus != nil:
		text = "ended with status " + strconv.Itoa(*r.ExitStatus)
	}
	if r.EndedBy == rundir.ByMemory {
		text += ", out of memory"
	}
	return text
}

//go:build unix

package session

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/outfile"
	jobs "github.com/trainspan/trainspan/internal/run"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/report"
)

// reading is for how long the reading of all starts keeps trainspan run from ending.
const reading = 10 * time.Second

// report reads all starts of the job, says what they show, calls told and writes the
// page. Of the ranks of a launcher only the first does: it sees the files of the
// others.
func (s *Session) report(told func()) {
	if s.ranks.Rank.Or(0) > 0 {
		return
	}
	var r *report.Report
	var procs []*jobs.Process
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.try("the report", func() (err error) { r, procs, err = s.read(); return err })
	}()
	late := time.NewTimer(reading)
	defer late.Stop()
	select {
	case <-done:
		if r != nil {
			s.try("the report", func() error { return report.Text(s.out, r) })
		}
		s.summary(r != nil, procs)
	case <-late.C:
		s.say("the starts of this job take longer to read: the report will be %s", filepath.Join(s.where.Dir, page))
		s.summary(true, nil)
	}
	told()
	if <-done; r != nil {
		s.try("the report", func() error { return writePage(filepath.Join(s.dir, page), r) })
	}
}

// page is the file of the report.
const page = "report.html"

// read reads all starts of the job. Where no process trains it gives what else there is.
func (s *Session) read() (*report.Report, []*jobs.Process, error) {
	set, err := jobs.Open(s.where.Job)
	if err != nil {
		return nil, nil, nil //nolint:nilerr // no telemetry is in the folder, which the summary says
	}
	found, err := report.Read(set)
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	if len(found[0].Job.Processes) == 0 {
		var procs []*jobs.Process
		for _, j := range found {
			procs = append(procs, j.Job.Helpers...)
		}
		return nil, procs, nil
	}
	found[0].Name = s.where.Job
	return report.Build(found[0]), nil, nil
}

// writePage writes the page of a report, under the next free name where a file of
// somebody else has the one asked for.
func writePage(path string, r *report.Report) error {
	_, err := outfile.NextFree(1, func(n int) error { return report.WritePage(outfile.Run(path, n), r) })
	return err
}

// maxSaid bounds the problems that are said at the end.
const maxSaid = 4

// summary says in a line or two how the command ended and where the files are, and
// where nothing was reported why that may be.
func (s *Session) summary(reported bool, procs []*jobs.Process) {
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
	if !reported {
		if why := s.python.unseen(&r, s.set.NoTorch); why != "" {
			s.say("Python ran and was not recorded: %s; see "+see.Python, why)
		} else {
			s.say("no process that trains was seen: what was recorded is in the files; see " + see.Run)
		}
		for _, e := range r.Evidence {
			s.say("%s", e)
		}
	}
	end := jobs.OutcomeOfStart(&r, procs).Sentence(int64(r.Took()))
	s.say("%s Files in %s", strings.ToLower(end[:1])+end[1:], s.where.Dir)
}

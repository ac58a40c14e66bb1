//go:build unix

package session

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/launch"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/analyze/compare"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/report"
)

// reading is the maximum time that trainspan run waits for the report of all
// starts.
const reading = 10 * time.Second

// report reads all starts of the job, writes the page, prints the first screen
// for the terminal, and calls reported. Among the ranks of a launcher only the
// first one reports: it reads the files of the others.
func (s *Session) report(terminal launch.Terminal, reported func()) {
	if s.ranks.Rank.Or(0) > 0 {
		return
	}
	var r *report.Report
	var procs []*job.Process
	var before *compare.Result
	var written string
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.try("the report", func() (err error) { r, before, procs, err = s.read(); return err })
		if r != nil {
			s.try("the page of the report", func() (err error) { written, err = writePage(filepath.Join(s.dir, page), r); return err })
		}
	}()
	late := time.NewTimer(reading)
	defer late.Stop()
	select {
	case <-done:
		if r != nil {
			s.try("the report", func() error {
				ui.Screen(s.out, ui.Painter{On: terminal.Color}, terminal.Columns, r, false)
				return s.out.Err()
			})
		}
		s.summary(terminal, r, before, written, procs)
	case <-late.C:
		s.say("reading all attempts of this job takes longer: the report will be %s", filepath.Join(s.where.Dir, page))
		s.problems()
		s.say("%s", s.end(nil))
		reported()
	}
	<-done
}

// page is the file name of the report.
const page = "report.html"

// read reads all starts of the job, and compares the run with the previous one
// of the same name. If no process of this attempt trains, it returns the other
// processes of the attempt.
func (s *Session) read() (*report.Report, *compare.Result, []*job.Process, error) {
	began := time.Now()
	set, err := job.Open(s.where.Job)
	if err != nil {
		return nil, nil, nil, nil //nolint:nilerr // the folder has no telemetry, which the summary reports
	}
	found, err := report.Read(set)
	if err != nil || len(found) == 0 {
		return nil, nil, nil, err
	}
	j := s.jobOf(found)
	if j == nil && s.sharesFolder() && len(found[0].Job.Processes) > 0 {
		j = found[0] // with times of another clock
	}
	if j == nil {
		var procs []*job.Process
		for _, j := range found {
			procs = append(procs, j.Job.Helpers...)
		}
		return nil, nil, slices.DeleteFunc(procs, func(p *job.Process) bool { return !s.isOfAttempt(p) }), nil
	}
	if j.Name = s.where.Job; !s.sharesFolder() {
		s.runID = j.Job.Label
	}
	r := report.Build(j)
	if time.Since(began) > reading/4 {
		return r, nil, nil, nil // comparing would double the time, and the user waits for the screen
	}
	return r, withEarlier(r, j, earlier(found, j)), nil, nil
}

// jobOf returns the job of this start among those in its folder, or nil if no
// process of this attempt trains. The others are earlier runs, which may have
// another session tag. If starts share a folder, the times decide.
func (s *start) jobOf(found []*report.Job) *report.Job {
	began := s.began().UnixNano()
	is := func(p *job.Process) bool { return s.isOfAttempt(p) && (!s.sharesFolder() || p.LastSeen >= began) }
	i := slices.IndexFunc(found, func(j *report.Job) bool { return slices.ContainsFunc(j.Job.Processes, is) })
	if i < 0 {
		return nil
	}
	return found[i]
}

// earlier returns the jobs that began before j, the latest first.
func earlier(found []*report.Job, j *report.Job) []*report.Job {
	began := func(j *report.Job) int64 {
		first := int64(math.MaxInt64) // without processes it is not earlier
		for _, p := range j.Job.Processes {
			first = min(first, p.Start)
		}
		return first
	}
	list := slices.DeleteFunc(slices.Clone(found), func(o *report.Job) bool { return o == j || began(o) > began(j) })
	slices.SortStableFunc(list, func(a, b *report.Job) int { return cmp.Compare(began(b), began(a)) })
	return list
}

// sharesFolder reports whether other starts may have the same folder.
func (s *start) sharesFolder() bool { return s.where.Job == s.where.Dir }

// began returns when the command was started.
func (s *start) began() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run.Started
}

// isOfAttempt reports whether a process recorded something in the attempt of
// this start. If starts share a folder, it is true for all processes.
func (s *start) isOfAttempt(p *job.Process) bool {
	if s.sharesFolder() {
		return true
	}
	attempt := filepath.Dir(s.where.Dir) + string(filepath.Separator)
	return slices.ContainsFunc(p.Sources, func(path string) bool { return strings.HasPrefix(filepath.Clean(path), attempt) })
}

// withEarlier compares the run of j and r with the latest earlier one of its
// name, if both completed. Runs with injected delays are not
// compared: they are slower on purpose.
func withEarlier(r *report.Report, j *report.Job, before []*report.Job) *compare.Result {
	usual := func(r *report.Report) bool { return r.Verdict.Outcome == report.Completed && len(r.Injected) == 0 }
	if !usual(r) {
		return nil
	}
	for _, o := range before {
		if usual(report.Build(o)) {
			return compare.Sides([]*compare.Run{report.Comparable(o, o.Job.Label)}, []*compare.Run{report.Comparable(j, j.Job.Label)}, nil)
		}
	}
	return nil
}

// writePage writes the page of a report and returns its path. If a foreign file
// has that name, it uses the next free name.
func writePage(path string, r *report.Report) (string, error) {
	n, err := fswrite.NextFree(1, func(n int) error { return report.WritePage(fswrite.Run(path, n), r) })
	return fswrite.Run(path, n), err
}

// maxSaid is the maximum number of problems that are printed at the end.
const maxSaid = 4

// problems prints the problems that were not printed yet.
func (s *Session) problems() {
	s.mu.Lock()
	list := s.run.Problems[s.printed:]
	s.mu.Unlock()
	for i, problem := range list {
		if i == maxSaid {
			s.say("run.json has %d more problems", len(list)-i)
			break
		}
		s.say("%s", problem)
	}
}

// summary prints information that the screen does not have: the paths of the
// page and the files. Without a report it prints the screen of the command: how
// it ended, and why nothing was recorded.
func (s *Session) summary(terminal launch.Terminal, r *report.Report, before *compare.Result, written string, procs []*job.Process) {
	s.problems()
	line := func(label, text string) {
		if text != "" {
			_, _ = display.Fprintf(s.out, "%-10s %s\n", label, text) // an error cannot be reported
		}
	}
	if r != nil {
		if before != nil {
			label := "Compared"
			for _, part := range display.Fold(before.Brief(), min(cmp.Or(terminal.Columns, 80), 80)-11) {
				line(label, part)
				label = ""
			}
		}
		if written != "" {
			line("Page", filepath.Join(s.where.Dir, filepath.Base(written)))
		}
		line("Trace", "trainspan open "+display.ShellWord(cmp.Or(s.runID, s.where.Dir)))
		line("Files", s.where.Dir)
		return
	}
	s.mu.Lock()
	run := s.run
	s.mu.Unlock()
	u := report.NewUntrained("", &run, procs)
	if why := s.python.unseen(&run, s.set.NoTorch, u.Outcome.How.Bad()); why != "" {
		u.Reason = fmt.Sprintf("Python ran and was not recorded: %s; see "+helptopic.Python, why)
	}
	ui.Untrained(s.out, ui.Painter{On: terminal.Color}, terminal.Columns, u)
	line("Files", s.where.Dir)
}

// end returns how the command ended, and the folder of the files.
func (s *Session) end(procs []*job.Process) string {
	s.mu.Lock()
	run := s.run
	s.mu.Unlock()
	text := job.OutcomeOfStart(&run, procs).Sentence(int64(run.Took()))
	return fmt.Sprintf("%s Files in %s", strings.ToLower(text[:1])+text[1:], s.where.Dir)
}

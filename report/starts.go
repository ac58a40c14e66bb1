package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/trainspan/trainspan/internal/rundir"
)

// start is what the report takes of a run.json (docs/run.md): how one start of
// the job ended on one node, and what its use of resources shows.
type start struct{ rundir.Run }

// appendStart adds what a digest holds of a run.json, if it is one.
func appendStart(all []start, r *rundir.Run, err error) []start {
	if err != nil || !r.Told() {
		return all
	}
	return append(all, start{rundir.Run{Version: r.Version, Session: r.Session, Job: r.Job, Key: r.Key, Start: r.Start, Attempt: r.Attempt, Program: r.Program, Script: r.Script, Flags: r.Flags, Host: r.Host, Rank: r.Rank, State: r.State, Started: r.Started, Seen: r.Seen,
		EndedBy: r.EndedBy, ExitStatus: r.ExitStatus, Signal: r.Signal, Evidence: r.Evidence}})
}

// uniqueStarts gives each once, in an order that does not depend on who was read first.
func uniqueStarts(all []start) (out []*rundir.Run) {
	all = slices.SortedFunc(slices.Values(all), func(a, b start) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.text(), b.text()))
	})
	for _, s := range slices.CompactFunc(all, func(a, b start) bool { return a.text() == b.text() }) {
		out = append(out, &s.Run)
	}
	return out
}

// text is the start in a digest.
func (s *start) text() string {
	text, err := json.Marshal(&s.Run)
	if err != nil {
		return "" // times beyond year 9999; readers leave it out
	}
	return string(text)
}

// ending is how a start ended, in words, and how much that says about the attempt:
// a rank that ran out of memory explains why the others were ended.
func (s *start) ending() (text string, weight int) {
	switch {
	case s.EndedBy == rundir.ByMemory:
		return "out of memory", 5
	case s.Signal != "":
		return "ended by " + s.Signal, 4
	case s.ExitStatus != nil && *s.ExitStatus != 0:
		return fmt.Sprintf("status %d", *s.ExitStatus), 3
	case s.State == rundir.Running:
		return "last seen " + s.Seen.UTC().Format("15:04:05"), 2
	}
	return "", 0
}

// maxEvidence bounds the list: each node of a large job has its own.
const maxEvidence = 100

// outcomes adds to the attempts how they ended, and what the use of resources shows.
func (r *Report) outcomes(runs []*rundir.Run) {
	all := make([]start, len(runs))
	for i, r := range runs {
		all[i] = start{*r}
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		best := 0
		for k := range all {
			s := &all[k]
			if s.Started.UnixNano() > a.Stop || s.Seen.UnixNano() < a.Start {
				continue
			}
			if text, weight := s.ending(); weight > best {
				a.Outcome, best = text, weight
				if s.Rank != nil {
					a.Outcome += fmt.Sprintf(" (rank %d)", *s.Rank)
				}
			}
		}
	}
	for k := range all {
		where := ""
		if len(all) > 1 {
			where = all[k].Host + ", "
			if all[k].Rank != nil {
				where += fmt.Sprintf("rank %d, ", *all[k].Rank)
			}
			where += all[k].Started.UTC().Format("15:04:05") + ": "
		}
		for _, e := range all[k].Evidence {
			if len(r.Evidence) < maxEvidence {
				r.Evidence = append(r.Evidence, where+e)
			}
		}
	}
}

func (s *screen) evidence(r *Report) {
	if len(r.Evidence) == 0 {
		return
	}
	s.head("RESOURCES")
	const most = 4
	for _, e := range r.Evidence[:min(len(r.Evidence), most)] {
		s.line("  %s", e)
	}
	s.more(len(r.Evidence)-most, "remark")
}

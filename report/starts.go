package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/trainspan/trainspan/analysis/run"
)

// start is what the report takes of a run.json (docs/run.md): how one start of
// the job ended on one node, and what its use of resources shows.
type start struct {
	Version    int       `json:"version"`
	Session    string    `json:"session_tag"`
	Host       string    `json:"host"`
	Rank       *int      `json:"rank"`
	State      string    `json:"state"`
	Started    time.Time `json:"started"`
	Seen       time.Time `json:"seen"`
	EndedBy    string    `json:"ended_by"`
	ExitStatus *int      `json:"exit_status"`
	Signal     string    `json:"signal"`
	Evidence   []string  `json:"evidence"`
}

// startVersion is the newest format of run.json that is known.
const startVersion = 1

var startName = regexp.MustCompile(`^run(?:\.run\d+)?\.json$`)

// maxStart bounds the size of a run.json that is read.
const maxStart = 1 << 20

// readStarts reads the run.json among the files that are no telemetry.
func readStarts(skipped []*run.FileError) (out []start) {
	for _, f := range skipped {
		if !startName.MatchString(filepath.Base(f.Path)) {
			continue
		}
		if info, err := os.Stat(f.Path); err != nil || info.Size() > maxStart {
			continue
		}
		text, err := os.ReadFile(f.Path)
		if err != nil {
			continue
		}
		if s, ok := parseStart(text); ok {
			out = append(out, s)
		}
	}
	return out
}

func parseStart(text []byte) (s start, ok bool) {
	err := json.Unmarshal(text, &s)
	return s, err == nil && s.Version >= 1 && s.Version <= startVersion && !s.Started.IsZero()
}

// startsOf gives those of one job in the order of time, each once.
func startsOf(all []start, session string) (out []start) {
	for i := range all {
		if session == "" || all[i].Session == session {
			out = append(out, all[i])
		}
	}
	slices.SortFunc(out, func(a, b start) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.text(), b.text()))
	})
	return slices.CompactFunc(out, func(a, b start) bool { return a.text() == b.text() })
}

// text is what a digest holds of a start.
func (s *start) text() string {
	text, err := json.Marshal(s)
	if err != nil {
		return "" // times beyond year 9999; readers leave it out
	}
	return string(text)
}

// ending is how a start ended, in words, and how much that says about the attempt:
// a rank that ran out of memory explains why the others were ended.
func (s *start) ending() (text string, weight int) {
	switch {
	case s.EndedBy == "out_of_memory":
		return "out of memory", 5
	case s.Signal != "":
		return "ended by " + s.Signal, 4
	case s.ExitStatus != nil && *s.ExitStatus != 0:
		return fmt.Sprintf("status %d", *s.ExitStatus), 3
	case s.State == "running":
		return "last seen " + s.Seen.UTC().Format("15:04:05"), 2
	}
	return "", 0
}

// maxEvidence bounds the list: each node of a large job has its own.
const maxEvidence = 100

// outcomes adds to the attempts how they ended, and what the use of resources shows.
func (r *Report) outcomes(all []start) {
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

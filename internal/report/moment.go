package report

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
)

// moment is an interval of the traces that shows the finding.
type moment struct {
	attempt  int
	step     int64 // -1 if not recorded
	ranks    []int // the ranks to show, those of the finding first
	from, to int64
	files    []string // the traces of the ranks
	shared   bool     // a file also has other ranks
}

// mostShown is the largest number of ranks that a command opens: those of the finding, and one to
// compare them with.
const mostShown = 3

// findMoment returns where the traces show the finding. It returns nil if there is no finding, if
// no trace shows it, and for profiles, whose converted traces are temporary.
func (j *Job) findMoment(r *Report) *moment {
	var m *moment
	switch kind := r.Verdict.kind; {
	case r.Profile != nil || r.endedBeforeSteps():
		return nil
	case kind == finding.Checkpoints:
		m = longestSave(r.Checkpoints)
	case kind.IsOfSteps(), kind == finding.Wait, kind == finding.OtherCode:
		m = j.stepOfFinding(r)
	case kind == finding.Recompile:
		m = j.longestRecompilation(r.Recompiled)
	case kind == finding.StartUp:
		m = j.longestStart(r)
	case kind == finding.Evaluation, kind == finding.LostWork, kind == finding.Other:
		m = j.longestStretch(kind)
	}
	if m == nil { // for example time lost between attempts, which no trace shows
		return nil
	}
	// Clocks of hosts differ, and the cause of a wait may begin before the step.
	around := max((m.to-m.from)/2, int64(time.Millisecond))
	m.from, m.to = m.from-around, m.to+around
	m.addFiles(j.Job.Processes, r.Series.Lanes)
	if len(m.files) == 0 {
		return nil
	}
	return m
}

// longestRecompilation returns the step that a compiler delayed longest, or nil.
func (j *Job) longestRecompilation(all []Recompilation) *moment {
	if len(all) == 0 {
		return nil
	}
	c := slices.MaxFunc(all, func(a, b Recompilation) int { return cmp.Compare(a.Time, b.Time) })
	its := j.Ledger.Iterations(c.Attempt)
	i := slices.IndexFunc(its, func(it account.Iteration) bool { return it.First <= c.Step && c.Step <= it.Last })
	if i < 1 {
		return nil
	}
	return &moment{attempt: c.Attempt, step: c.Step, ranks: []int{c.Rank}, from: its[i-1].End, to: its[i].End}
}

// longestStart returns the longest start: from the start of an attempt to the end of its first step. It
// returns nil if no attempt has a step.
func (j *Job) longestStart(r *Report) *moment {
	var m *moment
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if its := j.Ledger.Iterations(a.Number); len(its) > 0 && (m == nil || its[0].End-a.Start > m.to-m.from) {
			m = &moment{attempt: a.Number, step: job.Unknown, from: a.Start, to: its[0].End}
		}
	}
	if f := r.Verdict.Finding; m != nil && f != nil {
		m.ranks = slices.Clone(f.Ranks[:min(len(f.Ranks), mostShown-1)])
	}
	return m
}

// longestStretch returns the longest interval of a rank in the categories of a kind, or nil.
func (j *Job) longestStretch(kind finding.Kind) *moment {
	var longest *moment
	var last account.Stretch // of the kind
	var from int64
	_ = j.Ledger.Stretches(func(s *account.Stretch) error { // never fails
		if s.Attempt == 0 || s.Category == account.Productive || kindOfPart(partOf(s.Category)) != kind {
			return nil
		}
		step := int64(job.Unknown) // of several
		if last.Rank != s.Rank || last.Attempt != s.Attempt || last.End != s.Start {
			from, step = s.Start, s.Step
		}
		if last = *s; longest == nil || s.End-from > longest.to-longest.from {
			longest = &moment{attempt: s.Attempt, step: step, ranks: []int{s.Rank}, from: from, to: s.End}
		}
		return nil
	})
	return longest
}

// longestSave returns the save that blocked training longest, or nil.
func longestSave(all []Checkpoint) *moment {
	var m *moment
	for _, c := range all {
		if !c.Load && c.Blocking > 0 && (m == nil || c.Blocking > m.to-m.from) {
			m = &moment{attempt: c.Attempt, step: c.Step, ranks: []int{c.Slowest}, from: c.Start, to: c.Start + c.Blocking}
		}
	}
	return m
}

// stepOfFinding returns the step of a hang, or else the step of [Lanes], or else a step of
// median length. It returns nil without steps.
func (j *Job) stepOfFinding(r *Report) *moment {
	m := &moment{attempt: r.Verdict.Attempt}
	v := r.Verdict.Rank
	if v == nil {
		for i, length := range r.Attempts {
			if i == 0 || length.Stop-length.Start > m.to-m.from {
				m.attempt, m.from, m.to = length.Number, length.Start, length.Stop
			}
		}
	} else if v.Kind == r.Verdict.kind {
		m.ranks = slices.Clone(v.Ranks[:min(len(v.Ranks), mostShown-1)])
	}
	its := j.Ledger.Iterations(m.attempt)
	at := usualStep(its)
	if at < 0 {
		return nil
	}
	hangs := r.Verdict.kind == finding.Hang
	if l := r.Series.Lanes; hangs {
		at = len(its) - 1
	} else if l != nil && l.Attempt == m.attempt {
		if i := slices.IndexFunc(its, func(it account.Iteration) bool { return it.First <= l.Step && l.Step <= it.Last }); i > 0 {
			at = i
		}
	}
	m.step, m.from, m.to = its[at].Last, its[at-1].End, its[at].End
	if i := slices.IndexFunc(r.Attempts, func(a Attempt) bool { return a.Number == m.attempt }); hangs && i >= 0 {
		m.to = max(m.to, r.Attempts[i].Stop)
		if m.step = v.FromStep; its[at].Last < m.step { // the step that hangs is no iteration
			m.from = its[at].End
		}
	}
	return m
}

// usualStep returns the index of the step of median length, or -1.
func usualStep(its []account.Iteration) int {
	var at []int
	for i := 1; i < len(its); i++ {
		at = append(at, i)
	}
	if len(at) == 0 {
		return -1
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(its[a].End-its[a-1].End, its[b].End-its[b-1].End) })
	return at[len(at)/2]
}

// addFiles adds a rank to compare with and the traces of the ranks.
func (m *moment) addFiles(procs []*job.Process, lanes *Lanes) {
	of := make(map[int]*job.Process)
	users := make(map[string]int)
	var all []int
	for _, p := range procs {
		for _, f := range p.Sources {
			users[f]++
		}
		if p.Attempt == m.attempt && of[p.Rank] == nil {
			of[p.Rank] = p
			all = append(all, p.Rank)
		}
	}
	slices.Sort(all)
	if lanes != nil && lanes.Attempt == m.attempt { // the last rank in lanes waited longest
		all = slices.Insert(all, 0, lanes.Ranks[len(lanes.Ranks)-1])
	}
	for _, rank := range all {
		if !slices.Contains(m.ranks, rank) {
			m.ranks = append(m.ranks, rank)
			break
		}
	}
	for _, rank := range m.ranks {
		p := of[rank]
		if p == nil {
			continue
		}
		traces := slices.DeleteFunc(slices.Clone(p.Sources), func(f string) bool { return !fsread.NamedTrace(f) })
		own := slices.DeleteFunc(slices.Clone(traces), func(f string) bool { return users[f] > 1 })
		if len(own) == 0 { // all ranks are in one file
			own, m.shared = traces, true
		}
		for _, f := range own {
			if !slices.Contains(m.files, f) {
				m.files = append(m.files, f)
			}
		}
	}
}

// traceLink is a link from a page to a trace.
type traceLink struct {
	Name string
	To   string // relative to the folder of the page
}

// links returns links to the existing traces for a page in a folder. They are relative, so the folder
// may be moved or copied together with the page and the traces.
func (m *moment) links(folder string) (out []traceLink) {
	if m == nil || folder == "" {
		return nil
	}
	for _, f := range m.files {
		path, err := filepath.Abs(f)
		if err != nil {
			continue
		}
		to, err := filepath.Rel(folder, path)
		if info, missing := os.Stat(path); err == nil && missing == nil && info.Mode().IsRegular() {
			parts := strings.Split(filepath.ToSlash(to), "/")
			for i := range parts {
				parts[i] = url.PathEscape(parts[i])
			}
			out = append(out, traceLink{filepath.Base(f), "./" + strings.Join(parts, "/")}) // without ./ a name with a colon is a scheme
		}
	}
	return out
}

// What describes the moment: its step, attempt, ranks and time.
func (m *moment) What() string {
	ranks, word := fmt.Sprint(m.ranks[0]), "rank"
	if last := len(m.ranks) - 1; last > 0 {
		ranks, word = strings.ReplaceAll(strings.Trim(fmt.Sprint(m.ranks[:last]), "[]"), " ", ", ")+" and "+fmt.Sprint(m.ranks[last]), "ranks"
	}
	step := ""
	if m.step >= 0 {
		step = fmt.Sprintf("step %d of ", m.step)
	}
	return fmt.Sprintf("%sattempt %d, %s %s, %s UTC", step, m.attempt, word, ranks, time.Unix(0, m.from).UTC().Format("2006-01-02 15:04:05.000"))
}

// Command returns the command line that opens the moment in Perfetto.
func (m *moment) Command() string {
	line := []string{"trainspan", "open"}
	for _, f := range m.files {
		line = append(line, display.ShellWord(f))
	}
	if m.shared {
		line = append(line, "--rank", strings.ReplaceAll(strings.Trim(fmt.Sprint(m.ranks), "[]"), " ", ","))
	}
	// Traces have a resolution of microseconds.
	at := func(ns int64) string { return time.UnixMicro(ns / 1000).UTC().Format("2006-01-02T15:04:05.000000Z") }
	return strings.Join(append(line, "--from", at(m.from), "--to", at(m.to)), " ")
}

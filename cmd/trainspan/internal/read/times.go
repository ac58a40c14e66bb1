package read

import (
	"slices"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/filetime"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

// TimeJudge drops events that are more than filetime.MaxApart from the median
// of the times of their file, or that end before they begin. If the median is
// known only at the end of a file, the file is read again.
type TimeJudge struct {
	Medians  map[string]int64   // medians of files that are read again
	aside    map[string]int64   // number of dropped events by file
	relative []string           // files near time 0
	first    map[string][]int64 // times by file, found by Look
	Again    bool
}

// Reading begins to read all files, for the first or for the second time.
func (j *TimeJudge) Reading() {
	j.Again, j.relative, j.aside = false, nil, make(map[string]int64)
	if j.Medians == nil {
		j.Medians = make(map[string]int64)
	}
}

// FileJudge judges the times of one file.
type FileJudge struct {
	*filetime.Judge
	aside int64
	spans bool
}

// Judge returns a judge for a file. Pass it to End once the file is read.
func (j *TimeJudge) Judge(path string) *FileJudge {
	median, known := j.Medians[path]
	f := &FileJudge{Judge: JudgeBy(median, known)}
	for _, t := range j.first[path] {
		f.Has(t)
	}
	return f
}

// Counts reports whether the times of an event are possible.
func (f *FileJudge) Counts(ev *dftracer.Event) bool {
	f.spans = f.spans || ev.Phase == dftracer.PhaseComplete && ev.Cat != dftracer.CatDFTracer
	if !CanBe(f.Judge, ev) {
		f.aside++
		return false
	}
	return true
}

// End ends the judgement of a file.
func (j *TimeJudge) End(path string, f *FileJudge) {
	if f.aside > 0 {
		j.aside[path] = f.aside
	}
	if !f.Right() {
		j.Medians[path], j.Again = f.Median(), true
	}
	if f.spans && f.Median() < NearZero {
		j.relative = append(j.relative, path)
	}
}

// File returns a function that passes accepted events to fn, and one for the
// end of the file.
func (j *TimeJudge) File(path string, fn func(*dftracer.Event) error) (take func(*dftracer.Event) error, end func()) {
	f := j.Judge(path)
	take = func(ev *dftracer.Event) error {
		if !f.Counts(ev) {
			return nil
		}
		return fn(ev)
	}
	return take, func() { j.End(path, f) }
}

// NearZero is the year 2000, in microseconds since the Unix epoch. Times before
// it are from a clock that does not count from the Unix epoch.
const NearZero = 946684800e6

// WarnOfTimes reports the dropped events.
func WarnOfTimes(a *ui.App, j *TimeJudge) {
	const most = 8
	var paths []string
	for path := range j.aside {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for i, path := range paths {
		if i == most && len(paths) > most+1 {
			a.Problem("events ignored in %s more; see "+helptopic.Damaged, display.Plural(len(paths)-i, "file"))
			break
		}
		WarnOfSetAside(a, path, j.aside[path])
	}
	WarnOfRelativeTimes(a, j.relative)
}

// WarnOfSetAside reports dropped events of a file.
func WarnOfSetAside(a *ui.App, path string, n int64) {
	if n > 0 {
		a.Problem("%s: %s ignored: more than 30 days from the other times of the file, or ending before they begin; see "+helptopic.Damaged, path, display.Plural(n, "event"))
	}
}

// WarnOfRelativeTimes reports that the times of files are relative.
func WarnOfRelativeTimes(a *ui.App, paths []string) {
	if len(paths) > 0 {
		a.Note("%s: times are relative, and the trace does not have their base%s", paths[0], andMore(len(paths)-1))
	}
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return ", and so are those of " + display.Plural(n, "more file")
}

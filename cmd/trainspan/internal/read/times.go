package read

import (
	"context"
	"slices"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/filetime"
	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/see"
)

// CanBe reports whether the times of an event can be, and counts them for the
// median. The framing of a trace has no part in it.
func CanBe(times *filetime.Judge, ev *dftracer.Event) bool {
	switch {
	case ev.Phase == dftracer.PhaseMetadata || ev.Cat == dftracer.CatDFTracer:
		return true
	case ev.Phase == dftracer.PhaseComplete:
		return ev.Dur >= 0 && times.Has(ev.TS) && times.Near(ev.End())
	}
	return ev.TS == 0 || times.Has(ev.TS)
}

// JudgeBy returns a judge of the times of a trace, by a median where it is known.
func JudgeBy(median int64, known bool) *filetime.Judge {
	if known {
		return filetime.With(time.Microsecond, median)
	}
	return filetime.New(time.Microsecond)
}

// TimeJudge sets aside the events of files that lie more than filetime.MaxApart
// from the median of the times of their file, or that end before they begin. A
// file whose median is known only at its end is read again.
type TimeJudge struct {
	Medians  map[string]int64   // of files that are read again
	aside    map[string]int64   // events by file
	relative []string           // files near time 0
	first    map[string][]int64 // times that a look at files found
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

// Judge returns a judge for a file, to be given to end once the file is read.
func (j *TimeJudge) Judge(path string) *FileJudge {
	median, known := j.Medians[path]
	f := &FileJudge{Judge: JudgeBy(median, known)}
	for _, t := range j.first[path] {
		f.Has(t)
	}
	return f
}

// Counts reports whether an event has times that can be.
func (f *FileJudge) Counts(ev *dftracer.Event) bool {
	f.spans = f.spans || ev.Phase == dftracer.PhaseComplete && ev.Cat != dftracer.CatDFTracer
	if !CanBe(f.Judge, ev) {
		f.aside++
		return false
	}
	return true
}

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

// File returns a function that hands on what fn may take, and one for the end of
// the file.
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

// Look notes the times of the first events of a file, for a command that shows what
// it reads: a clock that was not set at first is known then.
func (j *TimeJudge) Look(ctx context.Context, path string, q *Filter) {
	const most = 4096
	if IsRecords(path) {
		return // they are judged as they are read
	}
	var times []int64
	n := 0
	// What is wrong with the file is told when it is read for good.
	_, _ = dftracer.Scan(path, &dftracer.ReaderOptions{NoHashes: true, Stop: ctx.Err}, func(ev *dftracer.Event) error {
		if ev.Phase == dftracer.PhaseComplete && ev.Cat != dftracer.CatDFTracer && ev.Dur >= 0 && q.Has(path, ev) {
			times = append(times, ev.TS)
		}
		if n++; n == most {
			return ErrEnough
		}
		return nil
	})
	j.first = map[string][]int64{path: times}
}

// Judged reads files and gives each event whose times can be to what file returns
// for its file, and at the end of the file its hashes to done. It begins anew
// where the median of the times of a file is another than its first events said.
func Judged(ctx context.Context, a *ui.App, verb string, files []string, q *Filter, begin func(),
	file func(path string) (take func(*dftracer.Event) error, done func(*dftracer.Hashes) error)) (err error) {
	var times TimeJudge
	bar := a.StartProgress(verb, files)
	for first := true; first || times.Again && err == nil; first = false {
		begin()
		times.Reading()
		err = a.Each(ctx, files, func(path string) error {
			fn, done := file(path)
			take, end := times.File(path, fn)
			hashes, err := Events(ctx, a, path, q, bar, take)
			end()
			if failed := done(hashes); err == nil {
				err = failed
			}
			return err
		})
	}
	bar.Finish()
	if err == nil {
		TellTimes(a, &times)
	}
	return err
}

// NearZero is the year 2000, in microseconds: a clock that shows an earlier time
// counts from something else than the Unix epoch.
const NearZero = 946684800e6

// TellTimes says what was set aside.
func TellTimes(a *ui.App, j *TimeJudge) {
	const most = 8
	var paths []string
	for path := range j.aside {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for i, path := range paths {
		if i == most && len(paths) > most+1 {
			a.Problem("events set aside in %s more; see "+see.Damaged, human.Plural(len(paths)-i, "file"))
			break
		}
		TellAside(a, path, j.aside[path])
	}
	TellRelative(a, j.relative)
}

// TellAside says that events of a file were set aside.
func TellAside(a *ui.App, path string, n int64) {
	if n > 0 {
		a.Problem("%s: %s set aside: more than 30 days from the other times of the file, or ending before the begin; see "+see.Damaged, path, human.Plural(n, "event"))
	}
}

// TellRelative says that the times of files are relative.
func TellRelative(a *ui.App, paths []string) {
	if len(paths) > 0 {
		a.Note("%s: the times are relative to something that the trace does not say%s", paths[0], andMore(len(paths)-1))
	}
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return ", and so are those of " + human.Plural(n, "more file")
}

package read

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// Scan calls fn with the events of one file in order and reports its defects.
// It returns an error if the file is not a trace.
func Scan(ctx context.Context, a *ui.App, path string, bar *ui.Progress, fn func(*dftracer.Event) error) (dftracer.ReadStats, *tracefile.Hashes, error) {
	bar.File(path, 0)
	hashes := new(tracefile.Hashes)
	st, err := dftracer.Scan(path, &dftracer.ReaderOptions{Hashes: hashes, Stop: ctx.Err}, func(ev *dftracer.Event) error {
		bar.Step()
		return fn(ev)
	})
	bar.EndFile()
	if err != nil {
		return st, hashes, err
	}
	return st, hashes, warnOfSkipped(a, path, &st)
}

// warnOfSkipped reports skipped lines and members of a file.
func warnOfSkipped(a *ui.App, path string, st *dftracer.ReadStats) error {
	if st.Events == 0 {
		if IsRecords(path) {
			return ui.BadData("%s: JSON lines, not a trace: info, events, summary, steps and validate read them; see "+helptopic.NotATrace, path)
		}
		kind, err := fsread.KindOf(path)
		switch {
		case err == nil && st.Cause != nil:
			return notTrace(path, st.Cause.Error())
		case kind == fsread.Trace && len(st.First) > 0:
			return notTrace(path, st.First[0].Error())
		case kind == fsread.Trace:
			return notTrace(path, "no line is a record")
		}
		return refuse(path)
	}
	if st.Bad > 0 {
		a.Problem("%s: %s skipped, first %v; trainspan trace validate lists them; see "+helptopic.Damaged, path, display.Plural(st.Bad, "line"), &st.First[0])
	}
	if st.Torn {
		a.Problem("%s: the file is damaged or cut off at byte %d; what can be read was used, trainspan trace recover repairs it; see "+helptopic.Damaged, path, st.DamagedAt)
	}
	return nil
}

// Refuse returns the error for paths without files that a command can read. It
// is about the first path.
func Refuse(paths []string) error {
	for _, path := range paths {
		if found, _ := filepath.Glob(path); len(found) > 0 {
			path = found[0]
		}
		info, err := os.Stat(path)
		switch {
		case err == nil && info.Mode().IsRegular():
			return refuse(path)
		case err == nil && info.IsDir():
			return refuseFolder(path)
		}
	}
	return ui.Usage("%s: found no file; name traces or directories of traces", strings.Join(paths, ", "))
}

// RefuseFiles is [Refuse] for commands that wait for telemetry. It returns nil
// unless all paths are files of another format. An empty file may become a
// trace.
func RefuseFiles(paths []string) error {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
			return nil //nolint:nilerr // reading it reports the error
		}
		switch kind, _ := fsread.KindOf(path); kind {
		case fsread.Trace, fsread.Records, fsread.Spans, fsread.Digest, fsread.Profile, fsread.CompileLog, fsread.Tar:
			return nil
		}
	}
	return Refuse(paths)
}

// refuse returns the error for a file.
func refuse(path string) error {
	kind, err := fsread.KindOf(path)
	if err != nil {
		return notTrace(path, err.Error())
	}
	return notTrace(path, kind.String())
}

func notTrace(path, why string) error {
	return ui.Usage("%s: not a trace: %s; see "+helptopic.NotATrace, path, why)
}

// refuseFolder returns the error for a folder.
func refuseFolder(dir string) error {
	found, _ := WalkFiles(dir) // unreadable files get the same error
	for i := range found {
		f := &found[i]
		kind, err := fsread.KindOf(f.Path)
		switch {
		case f.Err != nil || err != nil:
		case kind == fsread.Digest:
			return refuse(f.Path)
		case kind.Profiler():
			return ui.Usage("%s: holds profiles and no trace; make one with trainspan trace import %s -o job.pfw.gz", dir, dir)
		}
	}
	return ui.Usage("%s: found no trace in this directory; name another one", dir)
}

// Look stores the times of the first events of a file, for a command that
// prints events as it reads them: it can then detect a clock that was not set
// at first.
func (j *TimeJudge) Look(ctx context.Context, path string, q *Filter) {
	const most = 4096
	if IsRecords(path) {
		return // the times are judged during the reading
	}
	var times []int64
	n := 0
	// Errors are reported when the file is read again.
	_, _ = dftracer.Scan(path, &dftracer.ReaderOptions{Stop: ctx.Err}, func(ev *dftracer.Event) error {
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

// Judged reads files. It calls file for each file, take for each event with
// possible times, and done with the hashes at the end of the file. The first
// events of a file determine which times are possible. If the median of all its
// events contradicts this, it calls begin and reads all files again.
func Judged(ctx context.Context, a *ui.App, verb string, files []string, q *Filter, begin func(),
	file func(path string) (take func(*dftracer.Event) error, done func(*tracefile.Hashes) error)) (err error) {
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
		WarnOfTimes(a, &times)
	}
	return err
}

package read

import (
	"context"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
)

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

// Judged reads files and gives each event whose times can be to what file returns
// for its file, and at the end of the file its hashes to done. It begins anew
// where the median of the times of a file is another than its first events said.
func Judged(ctx context.Context, a *ui.App, verb string, files []string, q *Filter, begin func(),
	file func(path string) (take func(*dftracer.Event) error, done func(*dft.Hashes) error)) (err error) {
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

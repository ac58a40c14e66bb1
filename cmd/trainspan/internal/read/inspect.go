package read

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
)

// Inspect returns what is in a trace, from its index when that is fresh.
func Inspect(ctx context.Context, a *ui.App, path string, useIndex bool, bar *ui.Progress) (*FileInfo, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	bar.File(path, 1)
	defer bar.EndFile()
	if useIndex {
		if info := ReadIndex(path, stat); info != nil {
			return info, nil
		}
	}
	t, members, err := Walk(ctx, path, bar)
	if err != nil {
		return nil, err
	}
	if t.Events+t.Metadata+t.Counters == 0 {
		return nil, tellSkipped(a, path, &dftracer.ReadStats{Lines: int(t.Lines), Torn: t.Torn, First: firstBad(t)})
	}
	info := describe(t, members)
	info.Path, info.FileSize, info.FileTime = path, stat.Size(), stat.ModTime().UnixNano()
	return info, nil
}

// InspectPart returns what filters leave of a trace, and what is in JSON lines.
func InspectPart(ctx context.Context, a *ui.App, path string, q *Filter, bar *ui.Progress) (*FileInfo, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	var t *Tally
	var hashes *dft.Hashes
	for judge := JudgeBy(0, false); t == nil || !judge.Right(); {
		if t != nil {
			judge = JudgeBy(judge.Median(), true)
		}
		t = newTally(&sharedTracker{FileTracker: q.Who.File(path)})
		t.ended, t.judge = true, judge
		hashes, err = Events(ctx, a, path, q, bar, func(ev *dftracer.Event) error {
			t.add(ev)
			t.forget()
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for key := range t.procs {
		if name, ok := hashes.Host(key.Host); ok {
			t.names[key.Host] = name
		}
	}
	info := describe(t, nil)
	info.Path, info.FileSize, info.FileTime, info.Part = path, stat.Size(), stat.ModTime().UnixNano(), !q.All()
	if info.Part {
		info.Processes = slices.DeleteFunc(info.Processes, func(p processInfo) bool { return p.Events == 0 })
	}
	if IsRecords(path) {
		info.Dialect = "JSON lines"
	}
	return info, nil
}

func firstBad(t *Tally) []dftracer.LineError {
	switch {
	case t.firstBad != "":
		return []dftracer.LineError{{Line: 1, Err: errors.New("not a record")}}
	case t.cause != "":
		return []dftracer.LineError{{Line: 1, Err: errors.New(t.cause)}}
	}
	return nil
}

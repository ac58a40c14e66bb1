package read

import (
	"context"
	"os"
	"slices"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/filetime"
	runs "github.com/trainspan/trainspan/internal/run"
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
	var info *FileInfo
	var t *tally
	var st dftracer.ReadStats
	who := runs.NewTracker(path).File(path)
	err = Judging(func(judge *filetime.Judge) (err error) {
		info = &FileInfo{source: sourceOf(path, stat), Compression: "none", Aligned: true, Members: []Member{}}
		t = newTally(who, judge)
		st, err = dftracer.Scan(path, &dftracer.ReaderOptions{Stop: ctx.Err, OnPiece: func(p *dft.Piece) {
			info.Text += p.Text
			if p.Gzip {
				t.member.Piece = *p
				info.Compression, info.Aligned, info.Members = "gzip", info.Aligned && !p.Across, append(info.Members, t.member)
			}
			t.member = Member{}
			bar.Bytes(p.Offset + p.Size)
		}}, func(ev *dftracer.Event) error {
			t.add(ev)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	if st.Events == 0 {
		return nil, tellSkipped(a, path, &st)
	}
	info.Dialect = st.Dialect.String()
	if info.Lines, info.BadLines = int64(st.Lines), int64(st.Bad); st.Bad > 0 {
		info.FirstBad = st.First[0].Error()
	}
	if st.Torn {
		info.damage = damage{"cut off inside a record", st.DamagedAt}
		if st.Cause != nil {
			info.Damaged = st.Cause.Error()
		}
	}
	return info.describe(t), nil
}

// InspectPart returns what filters leave of a trace, and what is in JSON lines.
func InspectPart(ctx context.Context, a *ui.App, path string, q *Filter, bar *ui.Progress) (*FileInfo, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	var t *tally
	var hashes *dft.Hashes
	err = Judging(func(judge *filetime.Judge) (err error) {
		t = newTally(q.Who.File(path), judge)
		t.ended = true
		hashes, err = Events(ctx, a, path, q, bar, func(ev *dftracer.Event) error {
			t.add(ev)
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	for key := range t.procs {
		if name, ok := hashes.Host(key.Host); ok {
			t.names[key.Host] = name
		}
	}
	info := &FileInfo{source: sourceOf(path, stat), Dialect: dftracer.Dialect(0).String(), Compression: "none", Part: !q.All(), Members: []Member{}}
	info.describe(t)
	if info.Part {
		info.Processes = slices.DeleteFunc(info.Processes, func(p processInfo) bool { return p.Events == 0 })
	}
	if IsRecords(path) {
		info.Dialect = "JSON lines"
	}
	return info, nil
}

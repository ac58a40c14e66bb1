package read

import (
	"context"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/infile"
	"github.com/trainspan/trainspan/internal/see"
)

// Scan returns the events of one file in order and tells what is wrong with it.
// It is an error when the file is no trace at all.
func Scan(ctx context.Context, a *ui.App, path string, bar *ui.Progress, fn func(*dftracer.Event) error) (dftracer.ReadStats, *dft.Hashes, error) {
	bar.File(path, 0)
	hashes := new(dft.Hashes)
	st, err := dftracer.Scan(path, &dftracer.ReaderOptions{Hashes: hashes, Stop: ctx.Err}, func(ev *dftracer.Event) error {
		bar.Step()
		return fn(ev)
	})
	bar.EndFile()
	if err != nil {
		return st, hashes, err
	}
	return st, hashes, tellSkipped(a, path, &st)
}

// tellSkipped reports what was skipped.
func tellSkipped(a *ui.App, path string, st *dftracer.ReadStats) error {
	if st.Events == 0 {
		if IsRecords(path) {
			return ui.BadData("%s: JSON lines, not a trace: info, events, summary, steps and validate read them; see "+see.NotATrace, path)
		}
		kind, err := infile.KindOf(path)
		why := kind.String()
		switch {
		case err != nil:
			why = err.Error()
		case st.Cause != nil:
			why = st.Cause.Error()
		case kind == infile.Trace && len(st.First) > 0:
			why = st.First[0].Error()
		case kind == infile.Trace:
			why = "no line is a record"
		}
		return ui.BadData("%s: not a trace: %s; PyTorch files are read by trainspan import; see "+see.NotATrace, path, why)
	}
	if st.Bad > 0 {
		a.Problem("%s: %s skipped, first %v; trainspan validate lists them; see "+see.Damaged, path, human.Plural(st.Bad, "line"), &st.First[0])
	}
	if st.Torn {
		a.Problem("%s: the file is damaged or cut off at byte %d; what can be read was used, trainspan recover repairs it; see "+see.Damaged, path, st.DamagedAt)
	}
	return nil
}

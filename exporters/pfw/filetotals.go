package pfw

import (
	"os"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// add counts a call that ends at now, in microseconds since the epoch.
func (f *file) add(c *dispatch.FileCall, now int64) {
	start := c.Start / 1000
	second := start / 1e6
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.log.d.cut.Load() { // the last totals are already written
		return
	}
	if f.totals == nil {
		f.totals = &fileTotals{second: second}
	} else if f.totals.second != second {
		f.write()
		*f.totals = fileTotals{second: second}
	}
	f.totals.ops[c.Op].Add(now-start, c.Ret, c.Op.Transfers())
}

// write writes the totals and resets them. f.mu must be held.
func (f *file) write() {
	w := f.log.d.w
	for op := range dispatch.FileOps {
		t := &f.totals.ops[op]
		if t.Calls() == 0 {
			continue
		}
		var stack [12]dftracer.Arg
		args := t.AppendArgs(append(stack[:0], f.hash))
		w.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Type: tracefile.TypeLibcIO, Cat: op.Category(), Name: op.String(),
			TID: int64(os.Getpid()), TS: f.totals.second * 1e6, Args: args})
	}
	f.totals.ops = [dispatch.FileOps]tracefile.CallTotal{}
}

// flush writes the totals of all seconds before the given one; 0 means all.
func (l *fileLog) flush(before int64) {
	if l == nil || !l.opts.Aggregate {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushAll(before)
}

// flushAll is flush with l.mu held.
func (l *fileLog) flushAll(before int64) {
	for _, f := range l.files {
		f.mu.Lock()
		if f.totals != nil && (before == 0 || f.totals.second < before) {
			f.write()
		}
		f.mu.Unlock()
	}
}

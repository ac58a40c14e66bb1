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
	if !f.busy {
		f.log.begin(f)
	}
	f.totals.ops[c.Op].Add(now-start, c.Ret, c.Op.Transfers())
	if f.log.d.cut.Load() { // the last flush may have missed this file
		f.write()
	}
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
	l.flushing.Lock()
	defer l.flushing.Unlock()
	l.busyMu.Lock()
	all := l.busy
	l.busy = nil
	l.busyMu.Unlock()
	var left []*file
	for _, f := range all {
		f.mu.Lock()
		if before == 0 || f.totals.second < before {
			f.write()
			f.busy = false
		} else {
			left = append(left, f)
		}
		f.mu.Unlock()
	}
	l.busyMu.Lock()
	defer l.busyMu.Unlock()
	l.busy = append(l.busy, left...)
}

// begin adds a file to those with totals. f.mu must be held.
func (l *fileLog) begin(f *file) {
	f.busy = true
	l.busyMu.Lock()
	defer l.busyMu.Unlock()
	l.busy = append(l.busy, f)
}

package pfw

import (
	"os"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// ArgCalls is the argument of a record that stands for several calls: how many.
const ArgCalls = "dft_cnt"

// fileTotals are the calls on a file that began in one second.
type fileTotals struct {
	second int64 // since the Unix epoch
	ops    [outputs.FileOps]callTotal
}

// callTotal adds up the calls of one kind.
type callTotal struct {
	calls, failed int64
	bytes, dur    extent
}

// extent is a sum with the least and the largest of what was added.
type extent struct{ sum, least, most int64 }

func (e *extent) add(v int64, first bool) {
	if e.sum += v; first {
		e.least, e.most = v, v
		return
	}
	e.least, e.most = min(e.least, v), max(e.most, v)
}

// add counts a call that ends now, in microseconds.
func (f *file) add(c *outputs.FileCall, now int64) {
	start := c.Start / 1000
	second := start / 1e6
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.log.p.cut.Load() { // the last totals are written
		return
	}
	if f.totals == nil {
		f.totals = &fileTotals{second: second}
	} else if f.totals.second != second {
		f.write()
		*f.totals = fileTotals{second: second}
	}
	t := &f.totals.ops[c.Op]
	first := t.calls == 0
	t.calls++
	t.dur.add(max(now-start, 0), first)
	if c.Ret < 0 {
		t.failed++
	}
	if c.Op.Transfers() {
		t.bytes.add(max(c.Ret, 0), first)
	}
}

// write writes what was added up. f.mu is held.
func (f *file) write() {
	w := f.log.p.w
	for op := range outputs.FileOps {
		t := &f.totals.ops[op]
		if t.calls == 0 {
			continue
		}
		var stack [12]dftracer.Arg
		args := append(stack[:0], f.hash, dftracer.Int(ArgCalls, t.calls))
		args = t.dur.append(args, "dur")
		if op.Transfers() {
			args = t.bytes.append(args, argSize)
		}
		if t.failed > 0 {
			args = append(args, dftracer.Int("failed", t.failed))
		}
		w.Write(&dftracer.Event{Phase: dftracer.PhaseCounter, Type: dftracer.TypeLibcIO, Cat: op.Category(), Name: op.String(),
			TID: int64(os.Getpid()), TS: f.totals.second * 1e6, Args: args})
	}
	f.totals.ops = [outputs.FileOps]callTotal{}
}

func (e *extent) append(dst []dftracer.Arg, key string) []dftracer.Arg {
	return append(dst, dftracer.Int(key+"_sum", e.sum), dftracer.Int(key+"_min", e.least), dftracer.Int(key+"_max", e.most))
}

// flush writes what was added up in seconds before one.
func (l *fileLog) flush(before int64) {
	if l == nil || !l.opts.Aggregate {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushAll(before)
}

// flushAll is flush with l.mu held; 0 stands for all seconds.
func (l *fileLog) flushAll(before int64) {
	for _, f := range l.files {
		f.mu.Lock()
		if f.totals != nil && (before == 0 || f.totals.second < before) {
			f.write()
		}
		f.mu.Unlock()
	}
}

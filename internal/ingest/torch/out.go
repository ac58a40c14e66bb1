package torch

import (
	"math"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/jsontext"
)

// out writes the events of one process, one after the other: begin starts an
// event, common completes it and passes it to the sink. All writers of events
// share one.
type out struct {
	p      *process
	sink   Sink
	nextID func() uint64
	counts map[string]int64 // by category

	hostHash string
	named    map[int64]bool // lanes with a name
	profiler int64          // events of category PP, which are most

	ev       dftracer.Event
	args     []byte // of the current event, encoded
	hasEpoch bool   // the current event has its own
}

// begin starts an event for [start, end] in file time.
func (o *out) begin(cat, name string, tid, start, end int64) {
	ts := o.p.micros(start)
	o.beginAt(cat, name, tid, ts, max(o.p.micros(end)-ts, 0))
}

// beginAt starts an event at ts, in microseconds since 1970.
func (o *out) beginAt(cat, name string, tid, ts, dur int64) {
	o.ev = dftracer.Event{
		Phase: dftracer.PhaseComplete, Type: tracefile.TypePython, Name: name, Cat: cat, PID: o.p.pid, TID: tid, TS: ts, Dur: dur,
		HostHash: o.hostHash, Parent: dftracer.NoParent,
	}
	o.args = o.args[:0]
}

// nested starts an event with the time and place of a host row.
func (o *out) nested(cat, name string, f *frame) {
	o.begin(cat, name, o.p.lanes.host[f.r.lane].tid, f.r.start, f.r.end)
	o.ev.Level = f.level + 1
	o.ev.Parent = int64(f.id)
}

// onDevice starts an event with the time of a device row.
func (o *out) onDevice(cat, name string, tid int64, r *row) {
	o.begin(cat, name, tid, r.start, r.end)
	switch r.kind {
	case kineto.KindKernel, kineto.KindMemcpy, kineto.KindMemset, kineto.KindDevice:
		o.ev.Type = tracefile.TypeCUDA
	}
}

// add adds whole arguments: `,"key":1`.
func (o *out) add(text string) { o.args = append(o.args, text...) }

// int adds text, which may have whole arguments and ends with the name of the
// last one, and its value: `,"key":`.
func (o *out) int(text string, v int64) { o.args = jsontext.AppendInt(append(o.args, text...), v) }

// float is int for a float.
func (o *out) float(text string, v float64) {
	o.args = jsontext.AppendFloat(append(o.args, text...), v)
}

// str is int for a string.
func (o *out) str(text, v string) { o.args = jsontext.AppendString(append(o.args, text...), v) }

// addIfKnown adds a number that is -1 if unknown.
func (o *out) addIfKnown(text string, v int64) {
	if v >= 0 {
		o.int(text, v)
	}
}

// text adds a string that is empty if unknown.
func (o *out) text(text, v string) {
	if v != "" {
		o.str(text, v)
	}
}

// percent returns part/whole as a percentage with four decimals.
func percent(part, whole int64) float64 {
	if whole <= 0 || part == 0 {
		return 0
	}
	return math.Round(float64(part)/float64(whole)*1e6) / 1e4
}

// us adds nanoseconds as microseconds, with decimals if the file has them.
func (o *out) us(text string, ns int64) {
	if ns%1000 == 0 {
		o.int(text, ns/1000)
		return
	}
	o.float(text, float64(ns)/1000)
}

// deviceTime writes the device time of a phase, and the part of collectives:
// the rest is the device's work for this rank.
func (o *out) deviceTime(l launched) {
	if l.time > 0 {
		o.us(`,"device_us":`, l.time)
	}
	if l.comm > 0 {
		o.us(`,"device_comm_us":`, l.comm)
	}
}

// common adds what every event has and passes it to the sink.
func (o *out) common(step int32, source bool) {
	if o.p.rank >= 0 {
		o.int(`,"rank":`, o.p.rank)
	}
	if (o.p.opts.Epoch > 0 || o.p.opts.HasEpoch) && !o.hasEpoch {
		o.int(`,"epoch":`, o.p.opts.Epoch)
	}
	if n, ok := o.p.stepNumber(step); ok {
		o.int(`,"step":`, n)
	}
	if source {
		o.add(`,"source":"kineto"`)
	}
	o.write()
}

func (o *out) write() {
	tracefile.SetEncoded(&o.ev, o.args)
	o.hasEpoch = false
	if o.ev.ID == 0 && o.ev.Phase == dftracer.PhaseComplete {
		o.ev.ID = o.nextID()
	}
	if o.ev.Cat == "PP" {
		o.profiler++
	} else {
		o.counts[o.ev.Cat]++
	}
	o.sink.Write(&o.ev)
}

// exact adds the digits below a microsecond that ts and dur cannot hold.
func (o *out) exact(start, dur int64) {
	if o.p.nanos {
		o.int(`,"ts_ns":`, o.p.wall(start))
		o.int(`,"dur_ns":`, dur)
	}
}

func (o *out) meta(name string, tid int64, args ...dftracer.Arg) {
	o.ev = dftracer.Event{Phase: dftracer.PhaseMetadata, Name: name, Cat: dftracer.CatDFTracer, PID: o.p.pid, TID: tid, HostHash: o.hostHash, Args: args}
	o.args = o.args[:0]
	o.write()
}

// nameLane names a lane once.
func (o *out) nameLane(tid int64, name string) {
	if o.named == nil {
		o.named = map[int64]bool{}
	}
	if o.named[tid] {
		return
	}
	o.named[tid] = true
	o.meta(tracefile.NameThreadName, tid, dftracer.String("name", name), dftracer.String("value", tracefile.NameThreadName))
}

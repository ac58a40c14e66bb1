package job

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/filetime"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// begin reads the record of an open span.
func (t *traceReader) begin(p *traceProcess, ev *dftracer.Event, name string) {
	s := &t.span
	*s = Span{End: NoEnd, Step: Unknown, Epoch: Unknown, First: Unknown, Thread: ev.TID}
	at := int64(-1)
	cat, _ := ev.Arg("begin_cat")
	s.mean(cat.Text(), t.names.Of(cat.Text(), name))
	for i := range ev.Args {
		a := &ev.Args[i]
		switch a.Key {
		case "begin_id":
			s.ID = tracefile.Uint64(*a)
		case "begin_ts":
			at = a.Int64()
		default:
			s.argument(a)
		}
	}
	if s.ID == 0 || at < 0 || !t.has(p, at) {
		return
	}
	s.Start = at * micro
	if ev.Parent > 0 {
		s.Parent = uint64(ev.Parent)
	}
	p.widen(s.Start)
	t.hold(p, s)
}

func (t *traceReader) complete(p *traceProcess, ev *dftracer.Event) {
	switch {
	case ev.Dur < 0:
		p.Aside++
		return
	case !t.has(p, ev.TS) || !t.isNear(p, ev.End()):
		return
	}
	t.fileCall(p, ev)
	s := &t.span
	*s = Span{} // faster than a literal, which is copied
	s.ID, s.Start, s.End, s.Thread = ev.ID, ev.TS*micro, ev.End()*micro, ev.TID
	s.Step, s.Epoch, s.First = Unknown, Unknown, Unknown
	s.mean(ev.Cat, t.names.Of(ev.Cat, ev.Name))
	truncated := false
	var loss *dftracer.Arg
	for i := range ev.Args {
		switch a := &ev.Args[i]; a.Key {
		case argTruncated:
			truncated = a.Int64() != 0
		case argLoss, argLatestLoss:
			loss = a
		default:
			s.argument(a)
		}
	}
	if loss != nil {
		step := s.Step
		if step == Unknown && s.Within > 0 {
			step = s.Within - 1
		}
		p.addLoss(s.End, step, isFinite(loss))
	}
	if s.Class == vocab.ClassDetail && strings.EqualFold(s.Cat, catProfiler) {
		s.profiled(ev)
	}
	switch {
	case ev.Parent > 0:
		s.Parent = uint64(ev.Parent)
	case ev.Level == 0 && ev.Parent == dftracer.NoParent:
		s.Nested = true
	}
	if s.ID == 0 {
		s.ID = s.contentID()
	} else if len(p.begun) > 0 || t.workers > 1 {
		t.settle(p, s)
	}
	p.Spans++
	p.widen(s.End)
	if truncated {
		s.End = NoEnd
	}
	t.deliver(p, s)
}

// earliest is the first time, in nanoseconds, that counts as absolute: the year
// 2000. Some producers write relative times.
const earliest = 946684800e9

// MaxApart is how far a record may be from the median of the times of its file.
const MaxApart = filetime.MaxApart

// OnDevice returns the meaning of an event that is a device's row in an
// imported profile; ok is false for others: see [vocab.OnDevice].
func OnDevice(ev *dftracer.Event) (m vocab.Meaning, ok bool) {
	var kind, class string
	collective := false
	for i := range ev.Args {
		switch a := &ev.Args[i]; a.Key {
		case "kind":
			kind = tracefile.Str(*a)
		case "class":
			class = tracefile.Str(*a)
		case "collective":
			collective = true
		}
	}
	return vocab.OnDevice(kind, class, ev.Name, collective)
}

// catProfiler is the category of the rows of PyTorch's profiler, and profile
// the source of what is derived from them.
const (
	catProfiler = "pp"
	profile     = "kineto"
)

// profiled sets the fields from a profiler's row of a device.
func (s *Span) profiled(ev *dftracer.Event) {
	s.Profiled = true
	m, ok := OnDevice(ev)
	if !ok {
		return
	}
	s.OnDevice, s.For = true, m.For
	if m.Class == vocab.ClassTransfer {
		s.For = m.Class
	}
	if op, ok := ev.Arg(argOperator); ok {
		s.Operator = op.Text()
	}
}

// contentID returns an ID for a span without one: the same for a copy of it.
func (s *Span) contentID() uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, s.Cat+"\x00"+s.Name+"\x00")
	var b []byte
	for _, v := range [...]int64{s.Start, s.End, s.Thread} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	_, _ = h.Write(b)
	return h.Sum64() | 1<<63
}

// deliver passes a span to the sink.
func (t *traceReader) deliver(p *traceProcess, s *Span) {
	p.take(s)
	p.hand(s, p.sink)
}

// hand passes a span to the steps of its process, and to a sink.
func (p *Process) hand(s *Span, to Sink) {
	p.Steps.Add(s)
	to.Span(s)
}

// deliver passes an event to the steps of its process, and to a sink.
func (p *Process) deliver(e *Event, to Sink) {
	p.Steps.AddUpdate(e)
	if e.failure != nil && len(p.Failures) < maxFailures {
		p.Failures = append(p.Failures, *e.failure)
	}
	to.Event(e)
}

// shut closes the sink of a process that has been read.
func (p *Process) shut(sink Sink) error {
	p.finish()
	p.settleFailures()
	defer p.Steps.drop()
	return sink.Close()
}

// take updates a process with the properties of its span.
func (p *Process) take(s *Span) {
	p.digest ^= (s.ID*0x9e3779b97f4a7c15 + uint64(s.Start)) * 0xff51afd7ed558ccd
	p.widen(s.Start)
	p.widen(s.End)
	p.Profile = p.Profile || s.Profiled
	p.lived = p.lived || !s.Profiled && s.Class != vocab.ClassDetail && s.Class != vocab.ClassOther && s.Class != vocab.ClassCompile
	switch {
	case s.Name == spans.Application:
		if p.appStart == Unknown || s.Start < p.appStart {
			p.appStart = s.Start
		}
		if s.End != NoEnd {
			p.appEnd = max(p.appEnd, s.End)
		}
		p.Training = true
	case s.Name == spans.CheckpointSaveFinalization: // see mark
	case !p.Training && Trains(s.Name):
		p.Training = true
	}
	s.mark()
}

// mark completes the derived fields of a span.
func (s *Span) mark() {
	// It lasts while the checkpoint is written and training continues.
	s.Background = s.Background || s.Name == spans.CheckpointSaveFinalization
	switch s.Class {
	case vocab.ClassCollective, vocab.ClassCheckpointLoad, vocab.ClassCheckpointSave:
	default:
		if s.StepRule == vocab.StepNone {
			s.Step = Unknown
		}
	}
}

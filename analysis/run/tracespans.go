package run

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/spans"
)

// begin reads the note that a span has begun.
func (t *traceReader) begin(p *traceProcess, ev *dftracer.Event, name string) {
	s := &t.span
	*s = Span{Name: name, End: NoEnd, Step: Unknown, First: Unknown, Thread: ev.TID}
	if cat, ok := ev.Arg("begin_cat"); ok {
		s.Cat = cat.Text()
		s.Name = standardName(s.Cat, name)
	}
	for i := range ev.Args {
		a := &ev.Args[i]
		switch a.Key {
		case "begin_id":
			s.ID = a.Uint64()
		case "begin_ts":
			s.Start = a.Int64() * t.scale
		default:
			s.argument(a)
		}
	}
	if s.ID == 0 || s.Start < earliest {
		return
	}
	if ev.Parent > 0 {
		s.Parent = uint64(ev.Parent)
	}
	t.deliver(p, s)
}

func (t *traceReader) complete(p *traceProcess, ev *dftracer.Event) {
	if !t.believable(ev.TS) || !t.believable(ev.End()) {
		p.Bad++ // a time relative to something that the file does not say
		return
	}
	t.fileCall(p, ev)
	s := &t.span
	*s = Span{
		ID: ev.ID, Name: standardName(ev.Cat, ev.Name), Cat: ev.Cat, Start: ev.TS * t.scale, End: ev.End() * t.scale,
		Step: Unknown, First: Unknown, Thread: ev.TID,
	}
	truncated := false
	for i := range ev.Args {
		if a := &ev.Args[i]; a.Key == argTruncated {
			truncated = a.Int64() != 0
		} else {
			s.argument(a)
		}
	}
	switch {
	case ev.Parent > 0:
		s.Parent = uint64(ev.Parent)
	case ev.Level == 0 && ev.Parent == dftracer.NoParent:
		s.Nested = true
	}
	if s.ID == 0 {
		s.ID = contentID(s)
	}
	p.seen(s.End)
	if truncated {
		s.End = NoEnd
	}
	t.deliver(p, s)
}

// earliest is the first moment, in nanoseconds, that is taken for the time of
// a record: the year 2000. Some producers write times that are relative.
const earliest = 946684800e9

func (t *traceReader) believable(ts int64) bool {
	return ts <= math.MaxInt64/t.scale && ts*t.scale >= earliest
}

// argument takes what an argument says of a span.
func (s *Span) argument(a *dftracer.Arg) {
	switch a.Key {
	case argStep:
		if s.Name == spans.TrainingIteration || s.Cat == catComm {
			s.Step = a.Int64()
		}
	case argIteration:
		s.Step = a.Int64()
	case argFirst:
		s.First = a.Int64()
	case argBackground:
		s.Background = a.Int64() != 0
	case argTokens:
		s.Tokens = a.Int64()
	case argSamples:
		if s.Tokens == 0 {
			s.Tokens = a.Int64()
		}
	case argGroup:
		s.Group = a.Text()
	case argGroupSize:
		s.GroupSize = int(a.Int64())
	case argDevice:
		s.Device = nanoseconds(a)
	case argDeviceComm:
		s.DeviceComm = nanoseconds(a)
	case argLag:
		if s.Cat == "device" {
			s.Launch = s.Start - nanoseconds(a)
		}
	case argRole, argStage, argPPRank, argExperts:
		if hasRole(s.Name) {
			s.addRole(a.Key, a.Text())
		}
	}
}

// nanoseconds reads a number of microseconds, which may have a fraction.
func nanoseconds(a *dftracer.Arg) int64 { return int64(math.Round(a.Float64() * 1000)) }

// hasRole says whether a span is one that says what its rank does; on others,
// which are many, these arguments may mean anything.
func hasRole(name string) bool {
	return name == spans.TrainingIteration || name == spans.TrainingLoop || name == spans.Application
}

// addRole adds one part of the role. The parts are put in order by their
// words, because the order of arguments says nothing.
func (s *Span) addRole(key, value string) {
	if value == "" {
		return
	}
	part := value
	switch key {
	case argStage, argPPRank:
		part = "stage " + value
	case argExperts:
		part = "expert group " + value
	}
	if s.Role == "" {
		s.Role = part
		return
	}
	parts := append(strings.Split(s.Role, ", "), part)
	slices.Sort(parts)
	s.Role = strings.Join(slices.Compact(parts), ", ")
}

// contentID is an ID for a span without one: the same for a copy of it.
func contentID(s *Span) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, s.Cat+"\x00"+s.Name+"\x00")
	var b []byte
	for _, v := range [...]int64{s.Start, s.End, s.Thread} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	_, _ = h.Write(b)
	return h.Sum64() | 1<<63
}

// standardName is the standard name of an event, or its own.
func standardName(cat, name string) string {
	if s, ok := standard[catName{cat, name}]; ok {
		return s
	}
	return name
}

// deliver gives a span to the sink.
func (t *traceReader) deliver(p *traceProcess, s *Span) {
	p.take(s)
	p.sink.Span(s)
}

// take notes what a span says of its process.
func (p *Process) take(s *Span) {
	p.Spans++
	p.digest ^= (s.ID*0x9e3779b97f4a7c15 + uint64(s.Start)) * 0xff51afd7ed558ccd
	p.seen(s.Start)
	p.seen(s.End)
	switch {
	case s.Name == spans.Application:
		if p.appStart == Unknown || s.Start < p.appStart {
			p.appStart = s.Start
		}
		if s.End != NoEnd {
			p.appEnd = max(p.appEnd, s.End)
		}
		p.Training = true
	case s.Name == spans.CheckpointSaveFinalization:
		s.Background = true // it lasts while the checkpoint is written behind the training
	case !p.Training && training(s.Name):
		p.Training = true
	}
	if s.Name != spans.TrainingIteration && s.Cat != catComm && !isCheckpoint(s.Name) {
		s.Step = Unknown
	}
}

func isCheckpoint(name string) bool {
	return name == spans.CheckpointLoad || name == spans.CheckpointSaveSync || name == spans.CheckpointSaveAsync || name == spans.CheckpointSaveFinalization
}

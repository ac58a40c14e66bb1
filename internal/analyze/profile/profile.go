// Package profile determines the use of the time of profiled training steps: a
// window of some steps, with the work of the host and the devices.
//
// Each moment of a step counts once. If devices were recorded it is, in this
// order, computing (a kernel runs that is not a collective), communication that
// is not covered by computing, a copy that is covered by neither, waiting for
// input, and otherwise idle: the host had not launched anything. Several
// streams and devices of one process count as one. Without a device the order
// is waiting for input, computing (an operator runs), communication, and the
// rest is the host outside of operators. Communication during computing is
// hidden; [Use.Hidden] is its share.
package profile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/columns"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Part is a use of the time of a step.
type Part uint8

// The parts, which add up to the time of the steps.
const (
	Compute Part = iota
	Communication
	Copies
	Input
	Idle

	Parts = int(Idle) + 1
)

var partNames = [Parts]string{"compute", "exposed_communication", "copies", "input", "idle"}

// String returns the name, such as exposed_communication.
func (p Part) String() string {
	if int(p) < len(partNames) {
		return partNames[p]
	}
	return ""
}

// Words returns the displayed name of a part, in times of devices or of the host alone.
func (p Part) Words(device bool) string {
	switch {
	case p == Communication:
		return "exposed communication"
	case p == Input:
		return "data"
	case p == Idle && device:
		return "idle device"
	case p == Idle:
		return "host outside operators"
	}
	return p.String()
}

// Use has the times of the steps of one process, or the sum over several, in
// nanoseconds.
type Use struct {
	Processes int
	// Device is set if devices were recorded; otherwise all times are the host's.
	Device bool
	Steps  int // that have an end
	Time   int64
	Parts  [Parts]int64
	// Collectives is the time with communication in steps, Copied that with copies,
	// whether covered by other work or not.
	Collectives, Copied int64
	// Window is the time from the first record to the last, and Busy the time in
	// it, in steps or not, in which a device worked (without a device: an operator
	// ran).
	Window, Busy int64
	// Operators are those with the longest time, on the devices if there are any,
	// in steps or not, at most MaxOperators, the longest first. Kernels are the
	// same by their own names, of devices only.
	Operators, Kernels []Operator
}

// Operator is the work with one name. Kernels count for the operator that
// launched them, operators without those nested in them.
type Operator struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
	Time  int64  `json:"time_ns"`
}

// MaxOperators is the number of operators in a [Use].
const MaxOperators = 64

// maxNames limits the operators that are counted separately while reading a
// process.
const maxNames = 1 << 14

// Hidden returns the share of the communication that computing covers, 0 to 1,
// NaN without communication.
func (u *Use) Hidden() float64 {
	return 1 - float64(u.Parts[Communication])/float64(u.Collectives)
}

// Add adds the values of another Use.
func (u *Use) Add(o *Use) {
	u.Processes += o.Processes
	u.Device = u.Device || o.Device
	u.Steps += o.Steps
	u.Time += o.Time
	for i := range u.Parts {
		u.Parts[i] += o.Parts[i]
	}
	u.Collectives, u.Copied = u.Collectives+o.Collectives, u.Copied+o.Copied
	u.Window, u.Busy = u.Window+o.Window, u.Busy+o.Busy
	u.Operators, u.Kernels = sum(u.Operators, o.Operators), sum(u.Kernels, o.Kernels)
}

func sum(a, b []Operator) []Operator {
	of := make(map[string]Operator)
	for _, op := range slices.Concat(a, b) {
		before := of[op.Name]
		of[op.Name] = Operator{op.Name, before.Count + op.Count, before.Time + op.Time}
	}
	return longest(of)
}

func longest(of map[string]Operator) []Operator {
	list := slices.SortedFunc(maps.Values(of), func(a, b Operator) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), MaxOperators)]
}

// sink collects the work of one process.
type sink struct {
	*Use
	proc *job.Process
	// The times of computing, communication and copies on a device; the same on the
	// host, and waiting for input.
	device                          [Copies + 1]nest.Set
	operators, collectives, waiting nest.Set
	names, kernels                  map[string]Operator // of devices
	calls                           map[string]Operator // the outermost operators of the host
	host                            []call              // operators by thread, for the outermost ones
}

type call struct {
	name               string
	thread, start, end int64
}

// maxCalls is the number of operators of the host that wait for sorting.
const maxCalls = 1 << 16

// OpenSink returns a sink that determines the use of the steps of a process.
// The Use is complete when the sink is closed; it has no Processes if the
// process is not a profile.
func OpenSink(p *job.Process) (job.Sink, *Use) {
	s := &sink{Use: &Use{}, proc: p, names: make(map[string]Operator), kernels: make(map[string]Operator), calls: make(map[string]Operator)}
	return s, s.Use
}

// Event does nothing.
func (*sink) Event(*job.Event) {}

// Span adds a span.
func (s *sink) Span(sp *job.Span) {
	if !sp.Profiled || sp.End == job.NoEnd {
		return
	}
	switch {
	case sp.OnDevice:
		part := Compute
		switch sp.For {
		case vocab.ClassCollective:
			part = Communication
		case vocab.ClassTransfer:
			part = Copies
		}
		s.Device = true
		s.device[part].Add(sp.Start, sp.End)
		count(s.names, cmp.Or(sp.Operator, sp.Name), sp.End-sp.Start)
		count(s.kernels, sp.Name, sp.End-sp.Start)
	case sp.Class == vocab.ClassInputWait, sp.Class == vocab.ClassInputWork && !sp.Background:
		s.waiting.Add(sp.Start, sp.End)
	case sp.Class == vocab.ClassCollective:
		s.collectives.Add(sp.Start, sp.End)
	case sp.Class == vocab.ClassDetail && vocab.Operator(sp.Cat, sp.Name):
		s.operators.Add(sp.Start, sp.End)
		if s.Device {
			s.host = nil
			return
		}
		if s.host = append(s.host, call{sp.Name, sp.Thread, sp.Start, sp.End}); len(s.host) >= maxCalls {
			s.outermost()
		}
	}
}

// outermost counts the outermost operators. Rows are nearly in order, thread by
// thread; an operator on both sides of a cut counts twice, at most one for each
// cut.
func (s *sink) outermost() {
	slices.SortFunc(s.host, func(a, b call) int {
		return cmp.Or(cmp.Compare(a.thread, b.thread), cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	thread, until := int64(0), int64(math.MinInt64)
	for _, c := range s.host {
		if c.thread != thread {
			thread, until = c.thread, math.MinInt64
		}
		if c.end > until {
			count(s.calls, c.name, c.end-max(c.start, until))
			until = c.end
		}
	}
	s.host = s.host[:0]
}

func count(of map[string]Operator, name string, time int64) {
	op, known := of[name]
	if !known && len(of) >= maxNames {
		name, op = "others", of["others"]
	}
	of[name] = Operator{name, op.Count + 1, op.Time + time}
}

// Close divides the steps.
func (s *sink) Close() error {
	if !s.proc.Profile {
		*s.Use = Use{}
		return nil
	}
	u := s.Use
	u.Processes, u.Window = 1, max(s.proc.LastSeen-s.proc.Start, 0)
	if !u.Device {
		s.outermost()
		s.names = s.calls
	}
	u.Operators, u.Kernels = longest(s.names), longest(s.kernels)
	var steps nest.Set
	for _, st := range s.proc.Steps.All() {
		if st.End != job.NoEnd {
			steps.Add(st.Start, st.End)
			u.Steps++
		}
	}
	in := steps.Sorted()
	u.Time = nest.Length(in)
	order := []struct {
		part Part
		at   []nest.Interval
	}{
		{Compute, s.device[Compute].Sorted()}, {Communication, s.device[Communication].Sorted()}, {Copies, s.device[Copies].Sorted()}, {Input, s.waiting.Sorted()},
	}
	if !u.Device {
		order[0].at, order[1].at = s.operators.Sorted(), s.collectives.Sorted()
		order = append(order[3:4], order[:2]...)
	}
	var covered []nest.Interval
	before := int64(0)
	u.Parts[Idle] = u.Time
	for _, o := range order {
		switch covered = nest.Union(nil, covered, o.at); o.part {
		case Communication:
			u.Collectives = nest.Length(nest.Intersection(nil, o.at, in))
		case Copies:
			u.Copied = nest.Length(nest.Intersection(nil, o.at, in))
		}
		now := nest.Length(nest.Intersection(nil, covered, in))
		u.Parts[o.part] = now - before
		u.Parts[Idle] -= now - before
		before = now
	}
	var busy []nest.Interval
	for i := range order {
		if order[i].part != Input {
			busy = nest.Union(nil, busy, order[i].at)
		}
	}
	u.Busy = nest.Length(busy)
	*s = sink{Use: u, proc: s.proc}
	return nil
}

// AppendBinary implements [encoding.BinaryAppender].
func (u *Use) AppendBinary(dst []byte) ([]byte, error) {
	dst = binary.AppendUvarint(columns.AppendBool(dst, u.Device), uint64(u.Processes))
	for _, v := range u.numbers() {
		dst = binary.AppendVarint(dst, *v)
	}
	dst = binary.AppendUvarint(dst, uint64(u.Steps))
	for _, list := range [...][]Operator{u.Operators, u.Kernels} {
		dst = binary.AppendUvarint(dst, uint64(len(list)))
		for _, op := range list {
			dst = binary.AppendVarint(binary.AppendVarint(columns.AppendBytes(dst, op.Name), op.Count), op.Time)
		}
	}
	return dst, nil
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler].
func (u *Use) UnmarshalBinary(src []byte) error {
	r := columns.NewReader(src)
	*u = Use{Device: r.Bool(), Processes: r.Small(1)}
	for _, v := range u.numbers() {
		*v = r.Int()
	}
	u.Steps = r.Small(math.MaxInt32)
	for _, list := range [...]*[]Operator{&u.Operators, &u.Kernels} {
		for range r.Small(MaxOperators) {
			*list = append(*list, Operator{r.String(), r.Int(), r.Int()})
		}
	}
	if r.Err() != nil || r.Len() != 0 {
		return fmt.Errorf("profile: %w", columns.ErrDamaged)
	}
	return nil
}

func (u *Use) numbers() []*int64 {
	out := []*int64{&u.Time, &u.Collectives, &u.Copied, &u.Window, &u.Busy}
	for i := range u.Parts {
		out = append(out, &u.Parts[i])
	}
	return out
}

package torch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// scanner is the first pass: it reads the whole trace once and keeps what the
// later passes need of every event.
type scanner struct {
	*process
	counts  eventCounts
	halves  beginEnd
	shapes  shapeSizes
	known   bool // an event has a category of PyTorch's profiler
	modTime time.Time
}

// scan fills a process from a trace that was written at modTime, zero if
// unknown. cut is the error of the archive around a complete trace.
func scan(ctx context.Context, p *process, src io.Reader, modTime time.Time) (cut, err error) {
	s := &scanner{process: p, modTime: modTime}
	return s.run(ctx, src)
}

func (s *scanner) run(ctx context.Context, src io.Reader) (cut, err error) {
	r := kineto.NewReader(src)
	var ev kineto.Event
	var rw row
	for n := int64(0); ; n++ {
		if n&0xfff == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		err := r.Next(&ev)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		s.counts.add(ev.Phase, ev.Cat)
		whole := &ev
		if ev.Phase == 'B' || ev.Phase == 'E' {
			if whole = s.halves.pair(&ev); whole == nil {
				continue
			}
		}
		if err := s.keep(whole, whole.Kind(), n, &rw); err != nil {
			return nil, err
		}
	}
	s.report.HalfEvents = s.halves.without + int64(s.halves.n)
	return s.finish(r.Info()), nil
}

// keep converts an event to a row in the right sorter.
func (s *scanner) keep(ev *kineto.Event, kind kineto.Kind, seq int64, rw *row) error {
	if kind == kineto.KindMetadata {
		s.metadata(ev)
		return nil
	}
	if !ev.HasTS {
		return nil
	}
	if ev.End() < ev.TS { // or the sum overflows
		s.report.Negative++
		return nil
	}
	s.first, s.last = min(s.first, ev.TS), max(s.last, ev.End())
	*rw = row{seq: seq, start: ev.TS, end: ev.End(), kind: kind, step: -1, ord: -1}
	s.known = s.known || kind != kineto.KindOther && kind != kineto.KindFlow && kind != kineto.KindCounter && kind != kineto.KindInstant
	switch kind {
	case kineto.KindWindow:
		if !s.hasWindow {
			s.window, s.hasWindow = [2]int64{ev.TS, ev.End()}, true
		}
		return nil
	case kineto.KindFlow, kineto.KindCounter, kineto.KindCUDAEvent:
		return nil
	case kineto.KindInstant:
		if n := ev.RawName(); string(n) != "[memory]" && string(n) != "[OutOfMemory]" {
			return nil
		}
		rw.end = rw.start
		s.memoryArgs(ev, rw)
	case kineto.KindPython:
		if !s.opts.PythonStacks {
			s.report.PythonRows++
			return nil
		}
	case kineto.KindKernel, kineto.KindMemcpy, kineto.KindMemset, kineto.KindGPUAnnotation, kineto.KindDevice, kineto.KindDeviceRange:
		return s.keepDevice(ev, rw)
	case kineto.KindSync:
		if !s.hostSync(ev) {
			return s.keepDevice(ev, rw)
		}
	case kineto.KindOther:
		if ev.Phase != 'X' {
			return nil
		}
		if !ev.PID.IsNum {
			s.report.NoProcess++
			return nil
		}
		s.report.unknownCategory(string(ev.Cat))
		if onDevice(ev) {
			s.known = true
			rw.kind = kineto.KindDevice
			if bytes.HasSuffix(ev.Cat, []byte("_range")) || bytes.HasSuffix(ev.Cat, []byte("annotation")) {
				rw.kind = kineto.KindDeviceRange
			}
			return s.keepDevice(ev, rw)
		}
	}
	rw.name, rw.text = s.names.intern(ev.Name())
	switch kind {
	case kineto.KindCPUOp, kineto.KindUserAnnotation:
		s.legacy = s.legacy || string(ev.Cat) == "Operator" || len(ev.Cat) == 0
		s.opArgs(ev, rw)
	case kineto.KindRuntime, kineto.KindDriver:
		s.runtimeArgs(ev, rw)
		s.noteDeviceType(ev.Cat)
	}
	rw.lane = s.lanes.laneOf(ev.PID, ev.TID)
	if kind != kineto.KindInstant && kind != kineto.KindOverhead && ev.PID.Num >= 0 && ev.PID.IsNum {
		s.lanes.pidRows[ev.PID.Num]++
	}
	if kind == kineto.KindUserAnnotation {
		s.noteAnnotation(rw)
	}
	return s.rows.host.Add(rw)
}

// maxSteps bounds the steps of one file.
const maxSteps = 1 << 20

// noteAnnotation notes steps, and which annotations the file has.
func (s *scanner) noteAnnotation(rw *row) {
	name := s.names.nameOf(rw)
	if n, ok := vocab.ProfilerStepNumber(name); ok {
		if len(s.steps) < maxSteps {
			s.steps = append(s.steps, step{n: n, start: rw.start, end: rw.end, lane: rw.lane})
		} else {
			s.stepsLeft++
		}
	}
	s.hasGloo = s.hasGloo || hostBackendRow(name)
	s.launchesComm = s.launchesComm || deviceBackendRow(name)
	s.rules.match(rw, name)
}

// hostSync reports whether a cuda_sync row is on a host thread.
func (s *scanner) hostSync(ev *kineto.Event) bool {
	_, device := ev.Args.Raw("device")
	return !device && ev.PID.IsNum && ev.PID.Num > 64
}

// onDevice reports whether a row with an unknown category is on a device: by
// its arguments, or if its process is the number of a device.
func onDevice(ev *kineto.Event) bool {
	is := false
	ev.Args.Each(func(key, _ []byte) bool {
		switch string(key) {
		case "device", "stream", "Device Id", "Stream Id", "device_id", "stream_id":
			is = true
		}
		return !is
	})
	return is
}

// deviceTypes are the kinds of device, as PyTorch numbers them, by the prefix
// of a category.
var deviceTypes = []struct {
	prefix string
	number int64
}{{"mtia", 19}, {"xpu", 12}, {"hpu", 15}, {"privateuse1", 20}}

func (s *scanner) noteDeviceType(cat []byte) {
	for _, t := range deviceTypes {
		if len(cat) > len(t.prefix) && string(cat[:len(t.prefix)]) == t.prefix {
			s.deviceType = t.number
			return
		}
	}
}

func (s *scanner) keepDevice(ev *kineto.Event, rw *row) error {
	rw.name, rw.text = s.names.intern(ev.Name())
	if rw.kind == kineto.KindDevice || rw.kind == kineto.KindDeviceRange {
		s.noteDeviceType(ev.Cat)
		rw.extra, _ = kineto.Clean(ev.Cat)
	}
	device, stream := int64(-1), int64(-1)
	haveStream := false
	rw.a = -1
	comm := false
	ev.Args.Each(func(key, raw []byte) bool {
		switch string(key) {
		case "device", "Device Id", "device_id":
			device, _ = kineto.ParseInt(raw)
		case "stream", "Stream Id", "stream_id":
			stream, haveStream = kineto.ParseInt(raw)
		case "correlation":
			rw.corr, _ = kineto.ParseInt(raw)
		case "bytes", "size":
			if n, ok := kineto.ParseInt(raw); ok {
				rw.a = n
			}
		case "Collective name":
			comm = true
		case "kind":
			if rw.kind == kineto.KindMemcpy && rw.extra == "" {
				rw.extra = kineto.UnquoteText(raw)
			}
		}
		return true
	})
	if device < 0 && ev.PID.IsNum {
		device = ev.PID.Num
	}
	if !haveStream {
		stream = ev.TID.Num
		if !ev.TID.IsNum && !ev.TID.Stream {
			stream = -1
		}
	}
	rw.b, rw.c = device, stream
	rw.lane = s.lanes.ofDevice(devKey{device: device, stream: stream, annotation: !rw.works()})
	if rw.kind == kineto.KindKernel {
		rule := s.deviceRules.match(rw, s.names.nameOf(rw))
		if comm = comm && (rule == nil || rule.class == classComm); comm {
			rw.extra = string(ev.Args)
		}
		s.hasComm = s.hasComm || comm || rule != nil && rule.class == classComm
	}
	if rw.works() {
		s.totalDevice += ev.Dur
		s.report.DeviceRows++
	}
	return s.rows.join.Add(rw)
}

func (s *scanner) memoryArgs(ev *kineto.Event, rw *row) {
	rw.name, rw.text = s.names.intern(ev.Name())
	ev.Args.Each(func(key, raw []byte) bool {
		switch string(key) {
		case "Bytes":
			rw.a, _ = kineto.ParseInt(raw)
		case "Device Type":
			rw.b, _ = kineto.ParseInt(raw)
		case "Device Id":
			rw.c, _ = kineto.ParseInt(raw)
		case "Total Allocated":
			rw.launch, _ = kineto.ParseInt(raw)
			rw.launchEnd = max(rw.launchEnd, rw.launch)
		case "Total Reserved":
			v, _ := kineto.ParseInt(raw)
			rw.launchEnd = v
		}
		return true
	})
	s.report.MemoryInstants++
	s.report.MemoryNetBytes += rw.a
}

func (s *scanner) opArgs(ev *kineto.Event, rw *row) {
	var dims, types []byte
	name := s.names.nameOf(rw)
	ev.Args.Each(func(key, raw []byte) bool {
		switch string(key) {
		case "Input Dims", "Input dims":
			dims = raw
		case "Input type", "Input Type":
			types = raw
		case "Sequence number":
			if v, ok := kineto.ParseInt(raw); ok && v >= 0 {
				rw.c = v + 1
			}
		case "Fwd thread id":
			rw.launch, _ = kineto.ParseInt(raw)
		case "finished":
			if string(raw) == "false" {
				s.report.Unfinished++
			}
		case "kernel_backend", "node_name", "stack_trace":
			rw.extra = string(ev.Args)
		}
		return true
	})
	rw.launchEnd = rw.launch
	if rw.launch != 0 && rw.c != 0 && len(s.fwdThreads) < 2 && !slices.Contains(s.fwdThreads, rw.launch) {
		s.fwdThreads = append(s.fwdThreads, rw.launch)
	}
	if dims != nil {
		s.hasShapes = true
		rw.a, rw.b = s.shapes.sizeOf(dims, types)
	}
	if name == "record_param_comms" || rw.kind == kineto.KindUserAnnotation && len(ev.Args) < 4096 {
		rw.extra = string(ev.Args)
	}
}

func (s *scanner) runtimeArgs(ev *kineto.Event, rw *row) {
	rw.a = -1
	ev.Args.Each(func(key, raw []byte) bool {
		switch string(key) {
		case "correlation":
			rw.corr, _ = kineto.ParseInt(raw)
		case "bytes", "size":
			if n, ok := kineto.ParseInt(raw); ok {
				rw.a = n
			}
		case "kind":
			if rw.extra == "" {
				rw.extra = kineto.UnquoteText(raw)
			}
		}
		return true
	})
}

func (s *scanner) metadata(ev *kineto.Event) {
	if string(ev.RawName()) == "thread_name" {
		s.lanes.noteThread(ev)
		return
	}
	if string(ev.RawName()) != "process_labels" || !ev.PID.IsNum {
		return
	}
	if label, ok := ev.Args.Text("labels"); ok && label == "CPU" {
		if _, seen := s.lanes.pidRows[ev.PID.Num]; !seen {
			s.lanes.pidRows[ev.PID.Num] = 0
		}
	}
}

// finish determines what is only known at the end of the file, and returns the
// error of the archive around it.
func (s *scanner) finish(in *kineto.Info) (cut error) {
	cut = s.report.fromInfo(in)
	s.counts.addTo(s.report.Counts)
	s.report.Foreign = !s.known && s.hasRows()
	s.nanos = in.FractionalTimes
	s.setBase(in)
	s.setIdentity(in)
	s.pid = s.lanes.finish()
	slices.SortStableFunc(s.steps, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	s.dropTail()
	s.report.Steps = int64(len(s.steps))
	s.report.NamesRepaired = s.names.clean
	if !s.hasWindow && s.hasRows() {
		s.window = [2]int64{s.first, s.last}
	}
	return cut
}

// dropTail removes the step that the profiler opened after the last one.
func (s *scanner) dropTail() {
	n := len(s.steps) - 1
	var before []int64
	for _, st := range s.steps[:max(n, 0)] {
		before = append(before, st.end-st.start)
	}
	if n > 0 && vocab.IsTail(s.steps[n].end-s.steps[n].start, before) {
		s.tail, s.hasTail = s.steps[n], true
		s.steps = s.steps[:n]
	}
}

// setBase finds the value to add to the times of the file.
func (s *scanner) setBase(in *kineto.Info) {
	r := s.report
	r.Era = in.Era()
	switch r.Era {
	case kineto.EraRelative:
		s.base = in.Base
		r.BaseSource = "baseTimeNanoseconds"
	case kineto.EraRelativeNoBase:
		stamp, source, ok := s.stamp()
		if !ok {
			r.warn("times are relative to a base that is missing in the file, and neither its name nor its date gives one: times start in 1970")
			return
		}
		// The block with the stamp, unless the trace would end after it.
		s.base = kineto.BaseFor(stamp)
		if s.base+in.MaxTS > stamp+int64(time.Hour) {
			s.base -= kineto.BaseBlockSeconds * int64(time.Second)
		}
		r.BaseSource = source
		r.guess("the time base was inferred from " + source)
	case kineto.EraProfilerClock:
		stamp, source, ok := s.stamp()
		if !ok {
			r.warn("times count from the start of the profiler, whose date is unknown: times start in 1970")
			return
		}
		s.base = stamp - in.MaxTS
		r.BaseSource = source
		r.guess("times count from the start of the profiler; the trace is assumed to end at " + source)
	default:
		r.BaseSource = "absolute times"
	}
}

// stamp returns approximately when the file was written, in nanoseconds, and
// the source of this.
func (s *scanner) stamp() (ns int64, source string, ok bool) {
	if ns, ok := fileStamp(s.name); ok {
		return ns, "the time stamp in the file's name", true
	}
	if at := s.modTime; !at.IsZero() {
		return at.UnixNano(), "the file's modification time", true
	}
	return 0, "", false
}

// setIdentity reads rank, world, host and devices from the file.
func (s *scanner) setIdentity(in *kineto.Info) {
	r := s.report
	var id identity.Identity
	if raw, ok := in.Member("distributedInfo"); ok {
		d := kineto.Args(raw)
		for _, key := range [...]string{"rank", "world_size"} {
			if v, ok := d.Int(key); ok {
				id.Say(identity.Profile, key, strconv.FormatInt(v, 10))
			}
		}
		r.Backend, _ = d.Text("backend")
		s.comms.groupRanks = groupRanks(d)
	}
	if s.opts.Rank != nil {
		id.SayNumber(identity.Option, identity.Rank, *s.opts.Rank)
	}
	if rank := identity.RankInName(s.name); rank >= 0 {
		id.SayNumber(identity.Name, identity.Rank, int64(rank))
	}
	s.rank, s.world = int64(id.Rank.Or(-1)), int64(id.WorldSize.Or(-1))
	if from, known := id.From(identity.Rank); known {
		if r.RankSource = from.String(); from == identity.Name {
			r.guess("the rank was read from the file's name")
		}
	}
	if doubt := id.Doubt(); doubt != "" {
		r.warn("the " + doubt + " is contradictory: distributedInfo takes precedence, then the caller, then the file's name")
	}
	r.Rank, r.World = s.rank, s.world
	if raw, ok := in.Member("host_name"); ok {
		s.host, s.hostKnown = kineto.UnquoteText(raw), true
	}
	for _, key := range [...]string{"PT_PROFILER_JOB_NAME", "PT_PROFILER_JOB_VERSION", "PT_PROFILER_JOB_ATTEMPT_INDEX"} {
		if raw, ok := in.Member(key); ok {
			s.job += kineto.UnquoteText(raw) + "\x00"
		}
	}
	if raw, ok := in.Member("deviceProperties"); ok {
		kineto.Elements(raw, func(e []byte) bool {
			id, ok := kineto.Args(e).Int("id")
			name, _ := kineto.Args(e).Text("name")
			if ok && name != "" {
				s.deviceNames[id], _ = kineto.Clean([]byte(name))
			}
			return true
		})
	}
}

// groupRanks returns the ranks of the process groups that a file describes, by
// name. A name of several groups is left out.
func groupRanks(info kineto.Args) map[string]memberList {
	out := map[string]memberList{}
	info.Each(func(key, raw []byte) bool {
		if string(key) != "pg_config" {
			return true
		}
		kineto.Elements(raw, func(e []byte) bool {
			name, ok := kineto.Args(e).Text("pg_name")
			ranks, have := kineto.Args(e).Raw("ranks")
			if !ok || !have {
				return true
			}
			text := strings.Join(strings.Fields(strings.Trim(string(ranks), `"`)), "")
			if held, twice := out[name]; twice && held.text != text {
				text = ""
			}
			out[name] = memberList{text, membersKey(text)}
			return true
		})
		return false
	})
	return out
}

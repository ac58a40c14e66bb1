package pytorch

import (
	"bytes"
	"context"
	"io"
	"slices"

	"github.com/trainspan/trainspan/internal/kineto"
	"github.com/trainspan/trainspan/spans"
)

// scan reads the whole trace once and keeps of every event what the later
// passes need.
func (p *process) scan(ctx context.Context, src io.Reader) error {
	r := kineto.NewReader(src)
	var ev kineto.Event
	var rw row
	for n := int64(0); ; n++ {
		if n&0xfff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		err := r.Next(&ev)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		p.countEvent(&ev)
		whole := &ev
		if ev.Phase == 'B' || ev.Phase == 'E' {
			if whole = p.pair(&ev); whole == nil {
				continue
			}
		}
		if err := p.keep(whole, whole.Kind(), n, &rw); err != nil {
			return err
		}
	}
	p.report.HalfEvents += int64(p.beginEnd.n)
	return p.finishScan(r.Info())
}

// recent is a counter that was used lately.
type recent struct {
	phase byte
	cat   []byte
	n     *int64
}

// countEvent counts by category and phase. A trace has few kinds, and those
// just seen come again, so they are looked at before the map.
func (p *process) countEvent(ev *kineto.Event) {
	for i := range p.recent {
		if c := &p.recent[i]; c.n != nil && c.phase == ev.Phase && string(c.cat) == string(ev.Cat) {
			*c.n++
			return
		}
	}
	k := "-"
	if len(ev.Cat) > 0 {
		k, _ = kineto.Clean(ev.Cat[:min(len(ev.Cat), 48)])
	}
	k += "/"
	if ev.Phase != 0 {
		k += string(rune(ev.Phase))
	}
	if p.counters[k] == nil {
		if len(p.counters) > 1000 {
			k = "(other)"
		}
		if p.counters[k] == nil {
			p.counters[k] = new(int64)
		}
	}
	c := &p.recent[p.nextRecent%len(p.recent)]
	p.nextRecent++
	c.phase, c.cat, c.n = ev.Phase, append(c.cat[:0], ev.Cat...), p.counters[k]
	*c.n++
}

// keep turns an event into a row in the right sorter.
func (p *process) keep(ev *kineto.Event, kind kineto.Kind, seq int64, rw *row) error {
	if kind == kineto.KindMetadata {
		p.metadata(ev)
		return nil
	}
	if !ev.HasTS {
		return nil
	}
	if ev.End() < ev.TS { // or the sum has no place
		p.report.Negative++
		return nil
	}
	p.first, p.last = min(p.first, ev.TS), max(p.last, ev.End())
	*rw = row{seq: seq, start: ev.TS, end: ev.End(), kind: kind, step: -1, ord: -1}
	p.known = p.known || kind != kineto.KindOther && kind != kineto.KindFlow && kind != kineto.KindCounter && kind != kineto.KindInstant
	switch kind {
	case kineto.KindWindow:
		if !p.hasWindow {
			p.window, p.hasWindow = [2]int64{ev.TS, ev.End()}, true
		}
		return nil
	case kineto.KindFlow, kineto.KindCounter, kineto.KindCUDAEvent:
		return nil
	case kineto.KindInstant:
		if n := ev.RawName(); string(n) != "[memory]" && string(n) != "[OutOfMemory]" {
			return nil
		}
		rw.end = rw.start
		p.memoryArgs(ev, rw)
	case kineto.KindPython:
		if !p.opts.PythonStacks {
			p.report.PythonRows++
			return nil
		}
	case kineto.KindKernel, kineto.KindMemcpy, kineto.KindMemset, kineto.KindGPUAnnotation, kineto.KindDevice, kineto.KindDeviceRange:
		return p.keepDevice(ev, rw)
	case kineto.KindSync:
		if !p.hostSync(ev) {
			return p.keepDevice(ev, rw)
		}
	case kineto.KindOther:
		if ev.Phase != 'X' || !ev.PID.IsNum {
			return nil
		}
		p.report.unknownCategory(string(ev.Cat))
		if onDevice(ev) {
			p.known = true
			rw.kind = kineto.KindDevice
			if bytes.HasSuffix(ev.Cat, []byte("_range")) || bytes.HasSuffix(ev.Cat, []byte("annotation")) {
				rw.kind = kineto.KindDeviceRange
			}
			return p.keepDevice(ev, rw)
		}
	}
	rw.name, rw.text = p.names.intern(ev.Name())
	switch kind {
	case kineto.KindCPUOp, kineto.KindUserAnnotation:
		p.legacy = p.legacy || string(ev.Cat) == "Operator" || len(ev.Cat) == 0
		p.opArgs(ev, rw)
	case kineto.KindRuntime, kineto.KindDriver:
		p.runtimeArgs(ev, rw)
		p.noteDeviceType(ev.Cat)
	}
	rw.lane = p.laneOf(ev.PID, ev.TID)
	if kind != kineto.KindInstant && kind != kineto.KindOverhead && ev.PID.Num >= 0 && ev.PID.IsNum {
		p.pidRows[ev.PID.Num]++
	}
	if kind == kineto.KindUserAnnotation {
		p.noteAnnotation(rw)
	}
	return p.host1.Add(rw)
}

// maxSteps bounds the steps of one file.
const maxSteps = 1 << 20

// noteAnnotation remembers steps, and what annotations the file has.
func (p *process) noteAnnotation(rw *row) {
	name := p.names.of(rw)
	if n, ok := spans.ProfilerStepNumber(name); ok {
		if len(p.steps) < maxSteps {
			p.steps = append(p.steps, step{n: n, start: rw.start, end: rw.end, lane: rw.lane})
		} else {
			p.report.stepsLeft++
		}
	}
	p.hasGloo = p.hasGloo || hostBackendRow(name)
	p.rules.match(rw, name)
}

// hostSync reports whether a cuda_sync row stands on a host thread.
func (p *process) hostSync(ev *kineto.Event) bool {
	_, device := ev.Args.Raw("device")
	return !device && ev.PID.IsNum && ev.PID.Num > 64
}

// onDevice reports whether a row of a category without a name here stands on a
// device: its arguments say so, or its process is the number of one.
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

// deviceTypes are the kinds of device, as PyTorch numbers them, by the
// beginning of a category.
var deviceTypes = []struct {
	prefix string
	number int64
}{{"mtia", 19}, {"xpu", 12}, {"hpu", 15}, {"privateuse1", 20}}

func (p *process) noteDeviceType(cat []byte) {
	for _, t := range deviceTypes {
		if len(cat) > len(t.prefix) && string(cat[:len(t.prefix)]) == t.prefix {
			p.deviceType = t.number
			return
		}
	}
}

func (p *process) keepDevice(ev *kineto.Event, rw *row) error {
	rw.name, rw.text = p.names.intern(ev.Name())
	if rw.kind == kineto.KindDevice || rw.kind == kineto.KindDeviceRange {
		p.noteDeviceType(ev.Cat)
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
	rw.lane = p.devLaneOf(devKey{device: device, stream: stream, annotation: !rw.works()})
	if rw.kind == kineto.KindKernel {
		rule := p.deviceRules.match(rw, p.names.of(rw))
		if comm = comm && (rule == nil || rule.Class == ClassComm); comm {
			rw.extra = string(ev.Args)
		}
		p.hasComm = p.hasComm || comm || rule != nil && rule.Class == ClassComm
	}
	if rw.works() {
		p.totalDevice += ev.Dur
		p.report.DeviceRows++
	}
	return p.join.Add(rw)
}

func (p *process) memoryArgs(ev *kineto.Event, rw *row) {
	rw.name, rw.text = p.names.intern(ev.Name())
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
	p.report.MemoryInstants++
	p.report.MemoryNetBytes += rw.a
}

func (p *process) opArgs(ev *kineto.Event, rw *row) {
	var dims, types []byte
	name := p.names.of(rw)
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
				p.report.Unfinished++
			}
		case "kernel_backend", "node_name", "stack_trace":
			rw.extra = string(ev.Args)
		}
		return true
	})
	rw.launchEnd = rw.launch
	if rw.launch != 0 && rw.c != 0 && len(p.fwdThreads) < 2 && !slices.Contains(p.fwdThreads, rw.launch) {
		p.fwdThreads = append(p.fwdThreads, rw.launch)
	}
	if dims != nil {
		p.report.hasShapes = true
		rw.a, rw.b = inputSize(dims, types)
	}
	if name == "record_param_comms" || rw.kind == kineto.KindUserAnnotation && len(ev.Args) < 4096 {
		rw.extra = string(ev.Args)
	}
}

func (p *process) runtimeArgs(ev *kineto.Event, rw *row) {
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

func (p *process) metadata(ev *kineto.Event) {
	if string(ev.RawName()) == "thread_name" {
		p.noteThread(ev)
		return
	}
	if string(ev.RawName()) != "process_labels" || !ev.PID.IsNum {
		return
	}
	if label, ok := ev.Args.Text("labels"); ok && label == "CPU" {
		if _, seen := p.pidRows[ev.PID.Num]; !seen {
			p.pidRows[ev.PID.Num] = 0
		}
	}
}

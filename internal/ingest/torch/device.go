package torch

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/ingest/torch/torchrules"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

// deviceRows writes the rows of all device lanes, in order of time.
type deviceRows struct {
	*out
	spans   *spanWriter
	dynamo  dynamoRows
	busy    busyDevices
	tid     int64       // of the row being written
	class   deviceClass // of the row being written
	crowded bool        // there are rows on lane 0
}

func (e *deviceRows) run(ctx context.Context) error {
	it := e.p.rows.device.Iter()
	for n := 0; ; n++ {
		if n&0xfff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r := it.Next()
		if r == nil {
			return it.Err()
		}
		name := e.p.names.nameOf(r)
		lane := &e.p.lanes.device[r.lane]
		tid, part := lane.place(r.start, r.end)
		if part > 0 {
			e.p.report.DeviceOverlaps++
			e.nameOverlap(lane, tid, part)
		}
		e.tid, e.class = tid, e.p.deviceRules.classOf(r, name)
		e.busy.add(r, e.class, e.p.window)
		e.row(r, name)
		ai := ""
		switch r.kind {
		case kineto.KindMemcpy:
			ai = e.transfer(r, name)
		case kineto.KindKernel:
			if r.extra != "" {
				ai = e.comm(r)
			}
			if r.flags&flagBare != 0 && strings.HasPrefix(name, "triton_") {
				e.dynamo.bareKernel(r, e.tid, name)
			}
		}
		e.spans.device(e.p, r, name, ai)
	}
}

// nameOverlap names a part of a device lane, or reports once that lane 0 is in
// use.
func (e *deviceRows) nameOverlap(lane *devLane, tid int64, part int) {
	switch {
	case part != place.Shared:
		e.nameLane(tid, lane.name(part))
	case !e.crowded:
		e.crowded = true
		e.meta(tracefile.NameCustom, 0, dftracer.String("name", place.KeySharedLane), dftracer.Int("value", devParts))
	}
}

// row writes a profiler event for a row.
func (e *deviceRows) row(r *row, name string) {
	e.onDevice("PP", name, e.tid, r)
	dur := r.end - r.start
	e.int(`,"device":`, e.p.deviceType)
	e.addIfKnown(`,"device_id":`, r.b)
	e.addIfKnown(`,"stream":`, r.c)
	work := dur
	if !r.works() {
		work = 0
	}
	e.float(`,"cpu_memory":0,"device_memory_usage":0,"is_remote":0,"input_size":0,"total_cpu_percent":0.0,"total_device_percent":`, percent(work, e.p.totalDevice))
	if r.works() {
		e.us(`,"device_us":`, dur)
		if e.class != classCompute {
			e.str(`,"class":`, torchrules.Classes[e.class])
		}
	}
	e.str(`,"kind":`, r.kind.String())
	if r.kind == kineto.KindDevice || r.kind == kineto.KindDeviceRange {
		e.text(`,"category":`, r.extra)
	}
	if r.kind == kineto.KindKernel && r.extra != "" {
		e.add(`,"collective":1`)
	}
	if r.corr != 0 {
		e.int(`,"correlation":`, r.corr)
	}
	e.addIfKnown(`,"bytes":`, r.a)
	if r.flags&flagLinked != 0 {
		if op := e.p.names.opOf(r); op != "" {
			e.str(`,"op":`, op)
		}
		e.us(`,"launch_delay_us":`, max(r.start-r.launch, 0))
	} else if r.works() {
		e.add(`,"unlinked":1`)
	}
	e.exact(r.start, dur)
	e.common(r.step, false)
}

// transfer writes the device.transfer event of a copy, if the row is one, and
// returns its category and name.
func (e *deviceRows) transfer(r *row, name string) string {
	kind := transferKind(name, r.extra)
	if kind == "" || kind == "HtoH" || kind == "DtoD" {
		return ""
	}
	e.onDevice("device", "transfer", e.tid, r)
	e.str(`,"kind":`, kind)
	e.addIfKnown(`,"bytes":`, r.a)
	e.addIfKnown(`,"device":`, r.b)
	e.addIfKnown(`,"stream":`, r.c)
	src, dst := "device", "device"
	if kind[0] == 'H' {
		src = "host"
	}
	if kind[len(kind)-1] == 'H' {
		dst = "host"
	}
	e.str(`,"src":`, src)
	e.str(`,"dst":`, dst)
	switch {
	case strings.Contains(name, "Pinned"):
		e.add(`,"pinned":"yes"`)
	case strings.Contains(name, "Pageable"):
		e.add(`,"pinned":"no"`)
	default:
		e.add(`,"pinned":"unknown"`)
	}
	if dur := r.end - r.start; dur > 0 && r.a > 0 {
		e.float(`,"bw_GBs":`, float64(r.a)/float64(dur))
	}
	e.common(r.step, true)
	return "device.transfer"
}

// comm writes the comm event of a collective's kernel. The time is the device's
// and includes waiting for late peers; wait_us has the wait if other ranks were
// imported too.
func (e *deviceRows) comm(r *row) string {
	c := decodeCollective(r.extra)
	name := c.op
	if name == "" {
		if c.transfer && (c.coll == "wait" || c.coll == "init") {
			return ""
		}
		name = "unknown"
	}
	e.onDevice("comm", name, e.tid, r)
	e.commArgs(&c)
	e.addIfKnown(`,"device":`, r.b)
	e.addIfKnown(`,"stream":`, r.c)
	if r.flags&flagLinked != 0 {
		e.us(`,"host_launch_us":`, r.launchEnd-r.launch)
	}
	e.waited(&c, r.seq)
	e.common(r.step, true)
	return "comm." + name
}

// DeviceUse is how a device spent the profiler's window. Times are unions: a
// moment counts once, however many streams worked in it.
type DeviceUse struct {
	// Device is the number of the device in its process.
	Device int64 `json:"device"`
	// Window is the length of the profiler's window, Idle the part in which nothing
	// ran.
	Window time.Duration `json:"window_ns"`
	Idle   time.Duration `json:"idle_ns"`
	// Compute, Comm and Copy are by class; ExposedComm is communication while
	// nothing computed.
	Compute     time.Duration `json:"compute_ns"`
	Comm        time.Duration `json:"comm_ns"`
	Copy        time.Duration `json:"copy_ns"`
	ExposedComm time.Duration `json:"comm_exposed_ns"`
}

func (d *DeviceUse) text() string {
	use := func(part time.Duration) string {
		return display.Duration(int64(part)) + " (" + display.Share(int64(part), int64(d.Window)) + ")"
	}
	return fmt.Sprintf("device %d: compute %s, communication %s (%s exposed), copies %s, idle %s",
		d.Device, use(d.Compute), use(d.Comm), display.Duration(int64(d.ExposedComm)), use(d.Copy), use(d.Idle))
}

// deviceClass is the kind of work of a device row, an index of
// torchrules.Classes.
type deviceClass uint8

const (
	classCompute deviceClass = iota
	classComm
	classCopy
	classCount
)

// deviceRule is a compiled rule.
type deviceRule struct {
	class deviceClass
	op    string
	re    *regexp.Regexp
}

// deviceHints are substrings, in lower case, of every kernel name to which one
// of the default rules gives another class than computing. Searching for them
// first saves running all patterns on the long names of templates.
var deviceHints = []string{
	"ccl", "deep_ep", "barrier", "signal", "value32", "nvshmem", "shmem", "multimem", "nvls", "cross_device", "quickreduce", "userbuffers",
	"allreduce", "all_reduce", "allgather", "all_gather", "reducescatter", "reduce_scatter", "alltoall", "allto_all", "all_to", "a2a", "hcom", "memcpy", "memset",
}

func hinted(name string) bool {
	lower := strings.ToLower(name)
	return slices.ContainsFunc(deviceHints, func(hint string) bool { return strings.Contains(lower, hint) })
}

// deviceRules is the compiled table with the result for every name seen.
type deviceRules struct {
	rules []deviceRule
	own   int // rules of the user, which come first
	// results by name id: 2 + index of the rule, 1 for no rule, 0 for not computed.
	verdicts []int16
	known    verdictCache
}

// verdictCache keeps results by name over the files of an import: ranks have
// the same names, and patterns are slow on long ones. One import uses it in one
// goroutine.
type verdictCache map[string]int16

// maxVerdicts bounds the names in a cache.
const maxVerdicts = 1 << 14

func (c verdictCache) put(name string, verdict int16) {
	if len(c) < maxVerdicts {
		c[name] = verdict
	}
}

func compileDeviceRules(own []DeviceRule) (*deviceRules, error) {
	rules := append(append([]DeviceRule(nil), own...), torchrules.Kernels()...)
	if len(own) > 1000 {
		return nil, fmt.Errorf("pytorch: %d device rules, at most 1000 are allowed", len(own))
	}
	d := &deviceRules{rules: make([]deviceRule, len(rules)), own: len(own), known: verdictCache{}}
	for i, r := range rules {
		re, err := regexp.Compile(r.Pattern)
		if err != nil {
			return nil, fmt.Errorf("pytorch: device rule %d: %w", i, err)
		}
		class := slices.Index(torchrules.Classes[:], r.Class)
		if class < 0 {
			return nil, fmt.Errorf("pytorch: device rule %d (%s): no such class", i, r.Pattern)
		}
		d.rules[i] = deviceRule{deviceClass(class), r.Op, re}
	}
	return d, nil
}

func (d *deviceRules) fork() *deviceRules {
	return &deviceRules{rules: d.rules, own: d.own, known: d.known}
}

// match returns the rule for a kernel, or nil.
func (d *deviceRules) match(r *row, name string) *deviceRule {
	for int(r.name) >= len(d.verdicts) {
		d.verdicts = append(d.verdicts, 0)
	}
	if r.name != 0 && d.verdicts[r.name] != 0 {
		if v := d.verdicts[r.name]; v > 1 {
			return &d.rules[v-2]
		}
		return nil
	}
	verdict, ok := d.known[name]
	if !ok {
		verdict = d.ask(name)
		d.known.put(name, verdict)
	}
	if r.name != 0 {
		d.verdicts[r.name] = verdict
	}
	if verdict > 1 {
		return &d.rules[verdict-2]
	}
	return nil
}

// ask runs the patterns.
func (d *deviceRules) ask(name string) int16 {
	list := d.rules
	if !hinted(name) {
		list = list[:d.own]
	}
	for i := range list {
		if list[i].re.MatchString(name) {
			return int16(i + 2)
		}
	}
	return 1
}

// classOf returns the class of a device row. A kernel that the trace itself
// marks as a collective is one.
func (d *deviceRules) classOf(r *row, name string) deviceClass {
	switch r.kind {
	case kineto.KindMemcpy, kineto.KindMemset:
		return classCopy
	case kineto.KindKernel:
		if r.extra != "" {
			return classComm
		}
	}
	if rule := d.match(r, name); rule != nil && (rule.class != classComm || r.kind != kineto.KindKernel) {
		return rule.class
	}
	return classCompute
}

// opWords maps words in the name of a kernel to collectives.
var opWords = []struct{ word, op string }{
	{"reduce_scatter", "reduce_scatter"}, {"reducescatter", "reduce_scatter"},
	{"all_reduce", "all_reduce"}, {"allreduce", "all_reduce"},
	{"all_gather", "all_gather"}, {"allgather", "all_gather"},
	{"all_to_all", "all_to_all"}, {"alltoall", "all_to_all"},
	{"broadcast", "bcast"}, {"barrier", "barrier"},
}

// kernelOp returns the collective of a kernel by its name, and the word for it.
func (rule *deviceRule) kernelOp(name string) (op, word string) {
	if w, ok := commKernel(name); ok {
		word = w
		op = commOp(w)
	} else {
		word = shortName(name)
		lower := strings.ToLower(name)
		for _, m := range opWords {
			if strings.Contains(lower, m.word) {
				op = m.op
				break
			}
		}
	}
	if rule != nil && rule.op != "" {
		op = rule.op
	}
	return op, word
}

// shortName returns a kernel's name without return type, namespaces, template
// and parameters: void deep_ep::intranode::dispatch<8, 768>(int4*) is dispatch.
func shortName(name string) string {
	name = strings.TrimPrefix(name, "void ")
	name = strings.ReplaceAll(name, "(anonymous namespace)::", "")
	if i := strings.IndexAny(name, "<("); i > 0 {
		name = name[:i]
	}
	if i := strings.LastIndex(name, "::"); i >= 0 {
		name = name[i+2:]
	}
	return name
}

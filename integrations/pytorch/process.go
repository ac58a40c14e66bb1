package pytorch

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/trainspan/trainspan/internal/kineto"
	"github.com/trainspan/trainspan/internal/nest"
	"github.com/trainspan/trainspan/internal/spill"
)

// process is one imported trace: what one rank wrote in one profiler window.
type process struct {
	name        string
	opts        *Options
	known       bool // an event is of a category that PyTorch writes
	report      *FileReport
	names       *names
	rules       *ruleSet
	deviceRules *deviceRules

	pid         int64
	rank, world int64 // -1 unknown
	host        string
	hostKnown   bool   // the file names its host
	job         string // as far as the file names it
	groupRanks  map[string]string
	groups      map[string]string // interned
	deviceType  int64
	deviceNames map[int64]string
	base        int64 // added to the times of the file
	clock       clock // puts the times of the ranks on one axis
	nanos       bool  // times have digits below a microsecond

	lanes    []lane
	laneIDs  map[laneKey]uint32
	devLanes []devLane
	devIDs   map[devKey]uint32
	pidRows  map[int64]int64

	steps     []step
	window    [2]int64
	hasWindow bool

	host1       *spill.Sorter[row]   // host rows and instants by lane
	join        *spill.Sorter[row]   // launches and device rows by correlation
	device      *spill.Sorter[row]   // device rows, resolved, by lane
	onHost      *spill.Sorter[share] // device time by ordinal of the launch
	pairs       *spill.Sorter[row]   // operators of forward and backward by sequence number
	ties        *spill.Sorter[row]   // the same, resolved, by ordinal
	launches    *spill.Sorter[share] // device time by launch
	part        share
	tied        int64 // forward operators with a backward
	first, last int64 // of all rows, in times of the file
	threadNames map[[2]int64]string
	hostComm    []uint32 // lanes with collectives that the host runs

	fwdThreads []int64 // threads whose forward has a backward here, two at most

	beginEnd   beginEnd
	counters   map[string]*int64
	recent     [16]recent
	nextRecent int
	legacy     bool // the file has no rows of the autograd engine itself

	ordinals    int64
	totalSelf   int64 // ns, all host rows
	totalDevice int64 // ns, all device work
	envelopes   []envelope
	// moduleFrames reports python frames of nn.Module calls.
	moduleFrames bool
	hasComm      bool // some device row is a collective
	hasGloo      bool // some annotation is a collective run by the host
	collectives  []rankCollective
	waits        map[int64]commWait // by row
	graphs       *graphIndex
	levelCounts  [levelCount]int64
	sortedSteps  []int64
	lanesLeft    int // with phases without device time
}

type laneKey struct {
	pid, tid int64
	text     string
}

type lane struct {
	laneKey
	tid  int64 // as emitted
	rows int64
}

type devKey struct {
	device, stream int64
	annotation     bool
}

type devLane struct {
	devKey
	tid  int64
	open [devParts]nest.Stack[struct{}] // for every part of the lane
}

// devParts is into how many parts a device lane can fall apart when rows on
// one stream overlap without nesting.
const devParts = 5

// place returns the thread id for a row such that rows under one id nest, and
// the part of the lane, 0 for the lane itself. Rows come in order of their
// start, longer ones first.
func (l *devLane) place(start, end int64) (tid int64, part int) {
	for part = range l.open {
		l.open[part].Leave(start, start)
		if top := l.open[part].Top(); top == nil || top.End >= end {
			break
		}
	}
	l.open[part].Push(end, struct{}{})
	return l.tid + int64(part)*100_000, part
}

// step is one ProfilerStep#N window on the host.
type step struct {
	n          int64
	start, end int64
	lane       uint32
}

// envelope is a stretch of autograd engine work.
type envelope struct {
	start, end int64
	lane       uint32
	step       int32
}

func newProcess(name string, opts *Options, rules *ruleSet, store *spill.Store, memory int64) *process {
	p := &process{
		name: name, opts: opts, rules: rules.fork(), rank: -1, world: -1,
		names:   newNames(int(max(memory/4, 1<<20))),
		laneIDs: map[laneKey]uint32{}, devIDs: map[devKey]uint32{}, pidRows: map[int64]int64{}, counters: map[string]*int64{},
		first: math.MaxInt64, last: math.MinInt64,
		deviceType: 1, deviceNames: map[int64]string{},
	}
	p.report = &FileReport{Name: name, Counts: map[string]int64{}, Rank: -1}
	// What stays until the events are written shares one file over all ranks.
	p.host1 = spill.NewIn(rowCodec(laneOrder), int(memory*7/16), store)
	p.join = spill.New(rowCodec(correlationOrder), int(memory*3/16), opts.TempDir)
	p.device = spill.NewIn(rowCodec(timeOrder), int(memory/8), store)
	p.onHost = spill.NewIn(shareCodec(), int(memory/16), store)
	p.pairs = spill.New(rowCodec(bySequence), int(memory/16), opts.TempDir)
	p.ties = spill.NewIn(rowCodec(ordinalOrder), int(memory/16), store)
	p.launches = spill.NewIn(shareCodec(), int(memory/16), store)
	return p
}

// wall turns a time of the file into nanoseconds since 1970 on the common axis.
func (p *process) wall(t int64) int64 {
	if p.clock.drift == 0 { // nearly always; small enough to be inlined
		return t + p.base + p.clock.offset
	}
	return p.clock.at(t + p.base)
}

// sorter is what all sorters have in common.
type sorter interface {
	Flush() error
	Close() error
	Spilled() int64
}

func (p *process) sorters() []sorter {
	return []sorter{p.host1, p.join, p.device, p.onHost, p.pairs, p.ties, p.launches}
}

func (p *process) close() {
	for _, s := range p.sorters() {
		s.Close()
	}
}

// flush returns the memory of a process back while others are read.
func (p *process) flush() error {
	for _, s := range p.sorters() {
		if err := s.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (p *process) laneOf(pid, tid kineto.ID) uint32 {
	k := laneKey{pid: pid.Num, tid: tid.Num}
	if !tid.IsNum {
		k.text = string(tid.Text)
	}
	id, ok := p.laneIDs[k]
	if !ok {
		id = uint32(len(p.lanes))
		p.laneIDs[k] = id
		p.lanes = append(p.lanes, lane{laneKey: k})
	}
	p.lanes[id].rows++
	return id
}

func (p *process) devLaneOf(k devKey) uint32 {
	id, ok := p.devIDs[k]
	if !ok {
		id = uint32(len(p.devLanes))
		p.devIDs[k] = id
		p.devLanes = append(p.devLanes, devLane{devKey: k, tid: deviceTID(k, int64(id))})
	}
	return id
}

// deviceTID returns a device lane a thread id that no operating system hands
// out (Linux stops at 2^22) and that tells device and stream at sight:
// 1DDDPSSSSS, P being 0 to 4 for the parts of the lane and 5 to 9 for those
// of its annotations.
func deviceTID(k devKey, index int64) int64 {
	if k.device < 0 || k.device > 999 || k.stream < 0 || k.stream >= 100_000 {
		return 2_000_000_000 + index*1_000_000
	}
	tid := 1_000_000_000 + k.device*1_000_000 + k.stream
	if k.annotation {
		tid += 500_000
	}
	return tid
}

// finishLanes picks the process id and gives every host lane its thread id.
func (p *process) finishLanes() {
	var best int64 = -1
	for pid, n := range p.pidRows {
		if best < 0 || n > p.pidRows[best] || n == p.pidRows[best] && pid < best {
			best = pid
		}
	}
	p.pid = max(best, 0)
	for i := range p.lanes {
		l := &p.lanes[i]
		l.laneKey.text = ""
		if l.laneKey.pid == p.pid && l.laneKey.tid >= 0 && l.laneKey.tid < 1_000_000_000 {
			l.tid = l.laneKey.tid
		} else {
			// Another namespace (python rows at pid 0, overhead at pid -1).
			l.tid = otherLanes + int64(i)
		}
	}
}

// stepAt returns the index of the step that t falls into, or -1.
func (p *process) stepAt(t int64) int32 {
	i, found := slices.BinarySearchFunc(p.steps, t, func(s step, t int64) int { return cmp.Compare(s.start, t) })
	if found {
		return int32(i)
	}
	if i > 0 && t <= p.steps[i-1].end {
		return int32(i - 1)
	}
	return -1
}

func (p *process) stepNumber(i int32) (int64, bool) {
	if i < 0 || int(i) >= len(p.steps) {
		return 0, false
	}
	return p.steps[i].n, true
}

var stampPattern = regexp.MustCompile(`\.(\d{13}|\d{16}|\d{19})\.pt\.trace\.json`)

// fileStamp reads the time at which the profiler named the file: milliseconds
// up to torch 2.0, nanoseconds later.
func fileStamp(name string) (unixNanos int64, ok bool) {
	m := stampPattern.FindStringSubmatch(name)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0, false
	}
	switch len(m[1]) {
	case 13:
		n *= int64(time.Millisecond)
	case 16:
		n *= int64(time.Microsecond)
	}
	return n, true
}

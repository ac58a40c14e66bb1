package torch

import (
	"math"
	"strconv"

	"github.com/trainspan/trainspan/internal/platform/extsort"
)

// process is one imported trace: what one rank wrote in one profiler window.
// The passes fill it in: scanner, linker, and what compares ranks. Nothing of it
// is there for one pass alone.
type process struct {
	name        string
	opts        *Options
	report      *FileReport
	names       *names
	rules       *ruleSet
	deviceRules *deviceRules

	// Who wrote the file. Numbers are -1 when they are not known.
	pid         int64
	rank, world int64
	host        string
	hostKnown   bool   // the file names its host
	job         string // as far as the file names it

	timeline

	// What one pass found in the file and later ones ask for.
	hasShapes, hasComm, hasGloo bool    // some row has shapes; is a collective of a device; of the host
	legacy                      bool    // the file has no rows of the autograd engine itself
	moduleFrames                bool    // python frames of nn.Module calls
	fwdThreads                  []int64 // threads whose forward has a backward here, two at most
	stepsLeft                   int64   // beyond the first
	totalDevice, totalSelf      int64   // ns: all device work, all host rows
	ordinals                    int64   // host rows
	tied                        int64   // forward operators with a backward
	envelopes                   []envelope
	levels                      [levelCount]int64

	lanes       laneTable
	rows        rowStore
	comms       commTable
	regions     regions
	deviceType  int64 // as PyTorch numbers them
	deviceNames map[int64]string
	waits       map[int64]commWait // by row
	graphs      *graphIndex
}

// jobKey names a process over the files of its profiler windows.
type jobKey struct {
	host      string
	pid, rank int64
}

func (p *process) jobKey() jobKey { return jobKey{p.host, p.pid, p.rank} }

// prefix returns the rank in front of the name of a lane.
func (p *process) prefix() string {
	if p.rank < 0 {
		return ""
	}
	return "rank " + strconv.FormatInt(p.rank, 10) + " "
}

// ownThread reports whether all backward in the file belongs to one thread of
// forward. The numbers of several threads are the same ones, and the trace does
// not say which of its threads is which.
func (p *process) ownThread() bool { return len(p.fwdThreads) == 1 }

func newProcess(name string, opts *Options, rules *ruleSet, deviceRules *deviceRules, store *extsort.Store) *process {
	p := &process{
		name: name, opts: opts, rules: rules.fork(), deviceRules: deviceRules.fork(), rank: -1, world: -1,
		names: newNames(int(max(opts.Memory/4, 1<<20))), lanes: newLaneTable(), rows: newRowStore(store, opts.Memory, opts.TempDir),
		timeline: timeline{first: math.MaxInt64, last: math.MinInt64}, deviceType: 1, deviceNames: map[int64]string{},
		report: &FileReport{Name: name, Counts: map[string]int64{}, Rank: -1},
	}
	p.regions = regions{names: p.names, file: p.report}
	return p
}

// training reports whether a file is taken for training: it shows a backward or
// an optimizer, or too few operators to tell.
func (p *process) training() bool {
	if p.report.Foreign {
		return false
	}
	return p.levels[levelOp] < 2 || p.hasGloo || p.rules.seen["compute/backward"] || p.rules.seen["compute/step"] || len(p.envelopes) > 0 || len(p.fwdThreads) > 0 ||
		p.report.Compile != nil && p.report.Compile.Backward
}

// stepName returns the name of a step's event.
func (p *process) stepName() string {
	if p.training() {
		return "train.iteration"
	}
	return "iteration"
}

// hasPhases reports whether anything will ask for the device time of a phase.
func (p *process) hasPhases() bool {
	return len(p.steps) > 0 || len(p.envelopes) > 0 || p.moduleFrames || len(p.rules.seen) > 0
}

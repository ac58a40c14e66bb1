package torch

import (
	"math"
	"strconv"

	"github.com/trainspan/trainspan/internal/platform/extsort"
)

// process is one imported trace: the file of one rank for one profiler window.
// The passes fill it in: scanner, linker, and the comparison of ranks. All
// fields are used by more than one pass.
type process struct {
	name        string
	opts        *Options
	report      *FileReport
	names       *names
	rules       *ruleSet
	deviceRules *deviceRules

	// The identity of the file's process. Unknown numbers are -1.
	pid         int64
	rank, world int64
	host        string
	hostKnown   bool   // the file names its host
	job         string // as far as the file has it

	timeline

	// What one pass found in the file for later ones.
	hasShapes, hasComm, hasGloo bool    // some row has shapes; a collective of a device; of the host
	launchesComm                bool    // some row launches a collective of a device
	legacy                      bool    // the file has no rows of the autograd engine itself
	moduleFrames                bool    // Python frames of nn.Module calls
	fwdThreads                  []int64 // threads whose forward has a backward here, at most two
	stepsLeft                   int64   // steps above the bound
	totalDevice, totalSelf      int64   // ns: all device work, all host rows
	ordinals                    int64   // number of host rows
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

// jobKey identifies a process over the files of its profiler windows.
type jobKey struct {
	host      string
	pid, rank int64
}

func (p *process) jobKey() jobKey { return jobKey{p.host, p.pid, p.rank} }

// prefix returns the rank as a prefix for lane names.
func (p *process) prefix() string {
	if p.rank < 0 {
		return ""
	}
	return "rank " + strconv.FormatInt(p.rank, 10) + " "
}

// ownThread reports whether all backward operators in the file belong to one
// thread of forward. Several threads use the same numbers, and the trace does
// not show which is which.
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

// training reports whether a file counts as training: it has a backward or an
// optimizer, or too few operators to decide.
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

// hasPhases reports whether the device time of a phase will be needed.
func (p *process) hasPhases() bool {
	return len(p.steps) > 0 || len(p.envelopes) > 0 || p.moduleFrames || len(p.rules.seen) > 0
}

package account

import (
	"math"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Category says what a stretch of time was spent on. The categories of a
// ledger are exclusive and add up to the wall time. Besides the constants
// there is one category for each blocking span that is not a standard one:
// "custom." and its name.
type Category string

// The categories.
const (
	Productive     Category = "productive"      // iterations that were kept
	LostWork       Category = "lost_work"       // iterations that a resume undid, or that never finished
	Warmup         Category = "warmup"          // compiling, and what the first iteration of an attempt took beyond the usual time
	Init           Category = "init"            // the four initializations
	CheckpointLoad Category = "checkpoint_load" //
	CheckpointSave Category = "checkpoint_save" // the part of saves that holds up training
	DataWait       Category = "data_wait"       // data loading on the training thread
	Validation     Category = "validation"      //
	Testing        Category = "testing"         //
	Wait           Category = "wait"            // for another rank, outside of iterations
	Stall          Category = "stall"           // an unfinished iteration beyond the usual time
	Downtime       Category = "downtime"        // from when an attempt had ended for certain to the start of the next
	Unobserved     Category = "unobserved"      // after the last sign of life: an attempt may have lived, and nothing of it was recorded; or no later one is known
	Absent         Category = "absent"          // a rank before its first start or after its end, while the job runs
	Other          Category = "other"           // inside the application, and in no span that says for what
)

// The parts of a start: what a process did before it trained and no initialization
// says. They divide what would be [Other].
const (
	StartupInterpreter Category = "startup.interpreter" // until the program's first line
	StartupImports     Category = "startup.imports"     // of libraries
	StartupRendezvous  Category = "startup.rendezvous"  // waiting for the other processes
	StartupDevice      Category = "startup.device"      // a device is opened
	StartupModel       Category = "startup.model"       // the model goes to its device
	StartupFirstBatch  Category = "startup.first_batch" // until the loader gives its first one
	StartupCompile     Category = "startup.compile"     // before the first step
)

// startUpPrefix begins the categories of the parts of a start, which end in the
// name that such a part has in a trace.
const startUpPrefix = "startup."

// startUps are the parts in their order.
var startUps = []Category{StartupInterpreter, StartupImports, StartupRendezvous, StartupDevice, StartupModel, StartupFirstBatch, StartupCompile}

// customPrefix begins the categories of spans that are not standard ones.
const customPrefix = "custom."

// maxCustom bounds the custom categories of one attempt. What is beyond goes
// to customRest: names with numbers in them must not fill the memory.
const maxCustom = 4096

// maxNamed bounds the categories that are not fixed.
const maxNamed = maxCustom + 1 + 7 // the rest, and the parts of a start

const customRest Category = customPrefix + "(more)"

// Categories lists the fixed categories in the order in which they are shown.
func Categories() []Category {
	return slices.Concat([]Category{Productive, LostWork, Warmup, Stall}, startUps, []Category{
		Init, CheckpointLoad, CheckpointSave, DataWait, Wait, Validation, Testing, Downtime, Unobserved, Absent, Other,
	})
}

// IsStartUp reports whether the category is a part of a start.
func (c Category) IsStartUp() bool { return strings.HasPrefix(string(c), startUpPrefix) }

// IsCustom reports whether the category is that of a span of the program's own.
func (c Category) IsCustom() bool { return strings.HasPrefix(string(c), customPrefix) }

// Totals is how many nanoseconds each category took. Categories without any
// time are left out.
type Totals map[Category]int64

// Sum adds the categories up.
func (t Totals) Sum() int64 {
	var sum int64
	for _, ns := range t {
		sum += ns
	}
	return sum
}

// ratio returns the productive part, NaN of no time.
func (t Totals) ratio() float64 {
	if all := t.Sum(); all != 0 {
		return float64(t[Productive]) / float64(all)
	}
	return math.NaN()
}

func (t Totals) add(c Category, ns int64) {
	if ns != 0 {
		t[c] += ns
	}
}

func (t Totals) addAll(o Totals) {
	for c, ns := range o {
		t[c] += ns
	}
}

// kind is what a span means to the ledger. The order is that in which
// concurrent leaves win: what holds up the training comes before the iteration
// that it holds up, and what is prefetched behind an iteration comes after it.
type kind uint8

const (
	kindLoad kind = iota
	kindInit
	kindSave
	kindTesting
	kindValidation
	kindWarmup // compiling
	kindCustom
	kindIteration
	kindMeeting // a collective in no iteration
	kindData
	kindStartUp // a part of a start: what nothing else says more of
	kindOther   // application, loops, epochs
	kindCount

	// The kinds below take the place of their parent.
	kindCompute    // forward, backward, the optimizer: part of the iteration
	kindCollective // as well
	kindDetail     // calls of the operating system, kernels: part of whatever they are in
)

// fixed are the categories of the kinds that have one of their own.
var fixed = [kindCount]Category{
	kindLoad: CheckpointLoad, kindInit: Init, kindSave: CheckpointSave, kindTesting: Testing,
	kindValidation: Validation, kindWarmup: Warmup, kindIteration: Productive, kindMeeting: Productive, kindData: DataWait, kindStartUp: Other, kindOther: Other,
}

// kindOf is what each class of spans means to the ledger.
var kindOf = [vocab.Classes]kind{
	vocab.ClassOther:          kindCustom,
	vocab.ClassFrame:          kindOther,
	vocab.ClassStep:           kindIteration,
	vocab.ClassBody:           kindOther,
	vocab.ClassForward:        kindCompute,
	vocab.ClassBackward:       kindCompute,
	vocab.ClassOptimizer:      kindCompute,
	vocab.ClassCompute:        kindCompute,
	vocab.ClassCollective:     kindCollective,
	vocab.ClassCommInit:       kindInit,
	vocab.ClassTransfer:       kindCompute,
	vocab.ClassDeviceWork:     kindCompute,
	vocab.ClassInputWait:      kindData,
	vocab.ClassInputWork:      kindData,
	vocab.ClassCheckpointSave: kindSave,
	vocab.ClassCheckpointLoad: kindLoad,
	vocab.ClassEvaluation:     kindValidation,
	vocab.ClassTesting:        kindTesting,
	vocab.ClassCompile:        kindWarmup,
	vocab.ClassInit:           kindInit,
	vocab.ClassStartUp:        kindStartUp,
	vocab.ClassIO:             kindDetail,
	vocab.ClassDetail:         kindDetail,
}

// categories are those of one process: the fixed ones, and those of its own spans
// in the order in which they came.
type categories struct {
	table []Category // by what
	names map[string]what
}

func newCategories() categories {
	c := categories{names: make(map[string]what)}
	for k := range kindCount {
		c.table = append(c.table, fixed[k])
	}
	return c
}

// custom returns the category of a span that is not a standard one. From some number
// on they share one.
func (c *categories) custom(name string) what {
	if w, ok := c.names[name]; ok {
		return w
	}
	category := customPrefix + Category(name)
	if len(c.names) >= maxCustom {
		if w, ok := c.names[""]; ok {
			return w
		}
		name, category = "", customRest
	}
	w := c.add(category)
	c.names[name] = w
	return w
}

// startUp returns the category of a part of a start. One of which nothing is known is
// part of what it is in.
func (c *categories) startUp(part string) what {
	category := startUpPrefix + Category(part)
	if !slices.Contains(startUps, category) {
		return whatOther
	}
	if i := slices.Index(c.table, category); i >= 0 {
		return what(i)
	}
	return c.add(category)
}

func (c *categories) add(category Category) what {
	c.table = append(c.table, category)
	return what(len(c.table) - 1)
}

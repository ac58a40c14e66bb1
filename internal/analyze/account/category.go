package account

import (
	"math"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Category is what an interval of time was spent on. The categories of a
// ledger are exclusive and add up to the wall time. Besides the constants
// there is one category for each name of a blocking span that is not a standard
// one: "custom." and the name.
type Category string

// The categories.
const (
	Productive     Category = "productive"      // iterations that were kept
	LostWork       Category = "lost_work"       // iterations that a resume undid, or that never finished
	Warmup         Category = "warmup"          // compilation, and the time of the first iteration of an attempt beyond the usual time
	Init           Category = "init"            // the four initializations
	CheckpointLoad Category = "checkpoint_load" //
	CheckpointSave Category = "checkpoint_save" // the part of saves that blocks training
	DataWait       Category = "data_wait"       // data loading on the training thread
	Validation     Category = "validation"      //
	Testing        Category = "testing"         //
	Wait           Category = "wait"            // waiting for another rank, outside of iterations
	Stall          Category = "stall"           // an unfinished iteration beyond the usual time
	Downtime       Category = "downtime"        // from the time an attempt had certainly ended to the start of the next
	Unobserved     Category = "unobserved"      // after the last record or heartbeat: the attempt may have lived without records, or no later attempt is known
	Absent         Category = "absent"          // a rank before its first start or after its end, while the job runs
	Other          Category = "other"           // inside the application, not explained by any span
)

// The parts of a start: what a process did before training, outside of
// initialization spans. They divide time that would be [Other].
const (
	StartupInterpreter Category = "startup.interpreter" // until the first line of the program
	StartupImports     Category = "startup.imports"     // importing libraries
	StartupRendezvous  Category = "startup.rendezvous"  // waiting for the other processes
	StartupDevice      Category = "startup.device"      // opening a device
	StartupModel       Category = "startup.model"       // moving the model to its device
	StartupFirstBatch  Category = "startup.first_batch" // until the data loader returns the first batch
	StartupCompile     Category = "startup.compile"     // compilation before the first step
)

// startUpPrefix is the prefix of the categories of the parts of a start. The
// rest is the name of the part in a trace.
const startUpPrefix = "startup."

// startUps lists the parts of a start in order.
var startUps = []Category{StartupInterpreter, StartupImports, StartupRendezvous, StartupDevice, StartupModel, StartupFirstBatch, StartupCompile}

// customPrefix is the prefix of the categories of spans that are not standard ones.
const customPrefix = "custom."

// maxCustom limits the custom categories of one attempt. Further names share
// customRest: names that contain numbers must not exhaust the memory.
const maxCustom = 4096

// maxNamed limits the categories that are not fixed.
const maxNamed = maxCustom + 1 + 7 // customRest and the parts of a start

const customRest Category = customPrefix + "(more)"

// Categories returns the fixed categories in display order.
func Categories() []Category {
	return slices.Concat([]Category{Productive, LostWork, Warmup, Stall}, startUps, []Category{
		Init, CheckpointLoad, CheckpointSave, DataWait, Wait, Validation, Testing, Downtime, Unobserved, Absent, Other,
	})
}

// IsStartUp reports whether the category is a part of a start.
func (c Category) IsStartUp() bool { return strings.HasPrefix(string(c), startUpPrefix) }

// IsCustom reports whether the category belongs to a span that is not a standard one.
func (c Category) IsCustom() bool { return strings.HasPrefix(string(c), customPrefix) }

// Totals holds the nanoseconds of each category. Categories without time are
// left out.
type Totals map[Category]int64

// Sum returns the sum of all categories in nanoseconds.
func (t Totals) Sum() int64 {
	var sum int64
	for _, ns := range t {
		sum += ns
	}
	return sum
}

// ratio returns the productive fraction, or NaN if the sum is 0.
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

// kind is the meaning of a span for the ledger. Among concurrent leaves the one
// with the lowest kind wins: spans that block the training come before the
// iteration that they block, and prefetching in the background comes after it.
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
	kindMeeting // a collective outside of iterations
	kindData
	kindStartUp // a part of a start that no other kind describes
	kindOther   // application, loops, epochs
	kindCount

	// The kinds below count as their parent.
	kindCompute    // forward, backward, optimizer: part of the iteration
	kindCollective // part of the iteration
	kindDetail     // system calls, kernels: part of the enclosing span
)

// fixed holds the category of each kind below kindCount.
var fixed = [kindCount]Category{
	kindLoad: CheckpointLoad, kindInit: Init, kindSave: CheckpointSave, kindTesting: Testing,
	kindValidation: Validation, kindWarmup: Warmup, kindIteration: Productive, kindMeeting: Productive, kindData: DataWait, kindStartUp: Other, kindOther: Other,
}

// kindOf maps each class of spans to its kind.
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

// categories holds the categories of one process: the fixed ones, followed by the
// others in the order of their first use.
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

// custom returns the category of a span that is not a standard one. Names beyond
// maxCustom share customRest.
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

// startUp returns the category of a part of a start. An unknown part is other time.
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

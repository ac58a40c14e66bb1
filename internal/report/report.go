package report

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/machine"
	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// Version is the version of the JSON form. It changes when a field is removed or
// changes its meaning. New fields may be added at any time.
const Version = 1

// Report is the report of a job. Times are integer nanoseconds if the name ends in
// ns, and milliseconds if it ends in ms. Points in time count from the Unix epoch.
type Report struct {
	Version    int    `json:"version"`
	Name       string `json:"name,omitempty"`
	JobID      string `json:"job_id,omitempty"`
	SessionTag string `json:"session_tag,omitempty"`

	Verdict Verdict `json:"verdict"`

	// Outcome is how the last attempt ended, nil if that is not known. A failure of an earlier
	// attempt is not a failure of a run that continued.
	Outcome *job.Outcome `json:"outcome"`

	// Goodput is the fraction, from 0 to 1, of the rank time that is in kept steps. It is nil
	// if it is not known: the job took no time, or no step was recorded although there may
	// have been some. In a profile it is the fraction that is in its steps.
	Goodput *float64 `json:"goodput"`
	// Profile is how the steps were spent, if the records come from a profiler.
	Profile *Profile `json:"profile,omitempty"`
	// Shares divide the time of all ranks, or the steps of a profile: compute, communication,
	// waiting by the rank that was waited for, and everything that blocked training. Screens,
	// the page and comparisons show this list. It is empty if no step was recorded.
	Shares      []Share          `json:"shares"`
	Losses      []Loss           `json:"losses"` // all categories except productive, the largest first
	Ledger      *account.Report  `json:"ledger"` // see docs/explain/goodput.md
	Figures     []account.Figure `json:"figures"`
	Limits      *Limits          `json:"limits,omitempty"` // nil unless the operations of a step and the peak were given
	Attempts    []Attempt        `json:"attempts"`
	Ranks       []Rank           `json:"ranks"` // by rank
	Steps       Steps            `json:"steps"`
	Checkpoints []Checkpoint     `json:"checkpoints,omitempty"`
	MoreSaves   int64            `json:"more_saves,omitempty"` // saved checkpoints that are not in Checkpoints
	Slowest     []SlowSpan       `json:"slowest_spans,omitempty"`
	IO          *IO              `json:"io,omitempty"` // nil if no trace has file calls
	Quality     Quality          `json:"data_quality"`
	// Evidence describes unusual use of resources, if trainspan run sampled it.
	Evidence []string `json:"evidence,omitempty"`
	// GPUs is how busy each GPU was during the steps of the last attempt. The JSON has the first ones.
	GPUs []GPU `json:"gpus_in_steps,omitempty"`
	// BadLoss is where the loss of the last attempt became NaN or infinite, if it never
	// was a finite number again.
	BadLoss *BadLoss `json:"bad_loss,omitempty"`
	Series  *Series  `json:"series,omitempty"`
	// Code lists the longest interval between lines of the program in the steps of the last
	// attempt, one per rank, the longest first. Dataset is what its data loaders read. Both
	// need steps of PyTorch that trainspan run observed.
	Code    []OwnCode `json:"own_code,omitempty"`
	Dataset *Dataset  `json:"dataset,omitempty"`
	// Recompiled lists the compared steps in which the model was compiled again. The JSON has the first ones.
	Recompiled []Recompilation `json:"recompilations,omitempty"`
	// Injected lists the delays that trainspan run --inject added to the job. Their cost is
	// not a fault of the job.
	Injected []Injected `json:"injected,omitempty"`

	// Resources is the resource usage of each start, if trainspan run recorded it. The JSON has the first ones.
	Resources []Resource `json:"resources,omitempty"`

	imported    string // the imported frameworks that need changes in the program to be traced
	run         string // the run name that trainspan run gave
	running     int    // the number of the running attempt, set by [Live]
	sampledGPUs bool   // whether there are samples of GPUs

	compiling map[int]compileTime // by rank: the sums of Recompiled

	moment *moment // where the traces show the finding, set by [Build]
	said   []said  // the sentences of the verdict
	nextAt []place // by index in Verdict.Next: the part of the page
}

// Resource is the resource usage of one start of the command on one node.
type Resource struct {
	Host   string       `json:"host"`
	Rank   *int         `json:"rank,omitempty"`
	Start  int64        `json:"start_ns"`
	Stop   int64        `json:"stop_ns"`
	Cores  float64      `json:"cores"`                   // mean number of busy processors
	Memory int64        `json:"max_rss_bytes,omitempty"` // of the largest process
	CPU    *rundir.CPU  `json:"cpu,omitempty"`
	GPUs   []rundir.GPU `json:"gpus,omitempty"`
}

// BadLoss is the first recorded loss from which on all are NaN or infinite.
type BadLoss struct {
	Rank int    `json:"rank"`
	At   int64  `json:"at_ns"`
	Step *int64 `json:"step,omitempty"` // nil if not recorded
}

// Verdict is the summary of a report.
type Verdict struct {
	// Sentence is the whole summary: the time in steps, the largest loss, the slow rank and
	// its cause, what to do next, and the confidence.
	Sentence string `json:"sentence"`
	// Outcome is how the last attempt ended, in capitals: COMPLETED, RUNNING, STOPPED by
	// whom, FAILED with status and rank, KILLED, OUT OF MEMORY, HUNG, NOT STARTED, END
	// UNKNOWN; or PROFILE if the records come from a profiler.
	Outcome string `json:"outcome"`
	// Diagnosis is the problem that costs most. If fixing the steps gains enough it is SLOW
	// RANK, SLOW RANKS, IMBALANCE, INPUT, COMMUNICATION, DRIFT or HANG. Otherwise it is the
	// loss of more than a tenth of the time after the start: RECOMPILATION, CHECKPOINTS, LOST
	// WORK, DOWN, INPUT, WAIT, COMMUNICATION, OTHER CODE, EVALUATION, OTHER, and in a profile
	// also COPIES and IDLE DEVICE. Otherwise it is START-UP if the start takes a tenth of a run
	// of five minutes or more, or most of it is waiting for one rank. Otherwise it is NO
	// PROBLEM FOUND, or UNKNOWN if the records are not sufficient, for example because they
	// do not divide the steps.
	Diagnosis string `json:"diagnosis"`
	// Why is the reason for the diagnosis, in one or two sentences with numbers.
	Why string `json:"why"`
	// Proof is the table behind a Why that names ranks.
	Proof *finding.Proof `json:"proof,omitempty"`
	// Finding is the source of Diagnosis, Why and Proof. It is nil if nothing costs enough, or
	// if the records are not sufficient.
	Finding *finding.Finding `json:"finding,omitempty"`
	// NotKnown lists what the records do not show.
	NotKnown []string `json:"not_known,omitempty"`
	// Rank is the finding about ranks, from the attempt in which it costs most.
	Rank *straggler.Verdict `json:"straggler,omitempty"`
	// Attempt is the attempt of Rank.
	Attempt int `json:"straggler_attempt,omitempty"`
	// Machine is what the samples of trainspan run show about the late ranks, and about
	// hosts on which all ranks wait for processors.
	Machine *machine.Finding `json:"machine,omitempty"`
	// RankCost is the share of the run that the repair of the finding in Rank saves.
	RankCost float64 `json:"straggler_cost,omitempty"`
	// Across lists findings that recur in several attempts, the most frequent first.
	Across []straggler.Recurrence `json:"straggler_across,omitempty"`
	// Next lists actions, the one with the largest gain first.
	Next []string `json:"next,omitempty"`
	// Confidence is high, medium or low. It depends on the quality of the records.
	Confidence string `json:"confidence"`
	// Doubts lists the reasons why Confidence is not high.
	Doubts []string `json:"doubts,omitempty"`

	kind finding.Kind // the kind of Diagnosis
}

// Loss is time that did not train the model.
type Loss struct {
	Category account.Category `json:"category"`
	Time     int64            `json:"time_ns"` // summed over ranks
	Share    float64          `json:"share"`   // fraction of the time of all ranks
}

// Attempt is one attempt of the job.
type Attempt struct {
	Number    int                `json:"attempt"`
	Start     int64              `json:"start_ns"`
	Stop      int64              `json:"stop_ns"`                  // the end, or the last record or heartbeat
	Latest    int64              `json:"stop_latest_ns,omitempty"` // the time until which it may have lived without records
	Ended     bool               `json:"ended"`                    // every rank ended properly
	Outcome   *job.Outcome       `json:"outcome"`                  // how its command ended, null if unknown
	Running   bool               `json:"running,omitempty"`        // see [Live]
	Silent    bool               `json:"silent,omitempty"`         // it ended without records: Number may be 0, and Ranks is the number of its starts
	Ranks     int                `json:"ranks"`
	FirstStep int64              `json:"first_step"` // -1 if no step was recorded
	LastStep  int64              `json:"last_step"`
	Goodput   *float64           `json:"goodput"` // nil if the goodput of the job is nil
	Straggler *straggler.Verdict `json:"straggler,omitempty"`
}

// End returns how the attempt ended, in words.
func (a *Attempt) End() string {
	text := "no proper end"
	switch {
	case a.Outcome != nil && a.Outcome.How == job.Hung:
		text = a.Outcome.Text
	case a.Running:
		text = "running"
	case a.Outcome != nil:
		text = a.Outcome.Text
	case a.Ended:
		text = "ended"
	}
	if a.Silent {
		text += ", nothing recorded"
	}
	return text
}

// Rank is one rank of the job. Own, Excess and Wait are medians over the steps of the
// attempt of the verdict, and Last is a share of them. They are absent, and Compared
// is false, if the ranks could not be compared.
type Rank struct {
	Rank     int      `json:"rank"`
	Host     string   `json:"host,omitempty"`
	Goodput  *float64 `json:"goodput"` // nil if the goodput of the job is nil
	Compared bool     `json:"compared"`
	Own      float64  `json:"own_ms,omitempty"`    // its own compute time in a step
	Excess   float64  `json:"excess_ms,omitempty"` // own time beyond that of the other ranks
	Wait     float64  `json:"wait_ms,omitempty"`   // waiting for other ranks
	Last     float64  `json:"last_share,omitempty"`
	// PID and File identify the process if no record has its rank.
	PID    int64              `json:"pid,omitempty"`
	File   string             `json:"file,omitempty"`
	Phases map[string]float64 `json:"phases_ms,omitempty"`
}

// Steps summarizes the training steps of all attempts. Times cover only the compared
// steps, which exclude the first step and the slow start of each attempt, and steps
// that too few ranks recorded.
type Steps struct {
	// Rule describes the spans that define the steps. It is empty without steps; several rules are joined by ", ".
	Rule     string `json:"rule,omitempty"`
	Count    int    `json:"count"`    // of the rank with the most steps, as counted by trainspan trace steps
	Compared int    `json:"compared"` // the number of compared steps
	// Updates is the number of optimizer steps: less than Count if each batch of an update is a step. It is absent
	// if no optimizer step was recorded, and in a report of digests.
	Updates int `json:"updates,omitempty"`
	// MicroBatches is the number of forward and backward passes per update. It is absent if it is 1 or varies.
	MicroBatches int     `json:"micro_batches,omitempty"`
	Median       float64 `json:"median_ms"`
	P99          float64 `json:"p99_ms"`
	Max          float64 `json:"max_ms"`
	MaxAt        int64   `json:"max_step"`
	// Trend is the median of the last quarter divided by the median of the first, minus 1. It is null if a quarter
	// has fewer than ten steps, or windows of steps.
	Trend *float64 `json:"trend"`
	// Phases holds the time of each phase, mean over ranks and steps, in ms.
	Phases map[string]float64 `json:"phases_ms,omitempty"`
	// Wait and Transfer divide the time in collectives, mean over ranks and steps.
	// Together with Phases they add up to the step. They are nil if no collective was
	// recorded.
	Wait     *float64 `json:"wait_ms,omitempty"`
	Transfer *float64 `json:"transfer_ms,omitempty"`
	// Device is set if the phases are those of devices. The phases input, transfer,
	// checkpoint and host are then times in which the devices were idle.
	Device bool `json:"device,omitempty"`

	// long is the number of steps that took more than longTimes the median, and typical the mean parts of the
	// others: phases, partWait and communication. It is nil if there are no long ones, or if they are many.
	long    int
	typical map[string]float64
	// few holds, by phase, the steps that have most of its time, if these are few.
	few map[string]*finding.Evidence
}

// MarshalJSON implements [json.Marshaler]. The times of steps are null if no steps
// were compared.
func (s Steps) MarshalJSON() ([]byte, error) {
	type plain Steps
	if s.Compared > 0 {
		return json.Marshal(plain(s))
	}
	return json.Marshal(struct {
		plain
		Median *float64 `json:"median_ms"`
		P99    *float64 `json:"p99_ms"`
		Max    *float64 `json:"max_ms"`
		MaxAt  *int64   `json:"max_step"`
	}{plain: plain(s)})
}

// Checkpoint is one checkpoint that was saved or loaded, by all ranks that did or, if Failed,
// by those that could not.
type Checkpoint struct {
	Attempt    int   `json:"attempt"`
	Step       int64 `json:"step"` // -1 if not recorded
	Load       bool  `json:"load,omitempty"`
	Failed     bool  `json:"failed,omitempty"` // it was not saved or loaded completely
	Start      int64 `json:"start_ns"`         // of the first rank
	Blocking   int64 `json:"blocking_ns"`      // of the rank that it blocked longest
	Slowest    int   `json:"slowest_rank"`     // the rank that it blocked longest
	Background int64 `json:"background_ns"`    // concurrent with the training, of the slowest rank
}

// SlowSpan is a span that took much longer than others of its name.
type SlowSpan struct {
	Name     string `json:"name"`
	Rank     int    `json:"rank"`
	Attempt  int    `json:"attempt"`
	Step     int64  `json:"step"` // -1 if not recorded
	Start    int64  `json:"start_ns"`
	Duration int64  `json:"duration_ns"`
	Usual    int64  `json:"usual_ns"` // the mean of the spans with its name
	Alike    int    `json:"alike"`    // the number of similar spans of other ranks at the same step or second
}

// IO sums up the recorded file calls of all processes of the job, which DFTracer
// intercepted or package integrations/iofs recorded.
type IO struct {
	Files   int          `json:"files"`
	Read    job.Transfer `json:"read"`
	Written job.Transfer `json:"written"`
	Other   job.Transfer `json:"other"` // open64, stat, lseek64 and similar calls
	Failed  int64        `json:"failed_calls"`
	// Slowest lists the files that took the most time.
	Slowest []FileIO `json:"slowest_files"`
}

// FileIO sums up the calls on one file.
type FileIO struct {
	Path    string       `json:"path"`
	Read    job.Transfer `json:"read"`
	Written job.Transfer `json:"written"`
	Other   job.Transfer `json:"other"`
	Failed  int64        `json:"failed_calls,omitempty"`
}

// Quality describes the quality of the records.
type Quality struct {
	Files    int      `json:"files"`
	Spans    int64    `json:"spans"`
	Helpers  int      `json:"helper_processes"`
	Foreign  int      `json:"foreign_files"` // files that are not telemetry, such as checkpoints
	Skipped  []string `json:"skipped_files,omitempty"`
	BadLines int      `json:"bad_lines"`
	Torn     int      `json:"torn_files"`
	Dropped  int64    `json:"spans_dropped"`
	Waiting  int64    `json:"spans_waiting,omitempty"` // still in shared-memory buffers; trainspan trace import reads them
	// Aside counts records with impossible times. BadNumbers counts impossible ranks,
	// world sizes and attempts. Relative counts processes whose clock starts at a time
	// that is not recorded.
	Aside      int64 `json:"records_set_aside,omitempty"`
	BadNumbers int   `json:"bad_numbers,omitempty"`
	Relative   int   `json:"relative_clocks,omitempty"`
	// Disagree counts the processes with contradictory records of their rank, world size
	// or attempt. DisagreeOn is the one of these in which the first process disagrees.
	Disagree   int    `json:"identities_disagree,omitempty"`
	DisagreeOn string `json:"identities_disagree_on,omitempty"`
	// RanksInvented is set if some of several processes have no recorded rank: they are
	// numbered by their start.
	RanksInvented bool `json:"ranks_invented,omitempty"`
	// NotRecorded names what the Python client could not record in some process, and why.
	NotRecorded []string `json:"not_recorded,omitempty"`
	// OtherSignals counts lines of OTLP log records and metrics, which were left out.
	OtherSignals int64 `json:"other_signals,omitempty"`
	// Missing describes ranks whose files are missing, in words.
	Missing []string `json:"missing_files,omitempty"`
	Remarks []string `json:"remarks,omitempty"`
	See     []string `json:"see,omitempty"` // sections of the documentation about the remarks and about missing evidence
}

// Limits is the model FLOPs utilization (MFU) of a job, and the MFU without each loss. It
// is computed from the given operations of a step and peak of a device ([Job.Basis]), for
// the kept steps over the whole time of the run. In a profile it is computed for the
// recorded steps over their time.
type Limits struct {
	FLOPsPerStep float64 `json:"flops_per_step"` // of all ranks
	Peak         float64 `json:"peak_flops"`     // of one device, per second
	Devices      int     `json:"devices"`
	MFU          float64 `json:"mfu"`
	// Without holds the MFU without each loss, the largest first. Losses can overlap, for
	// example a slow rank and lost steps, so their gains do not multiply.
	Without []Without `json:"without"`
}

// Without is the MFU without one loss.
type Without struct {
	Loss  string  `json:"loss"`
	Share float64 `json:"share"` // fraction of the time
	MFU   float64 `json:"mfu"`
}

// Profile is how the steps that a profiler recorded were spent. A profile covers only
// a window of the job, so it has no goodput of the whole job.
type Profile struct {
	// Device is set if devices were recorded. Otherwise all times are those of the host.
	Device bool `json:"device"`
	// Steps is the number of finished steps, summed over ranks, and Time is their total
	// length.
	Steps int   `json:"steps"`
	Time  int64 `json:"time_ns"`
	// Parts add up to Time: compute, exposed_communication, copies, input, idle. See
	// package profile.
	Parts map[string]int64 `json:"parts_ns"`
	// Communication is the time with communication, hidden or exposed. Hidden is the
	// share of it that overlaps compute, nil without communication.
	Communication int64    `json:"communication_ns"`
	Hidden        *float64 `json:"hidden_share,omitempty"`
	// Window is the length of the profile, and Busy the share of it in which work was
	// recorded.
	Window    int64              `json:"window_ns"`
	Busy      *float64           `json:"busy_share"` // nil if no work was recorded
	Operators []profile.Operator `json:"operators"`  // those that took longest
	Ranks     []ProfileRank      `json:"ranks"`      // by rank
}

// ProfileRank is how one rank spent its steps.
type ProfileRank struct {
	Rank   int              `json:"rank"`
	Steps  int              `json:"steps"`
	Time   int64            `json:"time_ns"`
	Parts  map[string]int64 `json:"parts_ns"`
	Hidden *float64         `json:"hidden_share,omitempty"`
}

// place is a part of the page that a sentence is about.
type place int

const (
	placeNone   place = iota
	placeTime         // where the time went
	placeStarts       // attempts, how each ended, and what each cost
	placeSteps
	placeRanks
	placeWaits
	placeTransfers
	placeSaves
	placeData
)

// said is a sentence and the part of the page that it is about.
type said struct {
	text string
	at   place
}

// compared returns the ranks that could be compared, the largest excess first.
func (r *Report) compared() (list []*Rank) {
	for i := range r.Ranks {
		if r.Ranks[i].Compared {
			list = append(list, &r.Ranks[i])
		}
	}
	slices.SortStableFunc(list, func(a, b *Rank) int { return cmp.Compare(b.Excess, a.Excess) })
	return list
}

// cells returns the table row of the rank: its number, the times of its steps, more, and its
// host.
func (k *Rank) cells(indent string, more ...string) []string {
	row := []string{indent + strconv.Itoa(k.Rank), display.Milliseconds(k.Own), display.Milliseconds(k.Excess), display.Milliseconds(k.Wait)}
	return append(append(row, more...), display.Text(k.Host))
}

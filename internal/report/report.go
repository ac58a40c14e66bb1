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

// Version is that of the JSON form. It changes when a field changes its meaning
// or goes; new fields may come at any time.
const Version = 1

// Report is what can be said of a job. Times are integer nanoseconds where the
// name ends in ns, and milliseconds where it ends in ms; moments are counted
// from the Unix epoch.
type Report struct {
	Version    int    `json:"version"`
	Name       string `json:"name,omitempty"`
	JobID      string `json:"job_id,omitempty"`
	SessionTag string `json:"session_tag,omitempty"`

	Verdict Verdict `json:"verdict"`

	// Outcome is how the last attempt ended, nil where nobody saw that: an earlier one that
	// failed is no failure of a run that went on.
	Outcome *job.Outcome `json:"outcome"`

	// Goodput is the part of the rank time that is in steps that count, 0 to 1; nil when
	// that is not known: there was no time at all, or no step is on record and nothing
	// says that there was none. Of a profile it is the part that lies in its steps.
	Goodput *float64 `json:"goodput"`
	// Profile is how the steps were spent, where the records are those of a profiler.
	Profile *Profile `json:"profile,omitempty"`
	// Shares divide the time of all ranks, of a profile that of its steps: compute,
	// communication, waiting by the rank that was waited for, what held up training. Screens,
	// the page and comparisons show this list. Empty where no step is on record.
	Shares      []Share          `json:"shares"`
	Losses      []Loss           `json:"losses"` // all categories but productive, the largest first
	Ledger      *account.Report  `json:"ledger"` // docs/explain/goodput.md
	Figures     []account.Figure `json:"figures"`
	Limits      *Limits          `json:"limits,omitempty"` // where operations and peak were given
	Attempts    []Attempt        `json:"attempts"`
	Ranks       []Rank           `json:"ranks"` // by rank
	Steps       Steps            `json:"steps"`
	Checkpoints []Checkpoint     `json:"checkpoints,omitempty"`
	Slowest     []SlowSpan       `json:"slowest_spans,omitempty"`
	IO          *IO              `json:"io,omitempty"` // nil where no trace has calls on files
	Quality     Quality          `json:"data_quality"`
	// Evidence is what stands out in the use of resources, where trainspan run
	// sampled it, in words.
	Evidence []string `json:"evidence,omitempty"`
	// BadLoss is where the loss of the last attempt stopped being a finite number, if it
	// never was one again.
	BadLoss *BadLoss `json:"bad_loss,omitempty"`
	Series  *Series  `json:"series,omitempty"`
	// Code are the lines of the program between which the steps of the last attempt spend
	// long, the longest of each rank, and Dataset is what its data loaders read; where
	// trainspan run saw a step of PyTorch. The longest comes first.
	Code    []OwnCode `json:"own_code,omitempty"`
	Dataset *Dataset  `json:"dataset,omitempty"`
	// Injected are the delays that trainspan run --inject has put into the job: what they
	// cost is no fault of it.
	Injected []Injected `json:"injected,omitempty"`

	// Resources is what each start used, where trainspan run saw it.
	Resources []Resource `json:"resources,omitempty"`

	imported string  // the frameworks that were imported and need lines in the program
	run      string  // its name among those of trainspan run
	running  int     // the number of the attempt, in [Live]
	moment   *moment // where the traces show the finding, in [Build]
	said     []said  // the sentences of the verdict
	nextAt   []place // what each of its actions is about
}

// Resource is what one start of the command used, on one node.
type Resource struct {
	Host   string       `json:"host"`
	Rank   *int         `json:"rank,omitempty"`
	Start  int64        `json:"start_ns"`
	Stop   int64        `json:"stop_ns"`
	Cores  float64      `json:"cores"`                   // processors that were busy, on the average
	Memory int64        `json:"max_rss_bytes,omitempty"` // of the largest process
	CPU    *rundir.CPU  `json:"cpu,omitempty"`
	GPUs   []rundir.GPU `json:"gpus,omitempty"`
}

// BadLoss is the first loss on record after which all are NaN or infinite.
type BadLoss struct {
	Rank int    `json:"rank"`
	At   int64  `json:"at_ns"`
	Step *int64 `json:"step,omitempty"` // nil without a number
}

// Verdict is the answer in short.
type Verdict struct {
	// Sentence says it all: the time in steps, the largest loss, the slow rank and its
	// cause, what to do next and how sure this is.
	Sentence string `json:"sentence"`
	// Outcome is how the last attempt ended, in capitals: COMPLETED, RUNNING, STOPPED by
	// whom, FAILED with status and rank, KILLED, OUT OF MEMORY, HUNG, NOT STARTED, END
	// UNKNOWN; PROFILE where the records are those of a profiler.
	Outcome string `json:"outcome"`
	// Diagnosis is what costs most: SLOW RANK, SLOW RANKS, IMBALANCE, INPUT, COMMUNICATION,
	// DRIFT or HANG where a repair of the steps gains enough; else the loss that is more than
	// a tenth of the time: START-UP, CHECKPOINTS, LOST WORK, DOWN, INPUT, WAIT, COMMUNICATION,
	// OTHER CODE, EVALUATION, OTHER (of a profile COPIES and IDLE DEVICE too); else NO PROBLEM
	// FOUND, or UNKNOWN where the records do not say, as where steps are not divided.
	Diagnosis string `json:"diagnosis"`
	// Why is the reason for it, in one or two sentences with their numbers.
	Why string `json:"why"`
	// Proof is the table behind a Why that names ranks.
	Proof *finding.Proof `json:"proof,omitempty"`
	// Finding is what Diagnosis, Why and Proof are made of; nil where nothing costs enough, or the
	// records do not say.
	Finding *finding.Finding `json:"finding,omitempty"`
	// NotKnown is what the records do not say.
	NotKnown []string `json:"not_known,omitempty"`
	// Rank is the finding about ranks, of the attempt that it costs most.
	Rank *straggler.Verdict `json:"straggler,omitempty"`
	// Attempt is the one that Rank is about.
	Attempt int `json:"straggler_attempt,omitempty"`
	// Machine is what the samples of trainspan run show about the ranks that are late, and
	// about hosts on which all ranks wait for processors.
	Machine *machine.Finding `json:"machine,omitempty"`
	// RankCost is the share of all rank time that the finding costs.
	RankCost float64 `json:"straggler_cost,omitempty"`
	// Across is what comes back in several attempts, the most frequent first.
	Across []straggler.Recurrence `json:"straggler_across,omitempty"`
	// Next are actions, the one that gains most first.
	Next []string `json:"next,omitempty"`
	// Confidence is high, medium or low: how far the records can be trusted.
	Confidence string `json:"confidence"`
	// Doubts are the reasons why Confidence is not high.
	Doubts []string `json:"doubts,omitempty"`

	kind finding.Kind // that of Diagnosis
}

// Loss is time that did not train the model.
type Loss struct {
	Category account.Category `json:"category"`
	Time     int64            `json:"time_ns"` // of all ranks together
	Share    float64          `json:"share"`   // of the time of all ranks
}

// Attempt is one attempt of the job.
type Attempt struct {
	Number    int                `json:"attempt"`
	Start     int64              `json:"start_ns"`
	Stop      int64              `json:"stop_ns"`                  // the end or the last sign of life
	Latest    int64              `json:"stop_latest_ns,omitempty"` // until when it may have lived without records
	Ended     bool               `json:"ended"`                    // properly, on every rank
	Outcome   *job.Outcome       `json:"outcome"`                  // how its command ended, null where that is not known
	Running   bool               `json:"running,omitempty"`        // see [Live]
	Silent    bool               `json:"silent,omitempty"`         // it ended before anything of it was recorded: Number may be 0, Ranks are its starts
	Ranks     int                `json:"ranks"`
	FirstStep int64              `json:"first_step"` // -1 when no step was recorded
	LastStep  int64              `json:"last_step"`
	Goodput   *float64           `json:"goodput"` // nil where that of the job is
	Straggler *straggler.Verdict `json:"straggler,omitempty"`
}

// End says in words how it ended.
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

// Rank is one rank. Own, Excess, Wait and Last are medians over the steps of the
// attempt that the verdict is about; they are absent (Compared false) when
// ranks could not be compared.
type Rank struct {
	Rank     int      `json:"rank"`
	Host     string   `json:"host,omitempty"`
	Goodput  *float64 `json:"goodput"` // nil where that of the job is
	Compared bool     `json:"compared"`
	Own      float64  `json:"own_ms,omitempty"`    // work of its own in a step
	Excess   float64  `json:"excess_ms,omitempty"` // beyond that of the other ranks
	Wait     float64  `json:"wait_ms,omitempty"`   // for other ranks
	Last     float64  `json:"last_share,omitempty"`
	// PID and File say which process it is, where no record has its rank.
	PID    int64              `json:"pid,omitempty"`
	File   string             `json:"file,omitempty"`
	Phases map[string]float64 `json:"phases_ms,omitempty"`
}

// Steps are the training steps, all attempts together. What is said of their times
// is of those that were compared: without the first of each attempt, its slow
// start, and those that too few ranks recorded.
type Steps struct {
	// Rule says in words by which spans the steps are known; empty without any, several with ", " between them.
	Rule     string `json:"rule,omitempty"`
	Count    int    `json:"count"`    // of the rank with the most, as trainspan trace steps has them
	Compared int    `json:"compared"` // of these
	// Updates is how many steps have one of an optimizer: fewer than Count where each batch of an update is a
	// step. Absent where no step of an optimizer is on record, and in a report of digests.
	Updates int `json:"updates,omitempty"`
	// MicroBatches is of how many passes of forward and backward an update is, absent for one and where it changes.
	MicroBatches int     `json:"micro_batches,omitempty"`
	Median       float64 `json:"median_ms"`
	P99          float64 `json:"p99_ms"`
	Max          float64 `json:"max_ms"`
	MaxAt        int64   `json:"max_step"`
	// Trend is the median of the last quarter over that of the first, less 1.
	Trend float64 `json:"trend"`
	// Phases are the mean over ranks and steps, in ms.
	Phases map[string]float64 `json:"phases_ms,omitempty"`
	// Wait and Transfer split the time in collectives, mean over ranks and
	// steps: with Phases they add up to the step. Nil where none was recorded.
	Wait     *float64 `json:"wait_ms,omitempty"`
	Transfer *float64 `json:"transfer_ms,omitempty"`
	// Device says that the phases are those of devices; input, transfer,
	// checkpoint and host are when these had nothing to do.
	Device bool `json:"device,omitempty"`
}

// MarshalJSON implements [json.Marshaler]: what is said of steps is null where none
// was compared.
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
		Trend  *float64 `json:"trend"`
	}{plain: plain(s)})
}

// Checkpoint is one checkpoint that was saved or loaded, by all ranks.
type Checkpoint struct {
	Attempt    int   `json:"attempt"`
	Step       int64 `json:"step"` // -1 when it is not recorded
	Load       bool  `json:"load,omitempty"`
	Start      int64 `json:"start_ns"`      // of the first rank
	Blocking   int64 `json:"blocking_ns"`   // of the rank that it held up longest
	Slowest    int   `json:"slowest_rank"`  // which
	Background int64 `json:"background_ns"` // behind the training, of the slowest rank
}

// SlowSpan is a span that took much longer than others of its name.
type SlowSpan struct {
	Name     string `json:"name"`
	Rank     int    `json:"rank"`
	Attempt  int    `json:"attempt"`
	Step     int64  `json:"step"` // -1 when it is not recorded
	Start    int64  `json:"start_ns"`
	Duration int64  `json:"duration_ns"`
	Usual    int64  `json:"usual_ns"` // the mean of its name
	Alike    int    `json:"alike"`    // such spans of other ranks at the same step or second
}

// IO is what all processes of the job did with files, as far as their traces
// have it: calls that DFTracer intercepted, or that package integrations/iofs
// recorded.
type IO struct {
	Files   int          `json:"files"`
	Read    job.Transfer `json:"read"`
	Written job.Transfer `json:"written"`
	Other   job.Transfer `json:"other"` // open64, stat, lseek64 and their kind
	Failed  int64        `json:"failed_calls"`
	// Slowest are the files that most time was spent on.
	Slowest []FileIO `json:"slowest_files"`
}

// FileIO is what was done with one file.
type FileIO struct {
	Path    string       `json:"path"`
	Read    job.Transfer `json:"read"`
	Written job.Transfer `json:"written"`
	Other   job.Transfer `json:"other"`
	Failed  int64        `json:"failed_calls,omitempty"`
}

// Quality is what is known of the records themselves.
type Quality struct {
	Files    int      `json:"files"`
	Spans    int64    `json:"spans"`
	Helpers  int      `json:"helper_processes"`
	Foreign  int      `json:"foreign_files"` // that are no telemetry, such as checkpoints
	Skipped  []string `json:"skipped_files,omitempty"`
	BadLines int      `json:"bad_lines"`
	Torn     int      `json:"torn_files"`
	Dropped  int64    `json:"spans_dropped"`
	Waiting  int64    `json:"spans_waiting,omitempty"` // in rings, for trainspan trace import
	// Aside counts records with times that cannot be, BadNumbers ranks, world
	// sizes and attempts that cannot, and Relative the processes whose clock
	// counts from something that their files do not say.
	Aside      int64 `json:"records_set_aside,omitempty"`
	BadNumbers int   `json:"bad_numbers,omitempty"`
	Relative   int   `json:"relative_clocks,omitempty"`
	// Disagree counts the processes whose rank, world size or attempt is recorded in
	// two ways, and DisagreeOn is which of these the first one is about.
	Disagree   int    `json:"identities_disagree,omitempty"`
	DisagreeOn string `json:"identities_disagree_on,omitempty"`
	// RanksInvented says that no record has the ranks of some of several processes: they
	// are numbered by start.
	RanksInvented bool `json:"ranks_invented,omitempty"`
	// OtherSignals counts lines of OTLP log records and metrics, which were left out.
	OtherSignals int64    `json:"other_signals,omitempty"`
	Late         int64    `json:"late_spans,omitempty"` // too far from the order of time to be of any step
	Remarks      []string `json:"remarks,omitempty"`
	See          []string `json:"see,omitempty"` // sections of the documentation about these, and about missing evidence
}

// Limits is how much of what its devices can do a job used, by the operations of a step
// and the peak of a device that were given ([Job.Basis]), and what it would be without
// each loss. Kept steps count, over the whole time of the run; of a profile those that
// were recorded, over their time.
type Limits struct {
	FLOPsPerStep float64 `json:"flops_per_step"` // of all ranks
	Peak         float64 `json:"peak_flops"`     // of a device, in a second
	Devices      int     `json:"devices"`
	MFU          float64 `json:"mfu"`
	// Without each of these it would be more, most first. Losses can overlap, as a slow
	// rank and the steps that were lost do, so that they do not multiply.
	Without []Without `json:"without"`
}

// Without is a loss, and the MFU without it.
type Without struct {
	Loss  string  `json:"loss"`
	Share float64 `json:"share"` // of the time
	MFU   float64 `json:"mfu"`
}

// Profile is how the steps were spent that a profiler recorded. A window of steps
// says nothing of the job around it, so that there is no goodput to speak of.
type Profile struct {
	// Device says that devices were recorded; otherwise all is the host's.
	Device bool `json:"device"`
	// Steps is how many have an end, those of each rank counted, and Time how long
	// they took together.
	Steps int   `json:"steps"`
	Time  int64 `json:"time_ns"`
	// Parts add up to Time: compute, exposed_communication, copies, input, idle. See
	// package profile.
	Parts map[string]int64 `json:"parts_ns"`
	// Communication is how long there was some, hidden or not, and Hidden the share
	// of it that ran beside computing, nil without any.
	Communication int64    `json:"communication_ns"`
	Hidden        *float64 `json:"hidden_share,omitempty"`
	// Window is what the profiler saw, Busy the share of it in which something
	// worked.
	Window    int64              `json:"window_ns"`
	Busy      *float64           `json:"busy_share"` // nil where nothing says what was work
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

// said is a sentence and what it is about.
type said struct {
	text string
	at   place
}

// compared are the ranks that could be compared, the largest excess first.
func (r *Report) compared() (list []*Rank) {
	for i := range r.Ranks {
		if r.Ranks[i].Compared {
			list = append(list, &r.Ranks[i])
		}
	}
	slices.SortStableFunc(list, func(a, b *Rank) int { return cmp.Compare(b.Excess, a.Excess) })
	return list
}

// cells are those of a row about the rank: its number, what its steps are made of, more, its
// host.
func (k *Rank) cells(indent string, more ...string) []string {
	row := []string{indent + strconv.Itoa(k.Rank), display.Milliseconds(k.Own), display.Milliseconds(k.Excess), display.Milliseconds(k.Wait)}
	return append(append(row, more...), display.Text(k.Host))
}

package mlgoodput

import "errors"

// Kind is the kind of a record.
type Kind string

// The kinds, as the recorder of that package writes them.
const (
	JobStart          Kind = "job_start"
	JobEnd            Kind = "job_end"
	InitStart         Kind = "tpu_init_start"
	InitEnd           Kind = "tpu_init_end"
	PrepStart         Kind = "training_prep_start"
	PrepEnd           Kind = "training_prep_end"
	LoadStart         Kind = "data_loading_start"
	LoadEnd           Kind = "data_loading_end"
	StepStart         Kind = "step_start"
	CustomStart       Kind = "custom_start"
	CustomEnd         Kind = "custom_end"
	CheckpointSave    Kind = "checkpoint_save"
	CheckpointRestore Kind = "checkpoint_restore"
	WaitStart         Kind = "elastic_wait_start"
	WaitEnd           Kind = "elastic_wait_end"
	ReinitStart       Kind = "elastic_reinit_start"
	ReinitEnd         Kind = "elastic_reinit_end"
)

// Record is one record. Times are seconds.
type Record struct {
	Kind      Kind
	Time      float64 // what the record says
	Logged    float64 // when it reached the log
	Step      int64
	Type      string  // of a custom event or a wait
	Duration  float64 // of a save, the part that blocked, or of a restore
	Directory string
}

// The buckets of lost time.
const (
	Init          = "TPU_INITIALIZATION"
	Prep          = "TRAINING_PREP"
	Startup       = "PROGRAM_STARTUP"
	SyncLoad      = "DATA_LOADING_SYNC"
	AsyncLoad     = "DATA_LOADING_ASYNC" // not in the sum
	Save          = "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME"
	Restore       = "UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME"
	Wasted        = "WASTED_PROGRESS_FROM_DISRUPTION"
	Recovery      = "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION"
	Other         = "OTHER"
	SliceDown     = "ELASTIC_SLICE_DOWN"
	ScaleUp       = "ELASTIC_SCALE_UP"
	Reinit        = "ELASTIC_REINITIALIZATION"
	retentionDays = 7
	secondsPerDay = 86400
	shortestStep  = 1.0 // seconds; shorter steps have no ideal time there
	outlierFactor = 3
	percent       = 100
)

// Answer is what the package says.
type Answer struct {
	Goodput     float64            // percent
	Total       float64            // seconds
	Productive  float64            // seconds
	Badput      map[string]float64 // seconds by bucket
	Custom      map[string]float64 // seconds by type, in upper case
	LastStep    int64
	Disruptions int

	// Ideal is the ideal step time in seconds, 0 without one; Deviations are
	// those of each step from it.
	Ideal      float64
	Deviations map[int64]float64
}

// Percent is a bucket as the package shows it: a bucket that fills all of the
// time shows as 0 there.
func (a *Answer) Percent(seconds float64) float64 {
	if seconds > 0 && seconds < a.Total {
		return percent * seconds / a.Total
	}
	return 0
}

// SumPercent is goodput and all buckets. 100 is right; above 100 something was
// counted twice.
func (a *Answer) SumPercent() float64 {
	sum := a.Goodput
	for name, s := range a.Badput {
		if name != AsyncLoad {
			sum += a.Percent(s)
		}
	}
	for _, s := range a.Custom {
		sum += a.Percent(s)
	}
	return sum
}

// The errors with which the package answers.
var (
	ErrNoTime     = errors.New("mlgoodput: the total time of the job is zero")
	ErrProductive = errors.New("mlgoodput: productive time is below zero or above the total")
	ErrNoEntries  = errors.New("mlgoodput: no records in the window")
)

// Faults names what the figures leave out or count twice, to be shown beside
// them.
func Faults() []string {
	return []string{
		"A resume that repeats no step is no disruption: downtime, initialization and restore become productive time.",
		"Data loading after the first load of an attempt is called asynchronous and counts as productive.",
		"The end of an earlier attempt ends the job: its total stops there, its productive time goes on.",
		"A step lasts until the next one starts; what lies after the last step is productive.",
		"Going back behind the first step of an attempt is not seen, and steps count twice.",
		"A restart at step 0 wastes nothing.",
		"Restoring a checkpoint counts in training preparation and again as restore.",
		"Recovery begins at the last step's start, and contains the unfinished step, a hang, and the initialization of attempts that died early.",
		"Saves of one step are averaged, and those in lost steps are subtracted from productive time as well.",
		"Overlapping events of two types are both subtracted; an event that is not wholly between two steps vanishes.",
		"A window lasts from its first to its last record, and one without records is an error.",
		"Records count in the order in which they arrived, not by their time.",
		"Only the last seven days are read: an older job has lost its start.",
		"The bucket OTHER is cut off at 0, which hides what was counted twice.",
	}
}

// Package helptopic names the sections of docs/guide/troubleshooting.md by the
// command that prints them, because an installed binary comes without this
// file. A log record has such a name as its attribute "see"; a message of the
// command ends with one:
//
//	log.Warn("the rank of this process is not known", "see", helptopic.RankUnknown)
//	a.problem("%s: cut off at byte %d; see "+helptopic.Damaged, path, at)
//
// Names are constants, so that they cost nothing. People search for them and
// link to them: do not change a heading.
package helptopic

const page = "trainspan help "

// Recording.
const (
	NothingRecorded = page + "nothing-is-recorded"
	Start           = page + "telemetry-does-not-start"
	Variable        = page + "a-variable-has-no-effect"
	Scopes          = page + "scopes-of-the-ai-tree-are-missing"
	RankUnknown     = page + "the-rank-is-unknown"
	TracePerRank    = page + "every-rank-has-a-trace-of-its-own"
	Undescribed     = page + "the-process-is-not-described-in-full"
)

// Calls.
const (
	Refused    = page + "a-call-is-refused"
	AfterEnd   = page + "a-span-is-started-after-the-end"
	Parent     = page + "a-span-has-another-parent-than-expected"
	EndedTwice = page + "a-span-is-ended-twice"
	Attributes = page + "a-span-has-too-many-attributes"
	Checkpoint = page + "a-checkpoint-is-not-known"
	Panics     = page + "code-that-telemetry-calls-panics"
)

// Outputs.
const (
	OutputFails = page + "an-output-fails"
	Behind      = page + "an-output-does-not-keep-up"
	File        = page + "a-file-cannot-be-written"
	Delivery    = page + "data-does-not-arrive-at-the-backend"
	Metrics     = page + "metrics-are-missing"
	Collector   = page + "the-collector-closes-or-shares-trace-files"
)

// The command.
const (
	Damaged     = page + "a-trace-is-damaged-or-cut-off"
	NotATrace   = page + "a-file-is-not-a-trace"
	InUse       = page + "a-file-is-in-use"
	NoTraining  = page + "no-training-is-found"
	SeveralJobs = page + "several-jobs-are-in-one-directory"
	Profile     = page + "a-profile-is-not-imported"
	Browser     = page + "perfetto-shows-nothing"
)

// Jobs in other languages, and trainspan run.
const (
	Python      = page + "a-python-process-is-not-recorded"
	PythonCalls = page + "callbacks-of-a-python-program-are-not-replayed"
	Recipes     = page + "recipes" // this topic has its own page
	Receiver    = page + "the-otlp-receiver-takes-no-spans"
	Run         = page + "trainspan-run-records-less-than-expected"
)

// The report.
const (
	Remarks = page + "remarks-on-the-data"
	NoRank  = page + "which-rank-is-slow-is-not-known"
	Hang    = page + "a-job-hangs"
	Alert   = page + "an-alert-does-not-arrive"
)

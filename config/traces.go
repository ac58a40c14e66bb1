package config

// The values of [Traces.Split]: when the spans of a run go on in a new trace.
const (
	// TracePerAttempt keeps all spans of one start of the job in one trace, as
	// long as its budget lasts.
	TracePerAttempt = "per-attempt"
	// TracePerEpoch begins a trace with every epoch.
	TracePerEpoch = "per-epoch"
	// TracePerWindow begins a trace with every window of training iterations.
	TracePerWindow = "per-window"
)

// MinTraceBudget is the smallest share of the budget of a trace that one rank is given.
const MinTraceBudget = 32

// Traces say how the spans of a run are spread over traces, so that a backend
// can open each of them. The zero Traces is one trace for each start of the
// job, with the default budget.
type Traces struct {
	// Split says when a new trace begins; empty is [TracePerAttempt].
	Split string
	// Window is the number of training iterations in one trace, for
	// [TracePerWindow]. Zero is 1000.
	Window int
	// Budget is the most spans that one trace of the job may hold, all ranks
	// together; every rank keeps to its share, which is at least
	// [MinTraceBudget]. A trace that is full is followed by another one. Zero
	// is 20,000, negative is no limit.
	Budget int
}

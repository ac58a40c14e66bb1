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

// Defaults of [Traces].
const (
	defaultTraceWindow = 1000
	defaultTraceBudget = 20_000

	// MinTraceBudget is the smallest share of a budget that one rank is given.
	MinTraceBudget = 32
)

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

// EffectiveSplit returns Split or [TracePerAttempt].
func (t *Traces) EffectiveSplit() string {
	if t.Split == "" {
		return TracePerAttempt
	}
	return t.Split
}

// EffectiveWindow returns Window or its default.
func (t *Traces) EffectiveWindow() int {
	if t.Window <= 0 {
		return defaultTraceWindow
	}
	return t.Window
}

// Share is the most spans that one rank of a job of that many ranks may put
// into one trace; zero is no limit.
func (t *Traces) Share(worldSize int) int {
	budget := t.Budget
	switch {
	case budget < 0:
		return 0
	case budget == 0:
		budget = defaultTraceBudget
	}
	return max(MinTraceBudget, budget/max(1, worldSize))
}

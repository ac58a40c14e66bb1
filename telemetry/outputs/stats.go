package outputs

// Stats are counts of an [Output] since it was attached.
type Stats struct {
	// File counts what an output wrote to a file; its zero value means that
	// there is none.
	File FileStats
	// Delivery counts what an output sends over a network; its zero value
	// means that it sends nothing.
	Delivery Delivery
}

// Words for what a [Delivery] counts.
const (
	DeliversSpans   = "spans"
	DeliversLogs    = "log records"
	DeliversMetrics = "metric exports"
)

// Delivery is what became of what an output was to send. At every moment
// Total = Sent + Spilled + Dropped + Pending.
type Delivery struct {
	What     string           // DeliversSpans, DeliversLogs or DeliversMetrics
	Total    int64            // what was to be sent
	Sent     int64            // what the backend took
	Spilled  int64            // what is kept on disk for later
	Dropped  int64            // what is lost, for the causes of Drops
	Pending  int64            // what waits or is on its way
	Repaired int64            // values that were repaired before they were sent
	Drops    map[string]int64 // by cause
	// Failed is the number of exports that failed, of metrics, which are
	// cumulative: a later one that succeeds makes up for it. Those for which
	// none did are Dropped.
	Failed int64
	// Unwanted says that the backend does not know this kind of data at all,
	// as some that take spans only. Its drops are counted, and no reason to
	// warn anybody.
	Unwanted bool
}

// Losses are counts of what was lost by what it was and why: spans by the
// cause alone, "logs <cause>" for log records, "metric exports".
type Losses map[string]int64

package summary

// Result is what an Aggregator found. All times are microseconds; Start and End
// since the Unix epoch.
type Result struct {
	Events     int64         `json:"events"`
	Counters   int64         `json:"counters"`
	Metadata   int64         `json:"metadata"`
	Start      int64         `json:"start_us"`
	End        int64         `json:"end_us"`
	Categories []NameStat    `json:"categories"`
	Names      []NameStat    `json:"names"`
	Processes  []ProcessStat `json:"processes"`
	Epochs     []EpochStat   `json:"epochs"`
	// UnionError bounds the time by which any of the unions is too long because
	// memory was bounded; 0 means that they are exact.
	UnionError int64 `json:"union_error_us"`
	// TooDeep is how many spans lay in more than 4096 others and were forgotten
	// for that: what lies in them may count for the self time of two names.
	TooDeep int64 `json:"too_deep,omitempty"`
}

// NameStat is the time of one category, or of one name in it.
type NameStat struct {
	Category string  `json:"category"`
	Name     string  `json:"name,omitempty"`
	Count    int64   `json:"count"`
	Total    int64   `json:"total_us"`
	Self     int64   `json:"self_us"` // without spans that ran inside on the same lane
	Mean     float64 `json:"mean_us"`
	P50      int64   `json:"p50_us"`
	P99      int64   `json:"p99_us"`
	Max      int64   `json:"max_us"`
}

// Use is how an interval of one process's time was used. Each number is a union:
// a moment counts once, however many spans it is in. The stalls are what the job
// waits for: they count while nothing was computed.
type Use struct {
	Wall      int64 `json:"wall_us"`
	Compute   int64 `json:"compute_us"`
	IO        int64 `json:"io_us"`
	IOStall   int64 `json:"io_stall_us"` // I/O while nothing was computed
	Comm      int64 `json:"comm_us"`
	CommStall int64 `json:"comm_stall_us"` // communication while nothing was computed
	Copies    int64 `json:"copies_us"`     // data between host and device
	Idle      int64 `json:"idle_us"`       // none of the four
}

// ProcessStat is one process. Rank is "" when the trace does not tell.
type ProcessStat struct {
	HostHash string `json:"host_hash,omitempty"`
	Host     string `json:"host,omitempty"` // for the caller to fill in
	PID      int64  `json:"pid"`
	Rank     string `json:"rank,omitempty"`
	Run      string `json:"run,omitempty"` // where the files have several
	Attempt  int64  `json:"attempt"`       // of its rank, from 1
	Label    string `json:"label,omitempty"`
	Kernels  bool   `json:"compute_is_kernels,omitempty"` // computing is that of a device
	Events   int64  `json:"events"`
	Lanes    int    `json:"lanes"`
	Start    int64  `json:"start_us"`
	End      int64  `json:"end_us"`
	Use

	beside int64
}

// EpochStat is one epoch of one process.
type EpochStat struct {
	HostHash string `json:"host_hash,omitempty"`
	Epoch    int64  `json:"epoch"`
	PID      int64  `json:"pid"`
	Rank     string `json:"rank,omitempty"`
	Run      string `json:"run,omitempty"`
	Attempt  int64  `json:"attempt"`
	Events   int64  `json:"events"`
	Steps    int64  `json:"steps"`
	Start    int64  `json:"start_us"`
	End      int64  `json:"end_us"`
	Use

	beside int64
}

func (s *NameStat) fill(h *Histogram) {
	s.Count = int64(h.n)
	s.Mean = float64(s.Total) / float64(max(h.n, 1))
	s.P50, s.P99, s.Max = h.Quantile(0.50), h.Quantile(0.99), h.max
}

package torchtrace

import (
	"strconv"
	"time"
)

// Log is what a log says about the compilations of one process.
type Log struct {
	// Rank is -1 when the log does not tell. PID is the thread id in front of
	// the first record, which is the process id when the main thread wrote it.
	Rank, PID int64
	// Records counts records by kind; artifacts count under their name.
	Records map[string]int64
	// Compiles lists the compilations in order of appearance.
	Compiles []*Compile
	// Executions lists compile ids in the order in which graphs ran, where the
	// log has it.
	Executions []string
	// TorchVersion is empty when the log does not tell.
	TorchVersion string
	// Phases counts the phases handed out, Unmatched the begins and ends that
	// have no partner.
	Phases, Unmatched int64
	// ByClock says that the phases are by the clocks in front of the records, to a
	// millisecond, in the year and zone that fit the date of the file.
	ByClock bool
	// Skipped counts broken records; Defects describes the first hundred.
	Skipped int64
	Defects []Defect

	byID map[string]*Compile
}

// Defect is a broken record.
type Defect struct {
	// Offset is the position of the record in the decompressed log.
	Offset int64 `json:"offset"`
	// Reason says what was wrong.
	Reason string `json:"reason"`
}

// String formats the defect for a report.
func (d Defect) String() string {
	return "record at byte " + strconv.FormatInt(d.Offset, 10) + " skipped: " + d.Reason
}

// Compile is one compilation of one frame.
type Compile struct {
	// ID is frame/recompile, with _attempt when it is not the first:
	// the text that the profiler shows as "Torch-Compiled Region: 0/0".
	ID string
	// Forward, Backward and Inference are the operators of the AOT graphs in
	// order; Post those after Inductor's passes.
	Forward, Backward, Inference, Post []Op
	// CacheKeys are the FX graph cache keys, the text of "## Call
	// CompiledFxGraph ... ##" rows.
	CacheKeys []string
	// Kernels maps generated kernels to the graph nodes fused in them.
	Kernels map[string][]string

	index compileIndex
}

// Op is a node of a logged graph.
type Op struct {
	// Node is the name of the value, such as mul_3.
	Node string
	// Namespace, Name and Overload are those of aten.mul.Tensor. A getitem has
	// only a Name.
	Namespace, Name, Overload string
}

// String returns function.<name>.<overload>, as the dynamo category spells it.
func (o Op) String() string {
	if o.Overload == "" {
		return "function." + o.Name
	}
	return "function." + o.Name + "." + o.Overload
}

// Phase is a stretch of compilation.
type Phase struct {
	// Name is the key that the compiler gives it, such as inductor_compile.
	Name string
	// CompileID is empty when the phase belongs to no compilation.
	CompileID string
	// Start and Dur are nanoseconds, Start since 1970. Dur is zero for an
	// instant such as fx_graph_cache_hit.
	Start, Dur int64
	// TID is the thread that logged it, Depth its nesting from one.
	TID   int64
	Depth int
	// Instant reports a moment rather than a stretch.
	Instant bool
	// FailType is the exception that ended a failed compilation.
	FailType string
}

// Time returns the start as a time.
func (p *Phase) Time() time.Time { return time.Unix(0, p.Start) }

func (l *Log) defect(offset int64, reason string) {
	l.Skipped++
	if len(l.Defects) < 100 {
		l.Defects = append(l.Defects, Defect{Offset: offset, Reason: reason})
	}
}

func (l *Log) compile(id string) *Compile {
	c := l.byID[id]
	if c == nil {
		c = &Compile{ID: id}
		l.byID[id] = c
		l.Compiles = append(l.Compiles, c)
	}
	return c
}

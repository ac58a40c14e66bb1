package compilelog

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
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

// String returns function.<name>.<overload>, as the dynamo category writes it.
func (o Op) String() string {
	if o.Overload == "" {
		return "function." + o.Name
	}
	return "function." + o.Name + "." + o.Overload
}

// Phase is an interval of compilation.
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
	// Instant reports a moment rather than an interval.
	Instant bool
	// FailType is the exception that ended a failed compilation.
	FailType string
}

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

// compileIndex answers what is asked for each row of a profile. It is made with
// the first question, when the log was read.
type compileIndex struct {
	once     sync.Once
	forward  map[string]*overloads
	backward map[string]*overloads
	kernels  map[string][]string // by the name without the number behind it
}

// overloads are those of the uses of an operator.
type overloads struct {
	list []string
	same bool
}

func (c *Compile) indexed() *compileIndex {
	x := &c.index
	x.once.Do(func() {
		x.forward = overloadsOf(c.Forward, c.Inference, c.Post)
		x.backward = overloadsOf(c.Backward, c.Post)
		x.kernels = make(map[string][]string, len(c.Kernels))
		for _, name := range slices.Sorted(maps.Keys(c.Kernels)) {
			plain, _, _ := strings.Cut(name, ":")
			if x.kernels[plain] == nil {
				x.kernels[plain] = c.Kernels[name]
			}
		}
	})
	return x
}

// overloadsOf takes each operator from the first list that has it.
func overloadsOf(lists ...[]Op) map[string]*overloads {
	all := map[string]*overloads{}
	for _, list := range lists {
		found := map[string]*overloads{}
		for _, o := range list {
			u := found[o.Name]
			if u == nil {
				u = &overloads{same: true}
				found[o.Name] = u
			}
			u.list = append(u.list, o.Overload)
			u.same = u.same && o.Overload == u.list[0]
		}
		for op, u := range found {
			if all[op] == nil {
				all[op] = u
			}
		}
	}
	return all
}

func (x *compileIndex) overloadsOf(backward bool) map[string]*overloads {
	if backward {
		return x.backward
	}
	return x.forward
}

// Overloads returns the overloads of every use of op, in order: of the
// backward graph, or of the forward or inference graph. When the AOT graph does
// not have op, the graph after Inductor's passes answers. The log must have been
// read; do not change the slice.
func (c *Compile) Overloads(op string, backward bool) []string {
	if u := c.indexed().overloadsOf(backward)[op]; u != nil {
		return u.list
	}
	return nil
}

// Overload returns the overload that all uses of op have, as Overloads finds
// them, and reports whether there is one.
func (c *Compile) Overload(op string, backward bool) (overload string, ok bool) {
	if u := c.indexed().overloadsOf(backward)[op]; u != nil && u.same {
		return u.list[0], true
	}
	return "", false
}

// Backwards calls fn with each operator that Overloads knows of the backward
// graph, and with its overload; ok is false where its uses differ.
func (c *Compile) Backwards(fn func(op, overload string, ok bool)) {
	for op, u := range c.indexed().backward {
		fn(op, u.list[0], u.same)
	}
}

// KernelNodes returns the graph nodes fused in a kernel, whose name may lack the
// number that the log puts behind it.
func (c *Compile) KernelNodes(kernel string) []string {
	if nodes := c.Kernels[kernel]; nodes != nil {
		return nodes
	}
	return c.indexed().kernels[kernel]
}

// Logs from before PyTorch 2.5 have no events of phases. From 2.4 on the metrics of a
// compilation say when it began and how long it took; before, there is only the clock
// in front of each record, from which a compilation lasts from its first record to
// its last.

// wholeFrame is how later logs call that phase.
const wholeFrame = "entire_frame_compile"

// maxSeen bounds the compilations that are dated by them.
const maxSeen = 1 << 16

// metrics takes the metrics of a compilation.
func (rd *reader) metrics(raw []byte, id string) error {
	if rd.log.Records["chromium_event"] > 0 {
		return nil // these say more
	}
	args := kineto.Args(raw)
	start, took := seconds(args, "start_time"), seconds(args, "entire_frame_compile_time_s")
	if start <= 0 || took < 0 {
		return nil
	}
	ev := Phase{Name: wholeFrame, CompileID: id, Start: start, Dur: took, TID: rd.tid, Depth: 1}
	ev.FailType, _ = args.Text("fail_type")
	return rd.emit(&ev)
}

// seconds reads a number of seconds as nanoseconds, -1 where there is none.
func seconds(args kineto.Args, key string) int64 {
	raw, ok := args.Raw(key)
	if !ok {
		return -1
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(v >= 0) || v > math.MaxInt64/1e9 {
		return -1
	}
	whole, part := math.Modf(v)
	return int64(whole)*1e9 + int64(math.Round(part*1e9))
}

// clock notes when a record was written.
func (rd *reader) clock(prefix string) {
	if t, err := time.Parse("0102 15:04:05.999999", prefix); err == nil {
		rd.at = t
	}
}

// dates notes a record of a compilation.
func (rd *reader) dates(id string) {
	if id == "" || rd.at.IsZero() {
		return
	}
	i, ok := rd.seenAt[id]
	if !ok {
		if len(rd.seen) >= maxSeen {
			return
		}
		i = len(rd.seen)
		rd.seenAt[id] = i
		rd.seen = append(rd.seen, seen{id: id, tid: rd.tid, first: rd.at})
	}
	rd.seen[i].last = rd.at
}

// undated hands out the compilations of a log that dates none of them, by the clocks
// of its records. Their year and zone are those with which the last record comes
// closest to when the file was written.
func (rd *reader) undated(written time.Time) error {
	if rd.log.Phases > 0 || rd.log.Records["chromium_event"] > 0 || written.IsZero() || rd.at.IsZero() {
		return nil
	}
	const quarter = 15 * time.Minute // all zones are of these
	apart := time.Duration(math.MaxInt64)
	year := 0
	for y := written.Year() - 1; y <= written.Year()+1; y++ {
		if d := rd.at.AddDate(y-rd.at.Year(), 0, 0).Sub(written.UTC()); d.Abs() < apart.Abs() {
			apart, year = d, y
		}
	}
	zone := apart.Round(quarter)
	if zone.Abs() > 14*time.Hour { // the file is a copy
		_, offset := written.Zone()
		zone = time.Duration(offset) * time.Second
	}
	for i := range rd.seen {
		s := &rd.seen[i]
		start := s.first.AddDate(year-s.first.Year(), 0, 0).Add(-zone)
		ev := Phase{Name: wholeFrame, CompileID: s.id, Start: start.UnixNano(), Dur: max(int64(s.last.Sub(s.first)), 0), TID: s.tid, Depth: 1}
		if err := rd.emit(&ev); err != nil {
			return err
		}
	}
	rd.log.ByClock = len(rd.seen) > 0
	return nil
}

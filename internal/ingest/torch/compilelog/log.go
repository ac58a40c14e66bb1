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

// Log is the content of a log about the compilations of one process.
type Log struct {
	// Rank is -1 if the log does not have it. PID is the thread id in front of the
	// first record, which is the process id if the main thread wrote it.
	Rank, PID int64
	// Records counts records by kind; artifacts count under their name.
	Records map[string]int64
	// Compiles lists the compilations in order of appearance.
	Compiles []*Compile
	// Executions lists compile ids in the order in which graphs ran, if the log has
	// them.
	Executions []string
	// TorchVersion is empty if the log does not have it.
	TorchVersion string
	// Phases counts the phases passed to the callback, Unmatched the begins and
	// ends without a partner.
	Phases, Unmatched int64
	// ByClock means that the phases are by the clocks in front of the records, with
	// millisecond precision, in the year and time zone that fit the date of the
	// file.
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
	// Reason is what was wrong.
	Reason string `json:"reason"`
}

// String formats the defect for a report.
func (d Defect) String() string {
	return "record at byte " + strconv.FormatInt(d.Offset, 10) + " skipped: " + d.Reason
}

// Compile is one compilation of one frame.
type Compile struct {
	// ID is frame/recompile, with _attempt if it is not the first, and after
	// !autograd/ if compiled autograd made the frame: the text in the profiler's
	// "Torch-Compiled Region: 0/0".
	ID string
	// Forward, Backward and Inference are the operators of the AOT graphs in order;
	// Post holds those after Inductor's passes.
	Forward, Backward, Inference, Post []Op
	// CacheKeys are the FX graph cache keys, the text of "## Call
	// CompiledFxGraph ... ##" rows.
	CacheKeys []string
	// Kernels maps generated kernels to the fused graph nodes.
	Kernels map[string][]string

	index compileIndex
}

// Op is a node of a logged graph.
type Op struct {
	// Node is the name of the value, such as mul_3.
	Node string
	// Namespace, Name and Overload are the parts of aten.mul.Tensor. A getitem has
	// only a Name.
	Namespace, Name, Overload string
}

// String returns function.<name>.<overload>, as in the dynamo category.
func (o Op) String() string {
	if o.Overload == "" {
		return "function." + o.Name
	}
	return "function." + o.Name + "." + o.Overload
}

// Phase is an interval of compilation.
type Phase struct {
	// Name is the compiler's key, such as inductor_compile.
	Name string
	// CompileID is empty if the phase belongs to no compilation.
	CompileID string
	// Start and Dur are nanoseconds, Start since 1970. Dur is zero for an
	// instant such as fx_graph_cache_hit.
	Start, Dur int64
	// TID is the thread that logged it, Depth its nesting from one.
	TID   int64
	Depth int
	// Instant marks a moment, not an interval.
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

// compileIndex answers lookups for each row of a profile. It is made at the
// first lookup, after the log was read.
type compileIndex struct {
	once     sync.Once
	forward  map[string]*overloads
	backward map[string]*overloads
	kernels  map[string][]string // by the name without the number at its end
}

// overloads are the overloads of the uses of an operator.
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

// Overloads returns the overloads of every use of op, in order: in the backward
// graph, or in the forward or inference graph. If the AOT graph does not have
// op, the graph after Inductor's passes is used. The log must be complete; do
// not change the result.
func (c *Compile) Overloads(op string, backward bool) []string {
	if u := c.indexed().overloadsOf(backward)[op]; u != nil {
		return u.list
	}
	return nil
}

// Overload returns the overload of all uses of op, as in Overloads, and whether
// they have only one.
func (c *Compile) Overload(op string, backward bool) (overload string, ok bool) {
	if u := c.indexed().overloadsOf(backward)[op]; u != nil && u.same {
		return u.list[0], true
	}
	return "", false
}

// Backwards calls fn with each operator of the backward graph and its overload;
// ok is false if its uses differ.
func (c *Compile) Backwards(fn func(op, overload string, ok bool)) {
	for op, u := range c.indexed().backward {
		fn(op, u.list[0], u.same)
	}
}

// KernelNodes returns the graph nodes fused in a kernel, whose name may lack
// the number at the end.
func (c *Compile) KernelNodes(kernel string) []string {
	if nodes := c.Kernels[kernel]; nodes != nil {
		return nodes
	}
	return c.indexed().kernels[kernel]
}

// Logs from before PyTorch 2.5 have no events of phases. From 2.4 on the
// metrics of a compilation have its begin and duration; before that, there is
// only the clock in front of each record, so that a compilation lasts from its
// first record to its last.

// wholeFrame is the name of that phase in later logs.
const wholeFrame = "entire_frame_compile"

// maxSeen bounds the compilations that are dated by record clocks.
const maxSeen = 1 << 16

// metrics reads the metrics of a compilation.
func (rd *reader) metrics(raw []byte, id string) error {
	if rd.log.Records["chromium_event"] > 0 {
		return nil // those have more
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

// seconds returns a number of seconds in nanoseconds, or -1.
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

// undated passes the compilations of a log without dates to the callback, by
// the clocks of its records. Their year and time zone are those with which the
// last record is closest to the file's modification time.
func (rd *reader) undated(written time.Time) error {
	if rd.log.Phases > 0 || rd.log.Records["chromium_event"] > 0 || written.IsZero() || rd.at.IsZero() {
		return nil
	}
	const quarter = 15 * time.Minute // all time zones are multiples of it
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

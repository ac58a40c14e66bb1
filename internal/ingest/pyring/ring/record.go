package ring

import (
	"encoding/binary"
	"math"
)

// Name is an entry in the table of names.
type Name struct {
	ID        uint32
	Cat, Name string
	Above     uint32 // the node above it in the tree of package ai, or 0
	Calls     bool   // the name belongs to spans of one-logger's callbacks
	Args      []byte // a JSON object with arguments of each of its spans; may be empty
	// Parts are the names of the parts of a step: the wait that it begins with, and
	// the spans inside it, in the order of its words. Empty if it is not a step.
	Parts []uint32
	// Numbers are the argument names for the numbers of a file call; may be empty.
	Numbers [3]string
}

// Thread is a thread of the process, or a lane that the program numbers itself.
type Thread struct {
	Number uint32
	TID    int64
	Name   string
	Lane   bool
}

// Meta is a piece of metadata about the process. Value is a JSON value.
type Meta struct {
	Key   string
	Value any
}

// Who is the identity that the process writes when it opens its ring buffer.
type Who struct {
	Host    string            `json:"host"`
	Exec    string            `json:"exec"`
	Dir     string            `json:"dir"`
	Python  string            `json:"python"`
	Command string            `json:"command"`
	PPID    int64             `json:"ppid"`
	PIDNS   uint64            `json:"pidns"` // the namespace of its id, 0 if unknown
	Env     map[string]string `json:"env"`
}

// Head is the header of a ring buffer, about the process that writes it.
type Head struct {
	Path   string // of the file
	PID    int64
	Opened int64 // when the process opened the ring buffer, in nanoseconds since the Unix epoch
	// Ticks is when the process was started, in the kernel's clock ticks since
	// boot: with PID it identifies the process.
	Ticks  uint64
	Forks  int    // without exec, between the process and the program
	Python uint64 // the version of the interpreter, as sys.hexversion
}

// Cell is the latest span that a thread started with a name.
type Cell struct {
	Name   *Name
	Thread *Thread
	Start  int64 // nanoseconds since the epoch
}

// Record is one slot. Times are nanoseconds since the Unix epoch. It is reused
// for the next slot, but its Name and Thread are not.
type Record struct {
	Kind    Kind
	Crossed bool // ended before a span inside it
	Failed  bool // ended with an exception
	Dated   bool // its end is later than the time of writing
	Name    *Name
	Thread  *Thread
	// Depth is the position on the stack of the thread's open spans, 1 for a root.
	// It does not change while the span is open.
	Depth      int
	Start, End int64
	Value      int64 // the count of a span; the step of a position; 1 for on; the number of a file
	Epoch      int64 // of a position
	Next       int64 // the training's step from End on, set at the end of a step; otherwise -1
	// Call marks a file call. It has Numbers, [NoNumber] if one is unused, and in
	// File the number of the file, or 0 if Args has the path.
	Call    bool
	Numbers [3]int64
	File    int64
	// Args is a JSON object, or nil. It is valid during the call. For a file call
	// and for a file it is the path; a second path follows after a zero byte.
	Args []byte
	// ArgsLost means that there were arguments in lost slots.
	ArgsLost bool
}

// NoNumber marks an unused number of a call.
const NoNumber = math.MinInt64

// Stats are counts of what was read. All only grow.
type Stats struct {
	Slots int64 // slots read; each span of a step counts as one
	Spans int64 // spans among them
	Lost  int64 // slots that were overwritten before they were read, or taken and never written
	Bad   int64 // invalid slots and lines
	// Others counts names after the first 65,536. Their records get one name for
	// each category, "(other)".
	Others int64
}

// decoder converts slots to records.
type decoder struct {
	Head
	anchor int64 // the writer's clock at Opened
	side   *side
	chains chains
	record Record
	stats  Stats
}

// maxLost bounds the lost count, because a damaged header or table may have any
// number.
const maxLost = 1 << 60

// countLost counts lost slots.
func (r *decoder) countLost(slots uint64) {
	r.stats.Lost = min(r.stats.Lost+int64(slots), maxLost)
}

// epoch converts the writer's clock to nanoseconds since the Unix epoch.
func (r *decoder) epoch(clock uint64) int64 { return int64(clock) - r.anchor + r.Opened }

// clock is the inverse of epoch.
func (r *decoder) clock(epoch int64) uint64 { return uint64(epoch - r.Opened + r.anchor) }

// slot decodes a slot and calls take.
func (r *decoder) slot(b []byte, take func(*Record)) {
	r.stats.Slots++
	word := binary.LittleEndian.Uint64(b[atWord:])
	kind, flags := Kind(word>>32), byte(word>>40)
	if kind >= kinds || word>>44 != 0 || flags&(flagNumbers|flagDated) != 0 && kind != KindSpan {
		r.stats.Bad++
		return
	}
	if kind == kindText {
		if !r.chains.add(b) {
			r.stats.Bad++
		}
		return
	}
	rec := &r.record
	*rec = Record{Kind: kind, Crossed: flags&flagCrossed != 0, Failed: flags&flagFailed != 0, Dated: flags&flagDated != 0, Next: -1}
	rec.Value = int64(binary.LittleEndian.Uint64(b[atValue:]))
	args := binary.LittleEndian.Uint64(b[atArgs:])
	if !r.place(rec, word, binary.LittleEndian.Uint64(b[atThread:]), binary.LittleEndian.Uint64(b[atStart:]), binary.LittleEndian.Uint64(b[atEnd:])) {
		r.stats.Bad++
		return
	}
	switch {
	case kind == KindPosition:
		rec.Epoch = int64(args)
	case flags&flagNumbers != 0:
		rec.Call, rec.File = true, int64(binary.LittleEndian.Uint64(b[atFile:]))
		rec.Numbers = [3]int64{int64(args), rec.Value, int64(binary.LittleEndian.Uint64(b[atValue+8:]))}
		rec.Value = 0
		if rec.File < 0 {
			rec.Args = r.chains.take(uint64(-rec.File))
			rec.File = 0
		}
	case args != 0:
		rec.Args = r.chains.take(args)
		rec.ArgsLost = rec.Args == nil
	}
	if kind == KindSpan {
		r.stats.Spans++
	}
	take(rec)
}

// place sets the thread, the depth and the times of a record. It returns false
// if they are invalid.
func (r *decoder) place(rec *Record, word, place, start, end uint64) bool {
	rec.Thread = r.side.threads[uint32(place)]
	rec.Name = r.side.name(uint32(word))
	rec.Depth = int(place>>32) - 1
	nameless := (rec.Kind == KindPosition || rec.Kind == KindFile) && uint32(word) == 0
	if rec.Thread == nil || rec.Name == nil && !nameless || rec.Depth < 1 || rec.Depth > maxDepth || start > 1<<62 || end > 1<<62 {
		return false
	}
	if rec.Start = r.epoch(start); rec.Start < 0 {
		return false
	}
	rec.End = max(r.epoch(end), rec.Start)
	return true
}

// maxDepth is the largest valid depth.
const maxDepth = 1 << 24

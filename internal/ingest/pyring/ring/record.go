package ring

import (
	"encoding/binary"
	"math"
)

// Name is an entry in the table of names.
type Name struct {
	ID        uint32
	Cat, Name string
	Above     uint32 // the node above it in the tree of package ai, 0 without one
	Calls     bool   // of the spans of one-logger's callbacks, which are in the ring too
	Args      []byte // a JSON object: arguments of each of its spans; empty without
	// Parts are the names of the parts of a step: the wait that it begins with, and
	// those that lie inside it, in the order of its words. Empty for what is no step.
	Parts []uint32
	// Numbers are what the numbers of its calls on files are called; empty for none.
	Numbers [3]string
}

// Thread is a thread of the process, or a lane that the program numbers itself.
type Thread struct {
	Number uint32
	TID    int64
	Name   string
	Lane   bool
}

// Meta is a piece of metadata about the process. Value is what JSON makes of it.
type Meta struct {
	Key   string
	Value any
}

// Who is what the process says about itself when it opens its ring.
type Who struct {
	Host    string            `json:"host"`
	Exec    string            `json:"exec"`
	Dir     string            `json:"dir"`
	Python  string            `json:"python"`
	Command string            `json:"command"`
	PPID    int64             `json:"ppid"`
	PIDNS   uint64            `json:"pidns"` // the namespace of its number, 0 for unknown
	Env     map[string]string `json:"env"`
}

// Head is what a ring says of the process that writes it.
type Head struct {
	Path   string // of the file
	PID    int64
	Opened int64 // when the process opened the ring, in nanoseconds since the Unix epoch
	// Ticks is when the process was started, in the kernel's clock ticks since boot: with
	// PID it identifies the process.
	Ticks  uint64
	Forks  int    // without exec, between the process and the program
	Python uint64 // the version of the interpreter, as sys.hexversion
}

// Cell is a span that a thread started last under a name.
type Cell struct {
	Name   *Name
	Thread *Thread
	Start  int64 // nanoseconds since the epoch
}

// Record is one slot. Times are nanoseconds since the Unix epoch. It is reused
// for the next slot, its Name and Thread are not.
type Record struct {
	Kind    Kind
	Crossed bool // ended before what was started inside it
	Failed  bool // ended with an exception
	Dated   bool // ends later than it was written
	Name    *Name
	Thread  *Thread
	// Depth is the place on the stack of the thread's open spans, 1 for a
	// root. It does not change while the span is open.
	Depth      int
	Start, End int64
	Value      int64 // the count of a span; the step of a position; 1 for on; the number of a file
	Epoch      int64 // of a position
	Next       int64 // the step at which the training stands from End on, which the end of a step says; else -1
	// Call says that the span is a call on a file. It has Numbers, [NoNumber] where one
	// says nothing, and in File that of the file, 0 where Args or nothing says its path.
	Call    bool
	Numbers [3]int64
	File    int64
	// Args is a JSON object, or nil. It is valid during the call. Of a call on a file, and
	// of a file, it is the path; of a call with two the second follows a zero byte.
	Args []byte
	// ArgsLost says that there were arguments, in slots that were lost.
	ArgsLost bool
}

// NoNumber is a number of a call that says nothing.
const NoNumber = math.MinInt64

// Stats are counts of what was read. All only grow.
type Stats struct {
	Slots int64 // read; each span of a step counts as one
	Spans int64 // of these, spans
	Lost  int64 // slots that were overwritten before they were read, or taken and never written
	Bad   int64 // slots and lines that cannot be true
	// Others counts names behind the first 65,536. Their records are those of
	// one name for each category, "(other)".
	Others int64
}

// decoder makes records of slots.
type decoder struct {
	Head
	anchor int64 // what the writer's clock said at Opened
	side   *side
	chains chains
	record Record
	stats  Stats
}

// maxLost bounds what is counted as lost: what a damaged head or table says may be anything.
const maxLost = 1 << 60

// countLost counts slots.
func (r *decoder) countLost(slots uint64) {
	r.stats.Lost = min(r.stats.Lost+int64(slots), maxLost)
}

// epoch returns a moment of the writer's clock in nanoseconds since the Unix epoch.
func (r *decoder) epoch(clock uint64) int64 { return int64(clock) - r.anchor + r.Opened }

// clock returns the opposite of epoch.
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

// place says whose a record is, and where it lies. It reports false where that cannot be true.
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

// maxDepth is how deep spans may be said to nest.
const maxDepth = 1 << 24

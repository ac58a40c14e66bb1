package ring

import "math"

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

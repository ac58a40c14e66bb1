package tracefile

import (
	"github.com/trainspan/trainspan/internal/tracefile/jsontext"
)

// Phase is the kind of record of a line. The values are those of the V22
// dialect; the other dialects write a letter.
type Phase uint8

// The phases a line can have.
const (
	PhaseUnknown    Phase = 0 // never written
	PhaseComplete   Phase = 1 // X: a span with a start and a duration
	PhaseCounter    Phase = 2 // C: a sample of values at one moment
	PhaseAggregated Phase = 3 // A: many events folded into one; V1 and V2 write it as C
	PhaseMetadata   Phase = 4 // M: a property of the process, or the name of a hash
)

// letter returns the one-letter form that V1 and V2 write, or 0 for an unknown
// phase.
func (p Phase) letter() byte {
	if int(p) < len(phaseLetters) {
		return phaseLetters[p]
	}
	return 0
}

// String returns the letter, or "?" for an unknown phase.
func (p Phase) String() string {
	if c := p.letter(); c != 0 {
		return phaseLetters[p : p+1]
	}
	return "?"
}

const phaseLetters = "\x00XCAM"

// Type is the producer column of the V22 dialect. Other dialects do not write it.
type Type uint8

// The producers known to the V22 dialect. The zero Type means unknown; then
// events are written as TypeCPPApp and framing as TypeDFTracer.
const (
	TypeUnknown     Type = 0
	TypeDFTracer    Type = 1
	TypeCApp        Type = 2
	TypeLibcIO      Type = 3
	TypeHIP         Type = 4
	TypeHDF5        Type = 5
	TypePython      Type = 6
	TypePSUtil      Type = 7
	TypeFInstrument Type = 8
	TypeCPPApp      Type = 9
	TypeMPI         Type = 10
	TypePAPI        Type = 11
	TypeOmnistat    Type = 12
	TypeVariorum    Type = 13
	TypeCUDA        Type = 14
)

// Category and names of the records that the format defines.
const (
	CatDFTracer     = "dftracer"     // category of all framing and metadata
	NameHostHash    = "HH"           // host name and its hash
	NameFileHash    = "FH"           // file name and its hash
	NameStringHash  = "SH"           // any string and its hash
	NameProcess     = "PR"           // rank or core affinity of the process
	NameCustom      = "CM"           // user metadata: a key and a string
	NameThreadName  = "thread_name"  // first thread of the process
	NameProcessName = "process_name" // display name of the process
	NameStart       = "start"        // first event of a file
	NameEnd         = "end"          // last event of a file
)

// NoParent is the Parent of a root event. Zero means the same when writing,
// because ids start at 1; a Reader always returns NoParent.
const NoParent int64 = -1

// Event is one line of a trace. The zero value of every field is valid.
//
// A Writer copies what it needs before Write returns. A Reader may reuse the
// Event and its Args for the next line; its strings stay valid.
type Event struct {
	// Phase is the kind of record; PhaseUnknown is written as PhaseComplete.
	Phase Phase
	// Type is the producer, written by V22 only.
	Type Type
	// ID is unique in its file, from Writer.NextID at the start of the span. With
	// zero the Writer assigns one.
	ID uint64
	// Name and Cat are the keys by which analyzers group events. Cat "dftracer" is
	// for framing only.
	Name, Cat string
	// PID is the process; zero means the Writer's own.
	PID int64
	// TID is the lane: see Lanes. It must not be negative.
	TID int64
	// TS is wall-clock microseconds since the Unix epoch; Dur is microseconds. A
	// Reader may return negative values of a damaged trace; a Writer writes them as
	// zero.
	TS, Dur int64
	// Level is the depth of nesting, 1 for a root; zero means unknown and is not written.
	Level int
	// Parent is the ID of the enclosing event, NoParent (or zero) for a root.
	Parent int64
	// HostHash is the text of args.hhash. Empty means the Writer's own host.
	HostHash string
	// Args are the other arguments in file order, without hhash, level and p_idx. A
	// metadata record has at least "name" and "value".
	Args []Arg

	encoded []byte // of a complete event: arguments after Args
}

// SetEncoded gives a complete event arguments after Args that are already
// encoded, each as in a line: `,"key":12`. Keys must be Plain and differ.
func SetEncoded(ev *Event, text []byte) { ev.encoded = text }

// Decoded returns a copy of an event with all its arguments in Args.
func Decoded(ev *Event) Event {
	all := *ev
	all.Args, all.encoded = AppendDecoded(append([]Arg(nil), ev.Args...), ev.encoded), nil
	return all
}

// AppendDecoded appends encoded arguments to dst; of invalid text, those before
// the error.
func AppendDecoded(dst []Arg, text []byte) []Arg {
	if len(text) > 0 {
		dst, _ = AppendObject(dst, append(append([]byte{'{'}, text[1:]...), '}'))
	}
	return dst
}

// End returns TS+Dur, the first microsecond after the event.
func (e *Event) End() int64 { return e.TS + e.Dur }

// Arg returns the argument named key, and whether the event has it.
func (e *Event) Arg(key string) (Arg, bool) {
	for i := range e.Args {
		if e.Args[i].Key == key {
			return e.Args[i], true
		}
	}
	return Arg{}, false
}

// Meta returns the "name" and "value" arguments of a metadata record as text.
func (e *Event) Meta() (name, value string) {
	n, _ := e.Arg("name")
	v, _ := e.Arg("value")
	return n.Text(), v.Text()
}

// Span holds the fields of a complete event other than its Key and its
// arguments. They have the same meaning as in Event.
type Span struct {
	ID      uint64
	TID     int64
	TS, Dur int64 // microseconds
	Level   int
	Parent  int64
}

// Key is a category and an event name, encoded once. Programs that write the
// same few names millions of times make their Keys beforehand. The zero Key
// has an empty category and name. A Key fits every Writer and never changes.
type Key struct {
	cat, name string
	head      string // `,"name":"forward","cat":"compute"`
	typ       Type
}

// maxKeyPart bounds the names inside a Key, so that lines made from Keys stay short.
const maxKeyPart = 512

// NewKey returns the Key of a category and a name. Parts above 512 bytes are shortened.
func NewKey(cat, name string) Key {
	cat, _ = shorten(cat, maxKeyPart)
	name, _ = shorten(name, maxKeyPart)
	return Key{cat: cat, name: name, head: string(appendHead(nil, cat, name))}
}

// WithType returns the Key with the producer column of V22 set.
func WithType(k Key, t Type) Key {
	k.typ = t
	return k
}

// KeyCat returns the category of a Key.
func KeyCat(k Key) string { return k.cat }

// KeyName returns the event name of a Key.
func KeyName(k Key) string { return k.name }

func appendHead(dst []byte, cat, name string) []byte {
	dst = append(dst, `,"name":`...)
	dst = jsontext.AppendString(dst, name)
	dst = append(dst, `,"cat":`...)
	return jsontext.AppendString(dst, cat)
}

// Long returns a complete event whose line may be too long.
func Long(k *Key, s Span, args []Arg) *Event {
	return &Event{ID: s.ID, Name: k.name, Cat: k.cat, Type: k.typ, TID: s.TID, TS: s.TS, Dur: s.Dur,
		Level: s.Level, Parent: s.Parent, Args: append([]Arg(nil), args...)}
}

package dft

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/trainspan/trainspan/internal/identity"
	"github.com/trainspan/trainspan/internal/jsontext"
)

// ErrClosed is why a Writer that was closed does nothing more.
var ErrClosed = errors.New("dftracer: writer is closed")

// DefaultHeartbeat is the time between two records that a process is alive.
const DefaultHeartbeat = 10 * time.Second

// OwnLane as the TID of metadata is the lane of the process that the trace is about.
const OwnLane = math.MinInt64

// Sink is what takes events: a Writer, which copies what it needs.
type Sink interface{ Write(*Event) }

// WriteRank writes the PR record of the process's rank and its display name.
func WriteRank(w Sink, rank int) {
	text := strconv.Itoa(rank)
	write(w, Record(NameProcess, identity.Word(identity.Rank, identity.Record), String("", text)))
	write(w, Record(NameProcessName, "Rank "+text, String("", NameProcessName)))
}

// WriteCores writes the PR record of the processor cores that the process may run on.
func WriteCores(w Sink, cores []int) {
	list := []byte{'['}
	for i, c := range cores {
		if i > 0 {
			list = append(list, ',')
		}
		list = jsontext.AppendInt(list, int64(c))
	}
	write(w, Record(NameProcess, "core_affinity", Raw("", string(append(list, ']')))))
}

func write(w Sink, ev Event) {
	ev.TID = OwnLane
	w.Write(&ev)
}

// OfProcess reports whether an event is a fact about the process, which every file of
// its trace repeats.
func OfProcess(e *Event) bool { return e.Name == NameProcess || e.Name == NameProcessName }

// WriteCustom writes custom metadata, a CM record: a key and a text, and further
// arguments, on the lane of the process itself. Readers expect text even for numbers.
func WriteCustom(w Sink, key, value string, args ...Arg) {
	all := append([]Arg{String("name", key), String("value", value)}, args...)
	write(w, Event{Phase: PhaseMetadata, Name: NameCustom, Cat: CatDFTracer, Args: all})
}

// WriteBegin writes a record that a span has begun, for spans that last: when the
// process dies, readers see it and Recover closes it. ev is the span as far as
// it is known; its ID must be the one that Write or WriteComplete will get at
// the end. The record is a CM line:
//
//	{"id":9,"name":"CM","cat":"dftracer","pid":1,"tid":1,"ph":"M","args":{"hhash":"…",
//	 "level":1,"p_idx":-1,"name":"span.begin","value":"train","begin_id":7,"begin_cat":"pipeline","begin_ts":1700000000000000}}
func WriteBegin(w Sink, ev *Event) {
	if ev == nil {
		return
	}
	args := make([]Arg, 0, 5+len(ev.Args))
	args = append(args, String("name", KeySpanBegin), String("value", ev.Name), Uint("begin_id", ev.ID),
		String("begin_cat", ev.Cat), Int("begin_ts", ev.TS))
	rec := Event{Phase: PhaseMetadata, Type: ev.Type, Name: NameCustom, Cat: CatDFTracer, PID: ev.PID, TID: ev.TID,
		Level: ev.Level, Parent: ev.Parent, HostHash: ev.HostHash, Args: append(args, ev.Args...)}
	Distinct(rec.Args, len(args), len(rec.Args), userPrefix)
	w.Write(&rec)
}

package tracefile

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/platform/redact"
	"github.com/trainspan/trainspan/internal/tracefile/jsontext"
)

// Keys of custom metadata that the Writer uses.
const (
	// KeySpanBegin marks a record that announces an open span. Its value is the
	// span's name; begin_id, begin_cat, begin_ts, level and p_idx describe the
	// span, and its own arguments follow.
	KeySpanBegin = "span.begin"
	// KeyEventsLost marks a gap: its value is how many lines are missing; reason,
	// from_ts and to_ts (microseconds) are the cause and the time.
	KeyEventsLost = "events.lost"
	// KeyPart marks the continuation of a rotated trace: its value is the
	// number of the part, counted from 1. Parents may be in earlier parts.
	KeyPart = "trace.part"
	// KeyHeartbeat marks a record that the process is alive: its value is a time in
	// microseconds.
	KeyHeartbeat = "heartbeat"
	// KeyTimeMetric marks the unit of all times in the file: NS, US, MS or SEC.
	KeyTimeMetric = "time_metric"
	// KeyGroup is before the name of a process group: the value is the list of its
	// ranks, in order, as JSON. It may be cut off after the first ones.
	KeyGroup = "group."
	// KeyFlushInterval marks a record with the longest time, in microseconds, that
	// an event waits in memory: the last events of a killed process may be missing
	// for this time.
	KeyFlushInterval = "flush_interval_us"
)

// ArgLost is the argument of the end event with the number of missing lines.
const ArgLost = "events_lost"

// ArgEndUnknown is an argument of an end event that the program did not write:
// the trace was converted from a source that does not show how the program
// ended.
const ArgEndUnknown = "end_unknown"

// KeyDamaged marks a record about a process: before this trace was made, damage
// destroyed records of it, including its end.
const KeyDamaged = "damaged"

// Record returns a metadata record of a kind, with a name and a value.
func Record(kind, name string, value Arg) Event {
	value.Key = "value"
	return Event{Phase: PhaseMetadata, Type: TypeDFTracer, Name: kind, Cat: CatDFTracer, Args: []Arg{String("name", name), value}}
}

// BeginOf returns the span that a begin record, as Writer.Begin writes it,
// announces, and whether ev is such a record. The span has no duration yet.
func BeginOf(ev *Event) (Event, bool) {
	if ev == nil || ev.Phase != PhaseMetadata || ev.Name != NameCustom || len(ev.Args) < 5 {
		return Event{}, false
	}
	key, name := ev.Meta()
	id, ok := ev.Arg("begin_id")
	if key != KeySpanBegin || !ok {
		return Event{}, false
	}
	cat, _ := ev.Arg("begin_cat")
	ts, _ := ev.Arg("begin_ts")
	span := Event{Phase: PhaseComplete, Type: ev.Type, ID: Uint64(id), Name: name, Cat: cat.Text(), PID: ev.PID, TID: ev.TID,
		TS: ts.Int64(), Level: ev.Level, Parent: ev.Parent, HostHash: ev.HostHash}
	for _, a := range ev.Args {
		switch a.Key {
		case "name", "value", "begin_id", "begin_cat", "begin_ts":
		default:
			span.Args = append(span.Args, a)
		}
	}
	return span, true
}

// CommandLine returns a description of this process's command line that is safe
// to publish: the program and the names of its flags, joined by ";". It has no
// values of flags and no other arguments, because no rule finds all secrets
// among them. A trace has it only if the program sets it:
//
//	dftracer.Options{Process: dftracer.Process{Command: tracefile.CommandLine()}}
func CommandLine() string { return strings.Join(outline(Arguments()), ";") }

// Arguments returns the command line of this process, the program first.
func Arguments() []string {
	line, err := os.ReadFile("/proc/self/cmdline")
	line = bytes.TrimRight(line, "\x00")
	if err == nil && len(line) > 0 {
		return strings.Split(string(line), "\x00")
	}
	if exe, err := os.Executable(); err == nil {
		return []string{exe}
	}
	return []string{"DEFAULT"}
}

// outline keeps the program and the names of flags. Flags with one dash are
// kept only if package flag defines them.
func outline(args []string) []string {
	known := func(name string) bool { return flag.Lookup(name) != nil }
	return append(args[:1:1], redact.Flags(args[1:], known)...)
}

// ErrClosed is returned by a Writer after Close.
var ErrClosed = errors.New("dftracer: writer is closed")

// DefaultHeartbeat is the time between two records that a process is alive.
const DefaultHeartbeat = 10 * time.Second

// OwnLane as the TID of metadata means the lane of the trace's process.
const OwnLane = math.MinInt64

// Sink takes events. It copies what it needs, like a Writer.
type Sink interface{ Write(*Event) }

// WriteRank writes the PR record of the process's rank and its display name.
func WriteRank(w Sink, rank int) {
	text := strconv.Itoa(rank)
	write(w, Record(NameProcess, identity.Rank.Word(identity.Record), String("", text)))
	write(w, Record(NameProcessName, "Rank "+text, String("", NameProcessName)))
}

// WriteCores writes the PR record of the CPU cores that the process may run on.
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

// IsHashRecord reports whether a record has the name behind a hash.
func IsHashRecord(e *Event) bool {
	return e.Name == NameHostHash || e.Name == NameFileHash || e.Name == NameStringHash
}

// OfProcess reports whether a record describes the process. Every file of its
// trace repeats it.
func OfProcess(e *Event) bool { return e.Name == NameProcess || e.Name == NameProcessName }

// WriteCustom writes custom metadata, a CM record: a key and a text, and
// further arguments, on the lane of the process. Readers expect text even for
// numbers.
func WriteCustom(w Sink, key, value string, args ...Arg) {
	all := append([]Arg{String("name", key), String("value", value)}, args...)
	write(w, Event{Phase: PhaseMetadata, Name: NameCustom, Cat: CatDFTracer, Args: all})
}

// WriteBegin writes a record that a long span has begun. If the process dies,
// readers see the span and Recover closes it. ev is the span so far; its ID
// must be the one that Write or WriteComplete gets at the end. The record is a
// CM line:
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

package dftracer

import (
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
	"github.com/trainspan/trainspan/internal/tracefile/validate"
)

// Event is one line of a trace. Its fields, each with a valid zero value:
//
//   - Phase: the kind of record; PhaseUnknown is written as PhaseComplete.
//   - Type: the producer, which V22 alone writes.
//   - ID: unique in its file, from [Writer.NextID] at the start of the span; with zero
//     the Writer assigns one.
//   - Name, Cat: the name and the category, by which analyzers group; the category
//     "dftracer" is for framing.
//   - PID: the process; zero is the Writer's.
//   - TID: the lane, see [Lanes]; not negative.
//   - TS, Dur: microseconds: wall-clock time since the Unix epoch, and duration.
//     Negative values are written as zero.
//   - Level: the depth, 1 for a root; zero is unknown and not written.
//   - Parent: the ID of the enclosing event, [NoParent] or zero for a root.
//   - HostHash: the text of the argument hhash; empty is the Writer's host.
//   - Args: the other arguments in file order, a slice of [Arg].
//
// The method End returns TS+Dur, Arg returns the argument of a key and whether
// the event has it, and Meta returns the arguments name and value of a metadata
// record as text.
//
// A Writer copies what it needs before Write returns. A Reader may reuse the
// Event and its Args for the next line; its strings stay valid.
type Event = tracefile.Event

// Span holds the fields of a complete event other than its Key and its
// arguments: ID, TID, TS, Dur, Level and Parent of [Event], with the same
// meanings and zero values.
type Span = tracefile.Span

// NoParent is the Parent of a root event. Zero means the same when writing,
// because ids start at 1; a Reader always returns NoParent.
const NoParent = tracefile.NoParent

// CatDFTracer is the category of all framing and metadata.
const CatDFTracer = tracefile.CatDFTracer

// Key is a category and an event name, encoded once. Programs that write the
// same few names millions of times make their Keys beforehand. The zero Key
// has an empty category and name. A Key fits every Writer and never changes.
type Key = tracefile.Key

// NewKey returns the Key of a category and a name. Parts above 512 bytes are shortened.
func NewKey(cat, name string) Key { return tracefile.NewKey(cat, name) }

// Arg is one typed argument of an event: a key and a number or a string held by
// value, so that an event with numbers needs no allocation. The zero Arg is the
// integer 0 under an empty key.
//
// The field Key is the key. Int64 returns the value as an integer, with floats
// truncated and decimal strings parsed, Float64 returns it as a float, and Text
// as text. A value that is not a number gives 0.
type Arg = tracefile.Arg

// Int returns an integer argument.
func Int(key string, v int64) Arg { return tracefile.Int(key, v) }

// Uint returns an unsigned integer argument; all 64 bits are exact.
func Uint(key string, v uint64) Arg { return tracefile.Uint(key, v) }

// Float returns a floating point argument. It is written in the shortest form
// that reads back as the same number, always with a point or an exponent, so
// that 3 stays a float (3.0). JSON has no NaN and no infinity: they are
// written as the strings "NaN", "Infinity" and "-Infinity".
func Float(key string, v float64) Arg { return tracefile.Float(key, v) }

// String returns a string argument.
func String(key, v string) Arg { return tracefile.String(key, v) }

// Bool returns the integer 1 or 0, as DFTracer writes a Python bool: its
// readers do not accept JSON booleans.
func Bool(key string, v bool) Arg { return tracefile.Bool(key, v) }

// Raw returns an argument that is written as the given JSON text without its
// line breaks. Text that is not valid JSON is written as a string.
func Raw(key, text string) Arg { return tracefile.Raw(key, text) }

// Dialect is a generation of the format. Its String is the name: V1, V2 or V22.
type Dialect = tracefile.Dialect

// The dialects, named after the releases that wrote them. V2 is the default, which every
// known reader accepts; V22 is the newest, with a type column and without brackets.
const (
	V2  = tracefile.V2
	V1  = tracefile.V1
	V22 = tracefile.V22
)

// Phase is the kind of record of a line. Its String is the letter that V1 and V2 write.
type Phase = tracefile.Phase

// The phases a line can have.
const (
	PhaseUnknown    = tracefile.PhaseUnknown    // never written
	PhaseComplete   = tracefile.PhaseComplete   // X: a span with a start and a duration
	PhaseCounter    = tracefile.PhaseCounter    // X: a span with a start and a duration
	PhaseAggregated = tracefile.PhaseAggregated // A: many events folded into one, read but never written
	PhaseMetadata   = tracefile.PhaseMetadata   // M: a property of the process, or the name of a hash
)

// Type is the producer column of the V22 dialect. Other dialects do not write it.
type Type = tracefile.Type

// Lanes assigns every open span a lane, the tid of its record, such that spans
// on one lane nest: a span goes to its parent's lane when the parent is the
// innermost open span there, otherwise to the lowest lane on which nothing is
// open. Lanes are reused. Viewers and call trees that nest spans by containment
// then show the real nesting for any number of goroutines.
//
// Begin(parent, start) opens a span at a time in microseconds and returns its
// [Lane] and number; End(lane, end) closes it and returns the number to write
// it with, which differs if the span outlived its parent. Count returns how
// many lanes there are. All methods may be called concurrently. A nil Lanes
// returns lane 0 for every span.
type Lanes = tracefile.Lanes

// Lane is the handle of an open span. The zero Lane is no span and serves as
// the parent of a root. After End a handle may still be used and has no effect.
type Lane = tracefile.Lane

// NewLanes returns lanes numbered from first. The process id, which is the id
// of the main thread, is a good first number.
func NewLanes(first int64) *Lanes { return tracefile.NewLanes(first) }

// Hash stands for a host, file or other string in a trace. Hashes of different dialects
// differ. [Writer.Hash] writes the record that names it.
type Hash = tracefile.Hash

// Hashes resolves the hashes of a trace to the names behind them, as far as their
// records were read. Give one to a reader by [ReaderOptions], or give it events by Note.
// Host, File and String return the name of a hash and whether it is known; Len returns
// how many names there are. It is safe for concurrent use; a nil Hashes resolves
// nothing.
type Hashes = tracefile.Hashes

// Piece is a part of a trace file that can be read independently: a gzip
// member, or some plain text. Offset and Size are bytes of the file, Text bytes
// after decompression, and Lines the number of lines that end in it. Gzip is
// true for a gzip member, and Across if the first line begins in the previous
// piece.
type Piece = tracefile.Piece

// LineError describes a skipped line of a trace: Line is its number, from 1,
// and Err the cause, which Unwrap returns. Error has both.
type LineError = tracefile.LineError

// Report is the result of a validation. OK reports whether no problem was
// found, and Err returns the problems as an error or nil. Its fields:
//
//   - Dialect: the dialect of the trace.
//   - Lines: lines, including an unfinished last one.
//   - Events: complete events, including the framing, and counters.
//   - Spans: complete events other than the framing.
//   - Counters, Metadata: samples, and metadata records.
//   - Lanes: different pairs of pid and tid that have events.
//   - Open: spans that were begun but not ended.
//   - Orphans: events whose parent is not in the trace.
//   - Lost: events that the trace itself reports as missing.
//   - Counts: the number of records by "cat/name/ph".
//   - Count, Problems: the number of problems, and the first 100 of them.
//   - Groups: every kind of problem, in the order of its first line.
type Report = validate.Report

// Problem is one defect that a validation found: Line is its line, from 1, or 0 for the
// whole trace, Rule the rule that is broken, and Text the details. String has all three.
type Problem = validate.Problem

// ProblemGroup is all defects of one kind that a validation found: Rule is the rule that
// is broken, Count their number, and First the first one.
type ProblemGroup = validate.ProblemGroup

// ValidateOptions relaxes a validation. The zero value, and nil, are strict. Its fields:
//
//   - AllowUnfinished: accepts a trace without end event and closing bracket, such as
//     the trace of a running or killed process, which may lack parents.
//   - AllowMissingParents: accepts a p_idx that names no event of the trace. Parts of a
//     rotated trace, and traces that report losses, always may.
//   - AllowOutliving: accepts events that end after their parent or begin before it.
//   - AllowForeign: accepts what other producers write, such as repeated ids, missing
//     framing and commas between records. Every record must still be strict JSON with
//     the right types.
//   - Memory: the bytes held to compare events, 32 MiB if zero. The rest is sorted in
//     temporary files in TempDir, the system's folder if empty, with about 60 bytes an
//     event.
//   - TempDir: the folder of these files.
//   - Stop: if not nil, is called now and then; its error ends the validation and is
//     returned. The Err method of a context fits.
type ValidateOptions = validate.Options

// ValidateFile reads a whole trace, plain or gzip, and reports everything that
// a strict reader could fail on: JSON, framing, key types, the order of the
// first records, ids, parents, containment and lanes. Its memory does not grow
// with the number of events. The error is about reading and temporary files,
// not about the trace.
func ValidateFile(path string, opts *ValidateOptions) (Report, error) {
	return validate.File(path, opts)
}

// RecoverOptions configures [Recover]. The zero value, and nil, are ready for use. Its
// fields:
//
//   - Output: the file for the repaired trace; if empty, the trace itself is replaced
//     and keeps its owner and permissions.
//   - Force: replaces a regular file at Output. Without it an existing file is an error
//     that matches fs.ErrExist.
//   - OnBad: is called for every line that is not a valid record. Such lines are kept in
//     whole members and left out where text is rewritten.
//   - Stop: if not nil, is called now and then; its error ends the recovery, which then
//     changes nothing, and is returned.
type RecoverOptions = recovery.Options

// RecoverReport is what [Recover] found and did. Its fields:
//
//   - Clean: the trace was complete, and nothing was changed.
//   - Dialect: a guess from the records.
//   - Lines, Bad: records found, and lines that are not valid records.
//   - CutBytes: bytes of the file that were cut off.
//   - Salvaged: records taken out of a torn last member.
//   - Closed: open spans that were closed with truncated:1.
//   - Unfinished: spans that had children and no record. Each is now an event named
//     unfinished around its children.
//   - DamagedAt: the first byte of the file that was cut off, or -1.
type RecoverReport = recovery.Report

// Recover repairs the trace of a process that was killed: it cuts the file to
// its last whole line, closes the spans that were open according to their begin
// records with the argument truncated:1, and appends the end event with
// recovered:1 and the closing bracket. A complete trace is not changed. The
// repaired trace is written beside the file and then renamed, so that Recover
// itself can be interrupted. A file that a Writer has open is refused if the
// file system supports locks.
func Recover(path string, opts *RecoverOptions) (RecoverReport, error) {
	return recovery.File(path, opts)
}

// CommandLine returns a description of this process's command line that is safe
// to publish: the program and the names of its flags, without values, joined by
// ";". A trace has it only if the program sets it in [Process].
func CommandLine() string { return tracefile.CommandLine() }

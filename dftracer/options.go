package dftracer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// Nesting chooses whether events carry level and p_idx in their args.
type Nesting uint8

// NestingAuto, the zero value, writes them in V1 and V2 and not in V22.
const (
	NestingAuto Nesting = iota
	NestingOn
	NestingOff
)

// Compression is how lines are stored.
type Compression uint8

const (
	// CompressAuto is the zero value: plain text when the file name ends in
	// ".pfw", otherwise CompressMembers.
	CompressAuto Compression = iota
	// CompressMembers writes many gzip members, each ending on a line end.
	// A reader can decompress them in parallel and a crash costs at most the last.
	CompressMembers
	// CompressSingle writes one gzip member, flushed at every FlushInterval.
	// Readers that index with zindex need it.
	CompressSingle
	// CompressNone writes plain lines.
	CompressNone
)

// SyncPolicy chooses when the file is synced to the disk. Without a sync the
// lines survive the death of the process, but not that of the machine.
type SyncPolicy uint8

// SyncNever, the zero value, leaves it to the operating system.
const (
	SyncNever   SyncPolicy = iota
	SyncOnClose            // once, by Close
	SyncAlways             // after every member or flush
)

// Existing chooses what Create does if the file already exists. Create never
// overwrites it.
type Existing uint8

// ExistingNext, the zero value, takes the next free name: trace.run2.pfw.gz.
const (
	ExistingNext Existing = iota
	ExistingFail          // return an error that matches os.ErrExist
)

// DefaultMemberSize is how much text goes into a gzip member.
const DefaultMemberSize = 1 << 20

// DefaultFlushInterval is the FlushInterval of the zero Options. A killed
// process loses at most what it wrote in this time.
const DefaultFlushInterval = fswrite.FlushInterval

const levelAdaptive = 0

// Options configures a Writer. The zero value, and nil, mean V2 with metadata,
// in gzip members of about 1 MiB of text or half a second. The Writer copies
// it.
type Options struct {
	// Dialect is the generation to write.
	Dialect Dialect
	// NoMetadata leaves out the args of all events and the FH and SH records.
	NoMetadata bool
	// NoTIDs writes 0 as the tid of every record, as DFTracer does when thread ids
	// are switched off. Viewers that nest by containment then show concurrent spans
	// as nested.
	NoTIDs bool
	// Nesting overrides whether level and p_idx are written.
	Nesting Nesting

	// Compression, Level and MemberSize (bytes of text, 0 means DefaultMemberSize)
	// shape the file. Level goes from 1, fastest, to 9, smallest. 0 means level 6
	// while compression keeps up with the program, and level 1 for members written
	// while it does not; with CompressSingle it is always 6.
	Compression Compression
	Level       int
	MemberSize  int
	// FlushInterval is how often buffered lines are written to the file, as a gzip
	// member; 0 means DefaultFlushInterval.
	FlushInterval time.Duration
	// Pool, if not nil, makes the Writer share memory with the other Writers of the
	// Pool.
	Pool *Pool
	// Sync chooses when the file is synced to the disk.
	Sync SyncPolicy
	// RotateSize, when positive, makes the Writer continue in a new file
	// (trace.1.pfw.gz, trace.2.pfw.gz, ...) once this many bytes are in the
	// current one. Every part is a complete trace, but repeats only the first 16,384
	// names that hashes stand for. NewWriter does not rotate.
	RotateSize int64
	// RemoveEmpty makes Close delete a file with fewer than five events, as DFTracer
	// does.
	RemoveEmpty bool

	// Existing chooses what happens to a file that is already there.
	Existing Existing
	// OnPath is called by Create if the file got another name than the one asked
	// for, and by a goroutine of the Writer whenever it continues in another file.
	// It must not call the Writer.
	OnPath func(path string)
	// HashName makes Create treat the path as a prefix and write to
	// <prefix>-<hash16>-app.pfw.gz, the name that DFTracer gives.
	HashName bool
	// Process is the process that the trace is about. The zero value means this
	// process, with an unknown place in a job.
	Process Process
	// Version is the version text of the start event; "" means the dialect's
	// version.
	Version string

	// Start is when the job of the trace began, if that is known when the file is
	// opened. It is for traces that are written afterwards, such as imports and
	// received streams. The start event then has this time, and the end event has
	// the latest end of all events or the time that SetEnd sets; both have the
	// argument written_ts, the time of writing in microseconds. The zero Start
	// means a trace written live: both events have the time of Now.
	Start time.Time

	// Heartbeat is the time between two records that show that the process is
	// alive, also while nothing else is recorded. 0 means 10 s, or no such records
	// in a trace that is written afterwards, see Start. A negative value switches
	// them off.
	Heartbeat time.Duration

	// StallMemory is how many bytes wait in memory while the file fails or takes
	// nothing; 0 means 64 MiB. StallWait is how long calls wait in total once
	// that memory is full, before lines are dropped; 0 means 100 ms, and a negative
	// time means that calls wait until there is room.
	StallMemory int
	StallWait   time.Duration

	// OnError is called when an outage of the file begins and when it ends, with an
	// error that matches *Outage, and for other errors, such as a failed sync. It
	// may be called on any goroutine that uses the Writer and on the Writer's own;
	// it must not call the Writer. With nil, errors are only counted and returned
	// by Close.
	OnError func(error)
	// Now returns the time for the start and end records; nil means time.Now.
	Now func() time.Time
}

// Outage is an error about a time in which the file could not be written. It is
// reported when that time begins and when it ends: Path is the file, Cause the
// error behind it, which Unwrap returns, and Over is true at the end. For is
// then how long it lasted, and Lost how many lines are missing because of it.
// Error describes it in one line.
type Outage = fswrite.Outage

// ErrClosed is matched by an error of [Writer.Suspend] after which the Writer
// is closed.
var ErrClosed = tracefile.ErrClosed

// ErrStalled is the cause of an Outage in which the file takes nothing.
var ErrStalled error = fswrite.ErrStalled

func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.MemberSize == 0 {
		opts.MemberSize = DefaultMemberSize
	}
	if opts.FlushInterval == 0 {
		opts.FlushInterval = DefaultFlushInterval
	}
	if opts.Heartbeat == 0 && opts.Start.IsZero() {
		opts.Heartbeat = tracefile.DefaultHeartbeat
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if err := opts.validate(); err != nil {
		return Options{}, err
	}
	opts.Process = opts.Process.withDefaults()
	if opts.Version == "" {
		opts.Version = dialectVersion(opts.Dialect)
	}
	return opts, nil
}

func (o *Options) validate() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("dftracer: "+format, args...))
		}
	}
	bad(o.Dialect > V22, "unknown dialect %d", o.Dialect)
	bad(o.Nesting > NestingOff, "unknown nesting %d", o.Nesting)
	bad(o.Compression > CompressNone, "unknown compression %d", o.Compression)
	bad(o.Sync > SyncAlways, "unknown sync policy %d", o.Sync)
	bad(o.Existing > ExistingFail, "unknown policy %d for existing files", o.Existing)
	bad(o.Level < 0 || o.Level > 9, "compression level %d is not between 0 and 9", o.Level)
	bad(o.MemberSize < 0, "negative member size %d", o.MemberSize)
	bad(o.FlushInterval < 0, "negative flush interval %v", o.FlushInterval)
	bad(o.Process.WorldSize < 0, "negative world size %d", o.Process.WorldSize)
	bad(o.StallMemory < 0, "negative stall memory %d", o.StallMemory)
	bad(o.RotateSize < 0, "negative rotation size %d", o.RotateSize)
	return errors.Join(errs...)
}

// dialectVersion returns the DFTracer release that a dialect follows.
func dialectVersion(d Dialect) string {
	switch d {
	case V1:
		return "1.0.8"
	case V22:
		return "2.2.0"
	}
	return "2.0.0"
}

// Process is the process that a trace is about. Empty fields of the first group
// are filled in from the running process. Importers that write on behalf of
// another process set them. Empty fields of the second group, the place in a
// job, are unknown.
type Process struct {
	PID, PPID int
	Host      string // host name
	Exec      string // base name of the program
	Command   string // command line, its arguments joined by ";"; by default only the program, see [CommandLine]
	Dir       string // working directory

	// Rank, when not nil, replaces {rank} in the path and is written as the
	// PR record. Without it {rank} becomes 0.
	Rank *int
	// WorldSize is the number of ranks of the job; 0 is unknown. A size above 1
	// becomes an argument of the start event, so that readers know which ranks are
	// missing. If the path has no {rank}, "-rank2" (for rank 2) then goes before
	// its extension.
	WorldSize int
	// Attempt counts the starts of the job from zero; nil is unknown. Attempt,
	// JobID (the launcher's job id) and SessionTag become arguments of the start
	// event.
	Attempt    *int
	JobID      string
	SessionTag string
}

func (p Process) withDefaults() Process {
	if p.PID == 0 {
		p.PID = os.Getpid()
	}
	if p.PPID == 0 {
		p.PPID = os.Getppid()
	}
	if p.Host == "" {
		p.Host = identity.HostName()
	}
	if p.Command == "" {
		p.Command = tracefile.Arguments()[0]
	}
	if p.Exec == "" {
		first, _, _ := strings.Cut(p.Command, ";")
		p.Exec = filepath.Base(first)
	}
	if p.Dir == "" {
		p.Dir, _ = os.Getwd()
	}
	return p
}

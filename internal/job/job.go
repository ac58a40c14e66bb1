// Package job reads the files of a training job's processes and assembles the
// job: its attempts, ranks, spans and events, the last heartbeat of each
// process, and what is missing.
package job

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/spans"
)

// Job is one run: all attempts of all ranks with one session tag that belong
// together.
type Job struct {
	ID         string // the launcher's id, empty if unknown
	SessionTag string // empty if unknown
	Ranks      int    // the expected number, 0 if unknown

	// Processes are the training processes, by rank, attempt and start.
	Processes []*Process

	// Helpers are processes that only serve training processes, such as workers of
	// a data loader. Goodput accounting ignores them.
	Helpers []*Process

	// Starts are how its commands were started and ended, from run.json files, in
	// the order of time.
	Starts []*rundir.Run

	// Silent are the attempts that ended before anything of them was recorded.
	Silent []Silent
	// Label is the displayed name of the run: the name of what was started and the
	// number of its first attempt, or other known properties. Empty without a
	// process.
	Label string
	// Group is how many processes the runs with its session tag have.
	Group int

	at *running // see AttemptAt
}

// Silent is an attempt without records except of how its commands were started.
type Silent struct {
	Attempt     int // from 1; 0 if its number belongs to another attempt
	Start, Stop int64
	Starts      int // on all nodes

	folder int
	job    string
}

// Process is what is known about one process of a job: one attempt of one rank.
// Its fields are complete once [Set.Read] has returned; Rank and Attempt may
// change until then, the times are final when its [Sink] is closed.
type Process struct {
	Rank      int
	RankKnown bool // a record or the file's name has it

	// Attempt counts from 1, even if the launcher counts from 0.
	Attempt      int
	AttemptKnown bool // a record has it; otherwise it follows from the order in time

	// Run is the Label of its job if there are several jobs.
	Run string

	Host       string // name or, if no record has it, hash or substitute: see KnownHost
	PID        int64
	ParentPID  int64 // 0 if unknown
	JobID      string
	SessionTag string
	WorldSize  int // 0 if unknown

	Start    int64 // the earliest time of any record, nanoseconds since the epoch
	End      int64 // when the application ended regularly, or NoEnd
	LastSeen int64 // the latest time of any record or heartbeat

	Heartbeats bool // it has heartbeats
	// Flush is how long a record may wait in the memory of the process: the last
	// records of a killed process may be missing for this time. 0 if unknown.
	Flush int64
	Spans int64 // in its files, including copies; in a trace only spans with an end

	// Training is true if there is a training loop, an iteration or another span
	// that only training has.
	Training bool

	// Profile is true if its records come from a profiler of some steps, not from a
	// recording of the whole program.
	Profile bool

	// Exported marks a process whose records are spans sent by OTLP: another file
	// of the process may have copies of them.
	Exported bool
	// OtherSignals counts the lines of log records and metrics beside its spans.
	OtherSignals int64

	// Facts are what the Python client wrote about its process, as JSON, by the
	// keys that begin with Fact; may be nil.
	Facts map[string]string

	// Groups has the first member of each process group, by name, as far as it is
	// recorded; may be nil. It is complete when the records have been read.
	Groups map[string]int

	// Steps are the training steps.
	Steps Steps

	// Failures are the errors that it ended with, and its reports of other failed
	// processes.
	Failures []Failure

	// Files is the process's use of files, if its traces have it. Of more than 4096
	// files the rest is one without a path.
	Files []FileUse

	// BadLoss is where the loss stopped being a finite number permanently.
	BadLoss BadLoss
	// Samples are the samples that trainspan run took of the process, nil without
	// any.
	Samples *Samples

	Sources []string // the telemetry files
	Damage

	// State while its records are read, from which the other fields follow.
	who *identity.Identity // the evidence of its identity, while it is read

	tail             bool   // something follows after the last gzip member of a file
	lived            bool   // some spans cannot come from a profiler
	recorded         int    // see recordedAttempt
	appStart, appEnd int64  // of the application span, Unknown if there is none
	fileEnd          int64  // of the end record, Unknown if there is none
	digest           uint64 // a hash of its spans, independent of their order
}

// BadLoss is the first of the final losses if all of them are NaN or infinite.
// Its zero value means that the last loss is finite, or that there is none.
type BadLoss struct {
	At   int64 // nanoseconds since the epoch
	Step int64 // Unknown without a number
}

// addLoss notes the loss at a time.
func (p *traceProcess) addLoss(at, step int64, finite bool) {
	switch {
	case finite:
		if p.lastLoss = max(p.lastLoss, at); p.BadLoss.At <= at {
			p.BadLoss = BadLoss{}
		}
	case at > p.lastLoss && (p.BadLoss.At == 0 || at < p.BadLoss.At):
		p.BadLoss = BadLoss{At: at, Step: step}
	}
}

// The keys of Process.Facts.
const (
	FactInjected = "injected"     // delays that trainspan run --inject requested, and those that were made
	FactCode     = "other_code"   // lines of the program between which steps spend much time
	FactDataset  = "dataset"      // what its data loader reads
	FactMissing  = "not_recorded" // what the client could not record, and why: a list of texts
	FactSampled  = "device_steps" // how many steps have times of its device, which are then read together: "8 of 32"
)

// Damage describes defects of the files of a process.
type Damage struct {
	Torn    bool  // one of them ends in the middle of a record
	Cut     bool  // damage has removed or changed records: see damage.go
	Bad     int   // lines that are not records
	Dropped int64 // spans that the files report as missing

	// Aside counts the spans and other records that were left out because they end
	// before they begin, or are more than [MaxApart] from the median of the times
	// of their file. BadNumbers counts invalid ranks, world sizes and attempts: see
	// [MaxRanks].
	Aside      int
	BadNumbers int
	// Doubt names what evidence disagrees on: the rank, the world size or the
	// attempt. The stronger evidence is used. Empty if there is no disagreement.
	Doubt string
	// RelativeClock is true if the times of its file count from an unknown start.
	RelativeClock bool
}

// add adds the defects of further files of the same process.
func (d *Damage) add(o *Damage) {
	d.Torn, d.Cut, d.RelativeClock = d.Torn || o.Torn, d.Cut || o.Cut, d.RelativeClock || o.RelativeClock
	d.Bad, d.Dropped, d.Aside, d.BadNumbers = d.Bad+o.Bad, d.Dropped+o.Dropped, d.Aside+o.Aside, d.BadNumbers+o.BadNumbers
	d.Doubt = cmp.Or(d.Doubt, o.Doubt)
}

func newProcess() *Process {
	return &Process{
		End: NoEnd, Start: NoEnd, LastSeen: Unknown,
		who: &identity.Identity{}, appStart: Unknown, appEnd: Unknown, fileEnd: Unknown,
	}
}

// widen extends the lifetime of the process to a time.
func (p *Process) widen(t int64) {
	if t < 0 || t == NoEnd {
		return
	}
	p.Start, p.LastSeen = min(p.Start, t), max(p.LastSeen, t)
}

// command identifies the processes without a rank of one start on one host.
type command struct {
	job, host string
	attempt   int
}

// KnownHost returns the host, or "" if it is a substitute for one that no record has.
func (p *Process) KnownHost() string {
	if !identity.IsKnown(p.Host) {
		return ""
	}
	return p.Host
}

func (p *Process) command() command { return command{p.JobID, p.Host, p.recordedAttempt()} }

// preparations returns a function that reports whether a process ran before the
// program that trains, as in sh -c 'prep; train': it made no step. If a
// launcher gave ranks, it may instead be an attempt that failed early, which
// the launcher restarted.
func preparations(all []*Process) func(p *Process) bool {
	trained := make(map[command]int64) // the latest start of a process with steps
	for _, o := range all {
		if at, ok := trained[o.command()]; !o.RankKnown && o.Steps.Count > 0 && (!ok || o.Start > at) {
			trained[o.command()] = o.Start
		}
	}
	return func(p *Process) bool {
		if p.RankKnown || p.JobID == "" || p.recordedAttempt() <= 0 || p.Steps.Count > 0 || p.Steps.Begun {
			return false
		}
		at, ok := trained[p.command()]
		return ok && p.LastSeen <= at
	}
}

// relatives returns a function that reports whether a process made no step and is the parent or the child of one
// that did: a parent that waits and evaluates, or a child that evaluates. Such a process is not a rank, unless a
// launcher gave it a rank. A child that did not end well may have been one.
func relatives(all []*Process) func(p *Process) bool {
	type place struct {
		host string
		pid  int64
	}
	trained := make(map[place][]*Process)
	parents := make(map[place][]*Process) // of these
	for _, o := range all {
		if o.Steps.Count > 0 && o.PID > 0 && o.Host != "" {
			trained[place{o.Host, o.PID}] = append(trained[place{o.Host, o.PID}], o)
			parents[place{o.Host, o.ParentPID}] = append(parents[place{o.Host, o.ParentPID}], o)
		}
	}
	return func(p *Process) bool {
		if p.RankKnown || p.Host == "" || p.Steps.Count > 0 || p.Steps.Begun {
			return false
		}
		began := func(parent, child *Process) bool {
			return parent.Start <= child.Start && child.Start <= parent.LastSeen
		}
		return slices.ContainsFunc(parents[place{p.Host, p.PID}], func(o *Process) bool { return began(p, o) }) ||
			p.End != NoEnd && len(p.Failures) == 0 && slices.ContainsFunc(trained[place{p.Host, p.ParentPID}], func(o *Process) bool { return began(o, p) })
	}
}

// finish settles the times after the last record.
func (p *Process) finish() {
	p.who = nil
	p.Profile = p.Profile && !p.lived
	if p.LastSeen == Unknown {
		p.Start, p.LastSeen = 0, 0
		return
	}
	switch {
	case p.appEnd != Unknown:
		p.End = p.appEnd
	case p.fileEnd != Unknown:
		p.End = p.fileEnd
	}
	p.settleDamage()
	if p.appStart != Unknown {
		// Times in the files before the application, such as when they were opened, are
		// not part of the attempt.
		p.Start = p.appStart
	}
}

// ByTime orders processes as they were read by start, and those that began
// together by other properties.
func ByTime(a, b *Process) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.LastSeen, b.LastSeen), cmp.Compare(a.Rank, b.Rank),
		cmp.Compare(a.PID, b.PID), cmp.Compare(a.Host, b.Host), slices.Compare(a.Sources, b.Sources), cmp.Compare(a.digest, b.digest))
}

// recordedAttempt returns the attempt in the records, or 0; Attempt also
// depends on the job.
func (p *Process) recordedAttempt() int {
	if p.AttemptKnown && p.recorded == 0 {
		p.recorded = p.Attempt
	}
	return p.recorded
}

// Failure is an error with which a process ended, or the end of a process that
// it had started.
type Failure struct {
	Time int64  // nanoseconds since the epoch
	Type string // of the exception, with its module
	Text string // the line with the error message, without secrets; may be empty

	// Place is the file and line in the program's own code that raised the
	// exception, and Code the text of that line, without secrets; both may be
	// empty.
	Place, Code string

	// Child is the failed process if it is another one, as a launcher reports it,
	// and zero for the process itself. Rank is its rank, Unknown if not known, and
	// Status its exit status, or the negated signal that ended it.
	Child  int64
	Rank   int64
	Status int64
}

// running finds the latest attempt that was running at any time, among the
// added processes.
type running struct {
	edges  []int64 // where processes begin and end
	latest []int   // a tree of intervals between edges, the leaves last
}

func (j *Job) add(p *Process) {
	j.Ranks = max(j.Ranks, p.WorldSize)
	if j.ID == "" {
		j.ID = p.JobID
	}
	j.Processes = append(j.Processes, p)
}

// RanksIn returns the number of ranks of an attempt: the largest world size on record in it, or else that of the job. An
// elastic job has attempts of several sizes.
func (j *Job) RanksIn(attempt int) int {
	most := 0
	for _, p := range j.Processes {
		if p.Attempt == attempt {
			most = max(most, p.WorldSize)
		}
	}
	return cmp.Or(most, j.Ranks)
}

// maxFiles bounds the files of a process that are counted separately.
const maxFiles = 4096

// FileUse is what one or more processes did with one file, according to their
// traces: DFTracer's events of the categories POSIX and STDIO. If a file has
// both, those of STDIO are left out, because the C library's calls result in
// system calls.
type FileUse struct {
	Path    string // the hash if no record has the name; empty for calls without a file
	Read    Transfer
	Written Transfer
	Other   Transfer // calls that transfer nothing: open64, stat, lseek64; their Bytes are 0
	Failed  int64    // calls of all kinds
}

// Transfer adds up calls.
type Transfer struct {
	Calls int64 `json:"calls"`
	Bytes int64 `json:"bytes"`
	Time  int64 `json:"time_ns"` // of all calls together, even if they overlap
	Least int64 `json:"least"`   // bytes of the smallest call
	Most  int64 `json:"most"`    // bytes of the largest call
	// Longest is the time of the longest call.
	Longest int64 `json:"longest_ns"`
}

// Add adds the calls of o.
func (t *Transfer) Add(o Transfer) {
	if o.Calls == 0 {
		return
	}
	if t.Calls == 0 {
		*t = o
		return
	}
	t.Calls, t.Bytes, t.Time = t.Calls+o.Calls, t.Bytes+o.Bytes, t.Time+o.Time
	t.Least, t.Most, t.Longest = min(t.Least, o.Least), max(t.Most, o.Most), max(t.Longest, o.Longest)
}

// Add adds what o did with the same file.
func (u *FileUse) Add(o *FileUse) {
	u.Read.Add(o.Read)
	u.Written.Add(o.Written)
	u.Other.Add(o.Other)
	u.Failed += o.Failed
}

// Time returns the time of all calls together.
func (u *FileUse) Time() int64 { return u.Read.Time + u.Written.Time + u.Other.Time }

// fileUse is the use of a file while its trace is read.
type fileUse struct{ posix, stdio FileUse }

// MaxRanks bounds ranks, world sizes and attempts: larger numbers are ignored.
const MaxRanks = identity.MaxRanks

// hear adds the evidence of a trace event about its process.
func (p *Process) note(ev *dftracer.Event) {
	switch {
	case ev.Phase == dftracer.PhaseMetadata:
		key, value := ev.Meta()
		switch _, at := ev.Arg(argSpan); {
		case ev.Name == tracefile.NameProcess && key == argRank:
			p.say(identity.Record, key, value)
		case ev.Name == tracefile.NameCustom && key == spans.EventOneLoggerInitialization:
			p.arguments(identity.Event, ev)
		case ev.Name == tracefile.NameCustom && !at && key != argRank: // which belongs to PR
			p.say(identity.Record, key, value)
		}
	case ev.Cat == dftracer.CatDFTracer && ev.Name == tracefile.NameStart:
		p.arguments(identity.Start, ev)
	}
}

func (p *Process) arguments(from identity.Source, ev *dftracer.Event) {
	for i := range ev.Args {
		p.say(from, ev.Args[i].Key, ev.Args[i].Text())
	}
}

// attributes adds the evidence of attributes of a JSON-lines event.
func (p *Process) attributes(all arguments) {
	for _, a := range all {
		switch n, whole := tracefile.Whole(a); {
		case tracefile.KindOf(a) == tracefile.KindString:
			p.say(identity.Event, a.Key, a.Text())
		case whole:
			p.say(identity.Event, a.Key, strconv.FormatInt(n, 10))
		}
	}
}

func (p *Process) say(from identity.Source, key, value string) {
	p.who.Say(from, key, value)
	p.applyEvidence()
}

func (p *Process) sayNumber(from identity.Source, f identity.Field, n int) {
	p.who.SayNumber(from, f, int64(n))
	p.applyEvidence()
}

// named adds the evidence of its file's name.
func (p *Process) named(path string) {
	if rank := identity.RankInName(path); rank >= 0 {
		p.sayNumber(identity.Name, identity.Rank, rank)
	}
}

// applyEvidence sets the fields from the evidence so far. Recorded attempts
// count from 0.
func (p *Process) applyEvidence() {
	id := p.who
	p.Rank, p.RankKnown = id.Rank.Get(), id.Rank.IsSet()
	if p.AttemptKnown = id.Attempt.IsSet(); p.AttemptKnown {
		p.Attempt = id.Attempt.Get() + 1
		p.recorded = p.Attempt
	}
	p.WorldSize, p.ParentPID = id.WorldSize.Get(), int64(id.Parent.Get())
	p.Host, p.JobID, p.SessionTag = cmp.Or(id.Host, p.Host), id.Job, id.Session
	p.BadNumbers, p.Doubt = id.Bad, id.Doubt()
}

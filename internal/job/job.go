// Package job puts a training job together from the files that its processes
// left: job, attempts, ranks, spans, events, the last sign of life of each
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

// Job is one run: all attempts of all ranks with one session tag that belong together.
type Job struct {
	ID         string // of the launcher, empty when it is not known
	SessionTag string // empty when it is not known
	Ranks      int    // how many it should have, 0 when that is not known

	// Processes are those of the training, by rank, attempt and start.
	Processes []*Process

	// Helpers are processes that only serve one of those, such as workers of
	// a data loader. No ledger counts them.
	Helpers []*Process

	// Starts are how its commands were started and ended, as run.json files say it, in
	// the order of time.
	Starts []*rundir.Run

	// Silent are the attempts that ended before anything of them was recorded.
	Silent []Silent
	// Label is the name of the run beside others: that of what was started and the number
	// of its first attempt, or what else there is. Empty without a process.
	Label string
	// Group is how many processes the runs with its session tag have.
	Group int

	at *running // see AttemptAt
}

// Silent is an attempt without records except of how its commands were started.
type Silent struct {
	Attempt     int // from 1; 0 where another has the number that it was given
	Start, Stop int64
	Starts      int // on all nodes

	folder int
	job    string
}

// Process is what is known of one process of a job: one attempt of one rank.
// Its fields are complete once [Set.Read] has returned; Rank and Attempt may
// change until then, the times are final when its [Sink] is closed.
type Process struct {
	Rank      int
	RankKnown bool // a record or the file's name said it

	// Attempt counts from 1, also where the launcher counts from 0.
	Attempt      int
	AttemptKnown bool // a record said it; otherwise it follows from the order in time

	// Run is the Label of its job where there are several.
	Run string

	Host       string // name or, where no record says it, hash
	PID        int64
	ParentPID  int64 // 0 when it is not known
	JobID      string
	SessionTag string
	WorldSize  int // 0 when it is not known

	Start    int64 // the earliest time of any record, nanoseconds since the epoch
	End      int64 // when the application ended properly, or NoEnd
	LastSeen int64 // the latest time of any record or heartbeat

	Heartbeats bool // there was one
	// Flush is for how long a record may have waited in the memory of the process, so
	// that its last ones may be missing where it was killed; 0 where no record says it.
	Flush int64
	Spans int64 // in its files, copies included; of a trace those that ended or were given an end

	// Training says that there was a training loop, an iteration or another
	// span that only the training itself has.
	Training bool

	// Profile says that its records are what a profiler saw of some steps, and not
	// what a program tells from its beginning to its end.
	Profile bool

	// Exported marks a process whose records are spans that were sent by OTLP: another file
	// of the process may have copies of them.
	Exported bool
	// OtherSignals counts the lines of log records and metrics beside its spans.
	OtherSignals int64

	// Facts are what the client for Python wrote about its process, as JSON, by the
	// names that begin with Fact; nil for none.
	Facts map[string]string

	// Steps are the training steps.
	Steps Steps

	// Failures are the errors that it ended with, and what it tells of others that failed.
	Failures []Failure

	// Files is what the process did with files, where its traces say that. Of
	// more than 4096 files the rest is one without a path.
	Files []FileUse

	// BadLoss is where the loss stopped being a finite number, if it never was one again.
	BadLoss BadLoss
	// Samples are what trainspan run saw of it from outside, nil without any.
	Samples *Samples

	Sources []string // the telemetry files
	Damage

	// What its records have said on the way, from which the rest follows.
	who *identity.Identity // what was said of it, while it is read

	tail             bool   // something stands behind the last gzip member of a file
	lived            bool   // spans say of it what no profiler does
	recorded         int    // see recordedAttempt
	appStart, appEnd int64  // of the application span, Unknown when there is none
	fileEnd          int64  // of the end record, Unknown when there is none
	digest           uint64 // of what its spans are, in any order
}

// BadLoss is the first of the last losses on record that are all NaN or infinite. Its zero
// value means that the last loss is a number, or that none is on record.
type BadLoss struct {
	At   int64 // nanoseconds since the epoch
	Step int64 // Unknown without a number
}

// addLoss takes the loss of a moment.
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
	FactInjected = "injected"   // delays that trainspan run --inject asked for, and that were made
	FactCode     = "other_code" // lines of the program between which steps spend long
	FactDataset  = "dataset"    // what its data loader reads
)

// Damage is what is wrong with the files of a process.
type Damage struct {
	Torn    bool  // one of them ends in the middle of a record
	Cut     bool  // damage has taken or changed records: see damage.go
	Bad     int   // lines that are no record
	Dropped int64 // spans that the files say are missing

	// Aside counts the spans and other records that were left out because they
	// end before they begin, or lie more than [MaxApart] from the median of the
	// times of their file. BadNumbers counts ranks, world sizes and attempts that
	// are none: see [MaxRanks].
	Aside      int
	BadNumbers int
	// Doubt is on what evidence disagrees: the rank, the world size or the attempt.
	// The stronger counts. Empty is on nothing.
	Doubt string
	// RelativeClock says that the times of its file count from something that the
	// file does not say.
	RelativeClock bool
}

// add adds what is wrong with further files of the same process.
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

// widen widens the time in which the process gave signs of life.
func (p *Process) widen(t int64) {
	if t < 0 || t == NoEnd {
		return
	}
	p.Start, p.LastSeen = min(p.Start, t), max(p.LastSeen, t)
}

// command is what the processes without a rank of one start on one host have in common.
type command struct {
	job, host string
	attempt   int
}

func (p *Process) command() command { return command{p.JobID, p.Host, p.recordedAttempt()} }

// preparations returns what reports whether a process is what a start ran before the
// program that trains, as in sh -c 'prep; train': it made no step. Where a launcher gave
// ranks it may be an attempt that failed as it began, which the launcher started again.
func preparations(all []*Process) func(p *Process) bool {
	trained := make(map[command]int64) // the latest start of what made steps
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

// relatives returns what reports whether a process is none of the training's, but the parent of one that made
// steps, or its child: it waits and evaluates, or evaluates beside the training. It made no step itself. Where a
// launcher gave it a rank it is that rank, and a child that did not end well may have been one.
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
		// What the files say of the time before the application, such as when
		// they were opened, is not part of the attempt.
		p.Start = p.appStart
	}
}

// byTime orders processes by start, and those that began together by
// whatever tells them apart.
func byTime(a, b *Process) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.LastSeen, b.LastSeen), cmp.Compare(a.Rank, b.Rank),
		cmp.Compare(a.PID, b.PID), cmp.Compare(a.Host, b.Host), slices.Compare(a.Sources, b.Sources))
}

// recordedAttempt is the attempt that records said, 0 without one: what Attempt is
// depends on the job.
func (p *Process) recordedAttempt() int {
	if p.AttemptKnown && p.recorded == 0 {
		p.recorded = p.Attempt
	}
	return p.recorded
}

// Failure is an error that a process ended with, or the end of one that it had started.
type Failure struct {
	Time int64  // nanoseconds since the epoch
	Type string // of the exception, with its module
	Text string // the line that says what was wrong, without secrets; empty where nothing does

	// Place is the file and line of the program's own code in which the exception came up, and
	// Code that line of its source, without secrets; both may be empty.
	Place, Code string

	// Child is the process that failed where that is another one, as a launcher tells, and
	// zero for the process itself. Rank is its rank, Unknown where that is not said, and
	// Status its exit status, or less than zero the signal that ended it.
	Child  int64
	Rank   int64
	Status int64
}

// running knows the latest attempt that was running at any moment, of the
// processes that were put into it.
type running struct {
	edges  []int64 // where processes begin and end
	latest []int   // a tree of stretches between edges, the leaves behind
}

func (j *Job) add(p *Process) {
	j.Ranks = max(j.Ranks, p.WorldSize)
	if j.ID == "" {
		j.ID = p.JobID
	}
	j.Processes = append(j.Processes, p)
}

// maxFiles bounds the files of a process that are counted separately.
const maxFiles = 4096

// FileUse is what one or more processes did with one file, as far as their
// traces say: DFTracer's events of the categories POSIX and STDIO. Where a file
// has both, those of STDIO are left out, because the C library's calls end in
// calls to the system.
type FileUse struct {
	Path    string // the hash where no record has the name; empty for calls that name no file
	Read    Transfer
	Written Transfer
	Other   Transfer // calls that move nothing: open64, stat, lseek64; their Bytes are 0
	Failed  int64    // calls of all kinds
}

// Transfer adds up calls.
type Transfer struct {
	Calls int64 `json:"calls"`
	Bytes int64 `json:"bytes"`
	Time  int64 `json:"time_ns"` // of all calls together, whether they overlap or not
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

// Time is that of all calls together.
func (u *FileUse) Time() int64 { return u.Read.Time + u.Written.Time + u.Other.Time }

func (u *FileUse) used() bool { return u.Read.Calls+u.Written.Calls+u.Other.Calls > 0 }

// fileUse is what is known of a file while its trace is read.
type fileUse struct{ posix, stdio FileUse }

// MaxRanks bounds ranks, world sizes and attempts: a number from it on is none.
const MaxRanks = identity.MaxRanks

// hear takes what an event of a trace says of its process.
func (p *Process) hear(ev *dftracer.Event) {
	switch {
	case ev.Phase == dftracer.PhaseMetadata:
		key, value := ev.Meta()
		switch _, at := ev.Arg(argSpan); {
		case ev.Name == tracefile.NameProcess && key == argRank:
			p.say(identity.Record, key, value)
		case ev.Name == tracefile.NameCustom && key == spans.EventOneLoggerInitialization:
			p.arguments(identity.Event, ev)
		case ev.Name == tracefile.NameCustom && !at && key != argRank: // which is that of PR
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

// attributes takes what the attributes of an event of JSON lines say.
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

// named takes what the name of its file says of a process.
func (p *Process) named(path string) {
	if rank := identity.RankInName(path); rank >= 0 {
		p.sayNumber(identity.Name, identity.Rank, rank)
	}
}

// applyEvidence tells what the evidence so far says. Recorded attempts count from 0.
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

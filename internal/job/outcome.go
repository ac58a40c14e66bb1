package job

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/redact"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/internal/tracefile/pytext"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Keys of the records of errors, beside those of package attributes.
const (
	argChild  = "failed_pid"
	argFailed = "failed_rank"
	argStatus = "exit_status"
)

// failure parses the record of an error.
func failure(at int64, args []dftracer.Arg) *Failure {
	f := &Failure{Time: at, Rank: Unknown}
	message := ""
	for i := range args {
		a := &args[i]
		switch a.Key {
		case onelogger.ExceptionType:
			f.Type = tracefile.Str(*a)
		case onelogger.ExceptionMessage:
			message = tracefile.Str(*a)
		case onelogger.ErrorMessage:
			message = cmp.Or(message, tracefile.Str(*a))
		case argChild:
			f.Child = a.Int64()
		case argFailed:
			f.Rank = number(a)
		case argStatus:
			f.Status = a.Int64()
		case vocab.ExceptionAt:
			f.Place = tracefile.Str(*a)
		case vocab.ExceptionCode:
			f.Code = redact.Text(tracefile.Str(*a))
		}
	}
	text := message
	if f.Type != "" {
		text = strings.TrimSuffix(f.Type+": "+message, ": ")
	}
	f.Text = redact.Text(pytext.ExceptionLine(text))
	return f
}

// maxFailures bounds the failures of a process: a launcher reports each rank.
const maxFailures = 1024

// settleFailures drops the errors after which training continued.
func (p *Process) settleFailures() {
	last := int64(0)
	for _, s := range p.Steps.All() {
		last = max(last, s.Start)
	}
	p.Failures = slices.DeleteFunc(p.Failures, func(f Failure) bool { return f.Child == 0 && f.Time < last })
}

// How is the way in which something ended.
type How string

// The values of [How].
const (
	Completed   How = "completed"
	Failed      How = "failed"        // by an exception or with an exit status
	Killed      How = "killed"        // by a signal that is not sent to end it regularly
	OutOfMemory How = "out_of_memory" // by the system's out-of-memory killer
	Stopped     How = "stopped"       // by a person or a scheduler
	NotStarted  How = "not_started"
	Unfinished  How = "running" // when its files were written
	Lost        How = "unknown" // the end was not observed
	Hung        How = "hung"    // its ranks wait for one that does not come, or did when it was ended
)

// Bad reports whether something ended early without a request to end.
func (h How) Bad() bool {
	switch h {
	case Failed, Killed, OutOfMemory, NotStarted:
		return true
	}
	return false
}

// Outcome is how a run, one of its attempts or a start of a command ended.
type Outcome struct {
	How  How    `json:"how"`
	Text string `json:"text"`
	At   int64  `json:"at_ns"` // the end, or the last heartbeat

	// About the first failure: rank, host, exit status, signal and the exception's
	// line, as far as known.
	Rank   *int   `json:"rank,omitempty"`
	Host   string `json:"host,omitempty"`
	Status *int   `json:"exit_status,omitempty"`
	Signal string `json:"signal,omitempty"`
	Error  string `json:"error,omitempty"`
	// ErrorAt is the file and line in the program's own code that raised the
	// exception, such as "train.py:12", and ErrorCode the text of that line,
	// without secrets.
	ErrorAt   string `json:"error_at,omitempty"`
	ErrorCode string `json:"error_code,omitempty"`
	// Ranks is how many failed, if more than one did.
	Ranks int `json:"failed_ranks,omitempty"`

	where, head, tail string
	seen              int64  // the last heartbeat of what ended silently
	weight            int    // of the evidence that explains it
	what, then        string // of a hang: in what they stopped, and how it ended
}

// Sentence returns it as a sentence with its duration.
func (o *Outcome) Sentence(took int64) string {
	text := strings.ToUpper(o.head[:1]) + o.head[1:]
	if o.How != Unfinished && took > 0 {
		text += " after " + display.Duration(took)
	}
	if o.tail != "" {
		text += ": " + o.tail
	}
	return strings.TrimRight(text, ".…") + "."
}

// end is an observed end. Evidence with more weight explains the rest: the
// other ranks fail when one is killed, and are then ended.
type end struct {
	own    bool // reported by what ended
	weight int
	at     int64
	o      Outcome
}

const (
	onlySeen   = iota // alive, or ended silently
	wasEnded          // by SIGTERM and similar signals
	hasStatus         // without a cause
	hasNoticed        // that another process has gone
	hasFailed         // or was stopped
	wasDropped        // by the system
)

// stopping is how long after a signal that asks for the end an end counts as
// requested: a checkpoint may be written first.
const stopping = 10 * time.Minute

// OutcomeOf returns how related commands ended, and why, by what trainspan run
// observed and what their processes recorded. It returns nil if nothing shows
// it. clocks has, by rank, the nanoseconds to add to its clock.
func OutcomeOf(starts []*rundir.Run, procs []*Process, clocks map[int]int64) *Outcome {
	var ends []end
	clock := make(map[string]int64) // the same by host
	for _, p := range procs {
		if d, ok := clocks[p.Rank]; ok && p.Training && p.KnownHost() != "" {
			clock[p.Host] = d
		}
	}
	well, last := 0, int64(0)
	for _, s := range starts {
		last = max(last, s.Seen.UnixNano())
		e := endOf(s)
		if e.o.How == Completed {
			well++
			continue
		}
		if e.o.How == Failed && e.o.Error == "" && s.Rank == nil {
			e.weight = hasStatus
		}
		ends = append(ends, e)
	}
	if len(starts) == 0 || well < len(starts) {
		for _, p := range procs {
			for i := range p.Failures {
				ends = append(ends, p.Failures[i].end(p, procs))
			}
		}
	}
	if len(ends) == 0 {
		if well == 0 {
			return nil
		}
		o := &Outcome{How: Completed, At: last}
		return o.say()
	}
	for i := range ends {
		e := &ends[i] // a rank's own report counts, also if it was then aborted at its end
		if !e.own && e.o.Rank != nil && e.o.How != OutOfMemory && e.o.How != Stopped && slices.ContainsFunc(procs, func(p *Process) bool { return p.says(*e.o.Rank) }) {
			e.weight = min(e.weight, hasStatus)
		}
	}
	first := slices.MinFunc(ends, func(a, b end) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.at+clock[a.o.Host], b.at+clock[b.o.Host]), cmp.Compare(a.o.How, b.o.How), cmp.Compare(a.o.Error, b.o.Error))
	})
	o := first.o
	o.weight = first.weight
	ranks := make(map[int]bool)
	for i := range ends {
		e := &ends[i]
		if e.o.Rank == nil || e.weight < hasFailed || e.o.How == Stopped {
			continue
		}
		ranks[*e.o.Rank] = true
		if o.Rank != nil && *o.Rank == *e.o.Rank && o.Status == nil && o.Signal == "" && o.How == Failed {
			o.Status = e.o.Status
		}
		if o.Rank != nil && *o.Rank == *e.o.Rank {
			if o.Error == "" {
				o.Error, o.ErrorAt, o.ErrorCode = e.o.Error, e.o.ErrorAt, e.o.ErrorCode
			} else if o.Error == e.o.Error && o.ErrorAt == "" {
				o.ErrorAt, o.ErrorCode = e.o.ErrorAt, e.o.ErrorCode
			}
		}
	}
	if o.How == Failed && o.Rank == nil && len(starts) == 1 && o.Status == nil {
		o.Status = starts[0].ExitStatus
	}
	if len(ranks) > 1 && o.Rank != nil && (o.How == Failed || o.How == Killed || o.How == OutOfMemory) {
		o.Ranks = len(ranks)
	}
	if o.How == Failed && first.weight <= hasNoticed {
		o.silent(procs, slices.ContainsFunc(ends, func(e end) bool { return e.weight == hasNoticed }))
	}
	o.At = max(last, first.at)
	return o.say()
}

// OutcomeOfCut returns the outcome for the rank whose end is lost with the end
// of its files, or nil if no rank's end is lost: only then the ends of the
// others are all ends. A helper of a rank with other files does not count.
func OutcomeOfCut(procs []*Process) *Outcome {
	var lost []*Process
	for _, p := range procs {
		if p.EndLost() && (p.Training || p.RankKnown && !slices.ContainsFunc(procs, func(o *Process) bool { return o.Training && o.Rank == p.Rank })) {
			lost = append(lost, p)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	first := slices.MinFunc(lost, func(a, b *Process) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), ByTime(a, b)) })
	o := &Outcome{How: Lost, At: first.LastSeen, head: "end unknown", tail: fmt.Sprintf("the file of rank %d is damaged or truncated", first.Rank)}
	if n := len(lost) - 1; n > 0 {
		o.tail += fmt.Sprintf(", and %s of others", display.Plural(n, "file"))
	}
	o.Text = o.head + ": " + o.tail
	return o
}

// silent blames the rank that ended silently if the others noticed that one had
// gone.
func (o *Outcome) silent(procs []*Process, noticed bool) {
	var quiet []*Process
	for _, p := range procs {
		if p.RankKnown && p.Training && p.End == NoEnd && !p.says(p.Rank) {
			quiet = append(quiet, p)
		}
	}
	if noticed && len(quiet) == 1 && !quiet[0].EndLost() {
		p := quiet[0]
		*o = Outcome{How: Killed, Rank: &p.Rank, Host: p.Host, seen: p.LastSeen}
	}
}

// OutcomeOfStart returns how one start ended; it uses only the start's own
// processes.
func OutcomeOfStart(s *rundir.Run, procs []*Process) *Outcome {
	var own []*Process
	for _, p := range procs {
		if p.isOf(s) {
			own = append(own, p)
		}
	}
	return OutcomeOf([]*rundir.Run{s}, own, nil)
}

// isOf reports whether the process is one of the start.
func (p *Process) isOf(s *rundir.Run) bool {
	return p.JobID == s.Job && p.Host == s.Host && p.Start <= s.Seen.UnixNano() && p.LastSeen >= s.Started.UnixNano()
}

// AskedToEnd returns when a signal first asked the start of a process to end. It
// ignores a signal that the start outlived for long.
func (j *Job) AskedToEnd(p *Process) (at int64, ok bool) {
	for _, s := range j.Starts {
		if asked(s) && p.isOf(s) && (!ok || s.StoppedAt.UnixNano() < at) {
			at, ok = s.StoppedAt.UnixNano(), true
		}
	}
	return at, ok
}

// asked reports whether a signal that asks for the end explains the end of a start.
func asked(s *rundir.Run) bool {
	return s.StoppedAt != nil && s.Seen.Sub(*s.StoppedAt) < stopping
}

// endOf returns what trainspan run observed of a command.
func endOf(s *rundir.Run) end {
	e := end{at: s.Seen.UnixNano(), weight: hasFailed, o: Outcome{Rank: s.Rank, Host: s.Host, Status: s.ExitStatus, Signal: s.Signal, Error: s.Error}}
	switch {
	case s.EndedBy == rundir.ByMemory:
		e.o.How, e.weight = OutOfMemory, wasDropped
	case s.EndedBy == rundir.ByNotStarting:
		e.o.How = NotStarted
	case asked(s) && s.State != rundir.Running:
		e.o.How, e.at, e.o.Signal = Stopped, s.StoppedAt.UnixNano(), s.Stopped
		e.o.where = s.StoppedIn()
	case s.State == rundir.Running:
		e.o.How, e.weight = Unfinished, onlySeen
	case s.EndedBy == rundir.ByUnknown, s.Signal == "" && s.ExitStatus == nil:
		e.o.How, e.weight = Lost, onlySeen
	case s.Signal != "":
		e.o.How, e.weight = bySignal(s.Signal)
	case *s.ExitStatus != 0:
		e.o.How = Failed
	default:
		e.o.How = Completed
	}
	return e
}

// signals are the signals that end processes, by their numbers on Linux.
var signals = map[int64]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE",
	15: "SIGTERM", 24: "SIGXCPU", 31: "SIGSYS",
}

// noticed matches the messages of a rank whose peer has gone.
var noticed = regexp.MustCompile(`(?i)connection (?:was )?(?:reset|closed|refused)|broken pipe|remote process exited|peer (?:has )?(?:died|left)|socket (?:timeout|closed)|pair closure|collective operation timeout`)

// says reports whether the process has this rank and an error.
func (p *Process) says(rank int) bool {
	return p.RankKnown && p.Rank == rank && slices.ContainsFunc(p.Failures, func(f Failure) bool { return f.Child == 0 })
}

// bySignal returns how a signal ended a process, and its weight.
func bySignal(name string) (How, int) {
	switch name {
	case "SIGTERM", "SIGHUP", "SIGPIPE":
		return Killed, wasEnded
	case "SIGINT":
		return Stopped, wasEnded
	}
	return Killed, wasDropped
}

const keyboardInterrupt = "KeyboardInterrupt"

// base returns the type of the exception without its module.
func (f *Failure) base() string { return f.Type[strings.LastIndexByte(f.Type, '.')+1:] }

// Interrupt reports whether Ctrl-C ended the process itself.
func (f *Failure) Interrupt() bool { return f.Child == 0 && f.base() == keyboardInterrupt }

// end returns the end shown by an error record.
func (f *Failure) end(p *Process, all []*Process) end {
	e := end{own: f.Child == 0, at: f.Time, weight: hasFailed, o: Outcome{How: Failed, Host: p.Host, Error: f.Text, ErrorAt: f.Place, ErrorCode: f.Code}}
	if noticed.MatchString(f.Text) {
		e.weight = hasNoticed
	}
	if f.Child == 0 {
		if p.RankKnown {
			e.o.Rank = &p.Rank
		}
		switch f.base() {
		case keyboardInterrupt:
			e.o.How, e.o.Signal, e.weight, e.o.Error = Stopped, "SIGINT", hasNoticed, ""
			e.o.ErrorAt, e.o.ErrorCode = "", ""
		case "SignalException": // a launcher was asked to end
			e.o.How, e.weight = Killed, wasEnded
		case "ChildFailedError", "ProcessRaisedException", "ProcessExitedException": // it reports other processes
			e.weight = wasEnded
		}
		return e
	}
	if f.Rank != Unknown {
		rank := int(f.Rank)
		e.o.Rank = &rank
	} else if i := slices.IndexFunc(all, func(o *Process) bool { return o.PID == f.Child && o.Host == p.Host && o.RankKnown }); i >= 0 {
		e.o.Rank = &all[i].Rank
	}
	if f.Status < 0 {
		e.o.Signal = cmp.Or(signals[-f.Status], "signal "+strconv.FormatInt(-f.Status, 10))
		e.o.How, e.weight = bySignal(e.o.Signal)
	} else if f.Status > 0 {
		status := int(f.Status)
		e.o.Status = &status
	}
	return e
}

// say sets the text.
func (o *Outcome) say() *Outcome {
	var parts []string
	if o.Rank != nil && o.How != Completed && o.How != Stopped {
		parts = append(parts, fmt.Sprintf("rank %d", *o.Rank))
	}
	switch o.How {
	case Completed, Failed:
		o.head = string(o.How)
	case Killed:
		if o.head = "ended by " + o.Signal; o.Signal == "" {
			o.head = "ended without an end record"
			parts = append(parts, "last seen "+time.Unix(0, o.seen).UTC().Format(time.DateTime)+" UTC")
		}
	case OutOfMemory:
		o.head = "out of memory"
	case Stopped:
		o.head = "stopped by " + cmp.Or(o.Signal, "a signal")
		if o.Signal == "SIGINT" {
			o.head = "stopped by Ctrl-C"
		} else if o.where != "" {
			o.head += " " + o.where
		}
	case NotStarted:
		o.head = "could not be started"
	case Unfinished:
		o.head = "running when it was last seen, " + time.Unix(0, o.At).UTC().Format(time.DateTime) + " UTC"
	case Hung:
		o.head = "hung"
		if o.what != "" && o.Rank != nil {
			parts[0] += " in " + o.what
		} else if o.what != "" {
			parts = append(parts, o.what)
		}
		if o.then != "" {
			parts = append(parts, "then "+o.then)
		}
	case Lost:
		o.head = "ended, cause unknown"
		parts = append(parts, "last seen "+time.Unix(0, o.At).UTC().Format(time.DateTime)+" UTC")
	}
	if o.Error != "" && o.How != Stopped {
		parts = append(parts, o.Error)
	} else if o.How == Failed && o.Status != nil {
		text := fmt.Sprintf("status %d", *o.Status)
		if signal := signals[int64(*o.Status)-128]; signal != "" { // the convention of shells
			text += fmt.Sprintf(" (%s of its child process)", signal)
		}
		parts = append(parts, text)
	}
	if o.Ranks > 1 && o.How != Hung {
		parts = append(parts, fmt.Sprintf("the first of %d ranks that failed", o.Ranks))
	}
	o.tail = strings.Join(parts, ", ")
	if o.Text = o.head; o.tail != "" {
		o.Text += ": " + o.tail
	}
	return o
}

// Hang is what is known about ranks that hung when they were last seen.
type Hang struct {
	Ranks []int // that the others wait for, empty if all wait in one collective
	Host  string
	What  string        // the operation they stopped in, empty if unknown
	Since int64         // when the others began to wait, 0 if unknown
	At    int64         // the last heartbeat of any
	Until map[int]int64 // and of each rank
}

// outlived is how far apart the last heartbeats of two ranks may be that were
// ended together: heartbeats are ten seconds apart.
const outlived = int64(15e9)

// timedOut matches the messages of a rank that waited for too long.
var timedOut = regexp.MustCompile(`(?i)timed? ?out`)

// OutcomeOfHang returns the outcome of something whose ranks were hanging when
// they were last seen: it hung, whatever ended it then. o is how it ended, nil
// if it continues or the end was not observed. o is kept if it is what the
// others waited for: a rank that failed, or was killed before they were.
func OutcomeOfHang(o *Outcome, h *Hang) *Outcome {
	if o != nil && !o.follows(h) {
		return o
	}
	out := &Outcome{How: Hung, At: h.At, Host: h.Host}
	if len(h.Ranks) == 1 {
		out.Rank = &h.Ranks[0]
	}
	out.what = h.What
	if n := len(h.Ranks); n > 1 {
		out.Ranks, out.what = n, fmt.Sprintf("%d ranks", n)
	} else if n == 0 {
		out.what = "all ranks wait"
	}
	if o != nil && o.How != Unfinished && o.How != Lost {
		out.At, out.Status, out.Signal, out.Error = max(o.At, h.At), o.Status, o.Signal, o.Error
		out.then = o.head
	}
	return out.say()
}

// follows reports whether an end may be the consequence of a hang.
func (o *Outcome) follows(h *Hang) bool {
	guilty := o.Rank != nil && slices.Contains(h.Ranks, *o.Rank)
	switch o.How {
	case Unfinished, Lost, Stopped:
		return true
	case Killed:
		if o.Rank == nil {
			return true
		}
		if !guilty && len(h.Ranks) > 0 {
			return true
		}
		// A killed rank lived as long as the others, or is what they wait for. Heartbeats
		// do not show which if the others waited for a shorter time than outlived. Then the
		// kill is the cause: it is on record, and a rank that hung before it is not.
		return h.At-h.Until[*o.Rank] < outlived && (h.Since == 0 || h.At-h.Since >= outlived)
	case Failed:
		return !guilty && (o.weight <= hasNoticed || timedOut.MatchString(o.Error))
	}
	return false
}

package main

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/filetime"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

// noFlush keeps the writer of a conversion from writing small members, because
// the lines are not needed early.
const noFlush = time.Hour

// survey is what a first pass finds out about a trace to be rewritten.
type survey struct {
	path     string
	filter   *read.Filter // the selected part; nil means everything
	hashes   *tracefile.Hashes
	dialect  dftracer.Dialect
	who      *job.FileTracker
	maxID    uint64
	metadata int
	events   int64
	procs    map[job.Key]bool

	eventCounts map[uint64]int32 // of the spans with events
	start       dftracer.Event
	startTime   int64
	endTime     int64
	times       *filetime.Judge
	aside       int64   // events with impossible times
	framing     []int64 // times of the first framing records
	ended       bool    // by the program itself
	continued   bool    // in another file
	damaged     bool    // records are missing
}

// surveyAll reads a trace once and reports its defects. With copies, events
// with impossible times are kept.
func surveyAll(ctx context.Context, a *ui.App, path string, q *read.Filter, bar *ui.Progress, copies bool) (*survey, error) {
	var s *survey
	err := read.Judging(func(times *filetime.Judge) (err error) {
		s, err = surveyBy(ctx, a, path, q, bar, times)
		return err
	})
	if err != nil {
		return s, err
	}
	if copies && s.aside > 0 {
		a.Note("%s: %s with wrong times kept: they are more than 30 days from the other times of the file, or end before they begin; see "+helptopic.Damaged, path, display.Plural(s.aside, "event"))
	}
	if !copies {
		read.WarnOfSetAside(a, path, s.aside)
		if s.times.Median() < read.NearZero && len(s.procs) > 0 {
			read.WarnOfRelativeTimes(a, []string{path})
		}
	}
	return s, nil
}

func surveyBy(ctx context.Context, a *ui.App, path string, q *read.Filter, bar *ui.Progress, times *filetime.Judge) (*survey, error) {
	s := &survey{path: path, who: q.Who.File(path), procs: make(map[job.Key]bool), times: times}
	if !q.All() {
		s.filter = q
	}
	st, hashes, err := read.Scan(ctx, a, path, bar, func(ev *dftracer.Event) error {
		if ev.Cat == dftracer.CatDFTracer { // whatever is selected, because the part keeps its process and its end
			switch {
			case ev.Name == tracefile.NameStart && s.start.Name == "":
				s.start = *ev
				s.start.Args = slices.Clone(ev.Args)
			case ev.Name == tracefile.NameEnd:
				s.end(ev)
			}
		}
		if s.filter != nil && !q.Has(path, ev) {
			return nil
		}
		s.note(ev)
		return nil
	})
	for _, t := range s.framing {
		if s.has(t) {
			s.time(t, t)
		}
	}
	s.hashes, s.dialect, s.damaged = hashes, st.Dialect, st.Torn || st.Bad > 0
	return s, err
}

// end notes whether the program itself ended the trace.
func (s *survey) end(ev *dftracer.Event) {
	has := func(key string) bool {
		return slices.ContainsFunc(ev.Args, func(a dftracer.Arg) bool { return a.Key == key })
	}
	switch {
	case has("recovered") || has(tracefile.ArgEndUnknown):
	case has("continued"):
		s.continued = true
	default:
		s.ended = true
	}
}

// sayEnd marks a trace made from others that do not show how the program ended,
// because its own end would look as if the program had ended well. Of a rotated
// trace, the last part decides.
func sayEnd(w *dftracer.Writer, from ...*rewriter) {
	ended := make(map[origin]bool)
	for _, r := range from {
		ended[r.from.origin()] = ended[r.from.origin()] || r.from.ended
	}
	for _, r := range from {
		if r.from.ended || r.from.continued && ended[r.from.origin()] {
			continue
		}
		w.SetEnd(time.Time{}, dftracer.Int(tracefile.ArgEndUnknown, 1))
		for key := range r.from.procs {
			if r.from.damaged {
				ev := tracefile.Record(tracefile.NameCustom, tracefile.KeyDamaged, tracefile.String("", "1"))
				ev.PID, ev.HostHash = key.PID, key.Host
				r.fact(&ev)
			}
		}
	}
}

func (s *survey) note(ev *dftracer.Event) {
	s.who.Of(ev)
	s.maxID = max(s.maxID, ev.ID)
	if ev.Phase == dftracer.PhaseMetadata {
		if open, ok := tracefile.BeginOf(ev); ok {
			s.maxID = max(s.maxID, open.ID)
		}
		s.metadata++
		if id, _, _, ok := eventOf(ev); ok && (len(s.eventCounts) < maxEventSpans || s.eventCounts[id] > 0) {
			if s.eventCounts == nil {
				s.eventCounts = make(map[uint64]int32)
			}
			s.eventCounts[id]++
		}
		return
	}
	s.events++
	if ev.Cat != dftracer.CatDFTracer {
		s.procs[s.who.Key(ev)] = true
	}
	switch {
	case ev.Cat == dftracer.CatDFTracer && len(s.framing) < 64:
		s.framing = append(s.framing, ev.TS)
	case ev.Cat == dftracer.CatDFTracer:
		s.framing[63] = max(s.framing[63], ev.TS)
	case !read.CanBe(s.times, ev):
		s.aside++
	default:
		s.time(ev.TS, ev.End())
	}
}

func (s *survey) time(start, end int64) {
	if s.startTime == 0 || start < s.startTime {
		s.startTime = start
	}
	s.endTime = max(s.endTime, end)
}

// has reports whether a time that is not counted itself is possible, compared
// with the others.
func (s *survey) has(t int64) bool {
	return len(s.procs) == 0 || read.JudgeBy(s.times.Median(), true).Near(t)
}

// origin is the program that wrote a trace. Process ids repeat on other hosts and, in
// containers, in other attempts.
type origin struct {
	host    string // by name, because the dialects of two traces may differ
	pid     int64
	attempt int // -1 is unknown
}

// origin returns the program that wrote the trace.
func (s *survey) origin() origin {
	p := s.process()
	out := origin{p.Host, int64(p.PID), -1}
	if p.Attempt != nil {
		out.attempt = *p.Attempt
	}
	return out
}

// hostName returns the name for the hash of a host.
func (s *survey) hostName(hash string) string {
	if name, ok := s.hashes.Host(hash); ok {
		return name
	}
	return identity.UnknownHost
}

// process returns the process of the trace.
func (s *survey) process() dftracer.Process {
	str := func(key string) string {
		arg, _ := s.start.Arg(key)
		if name, ok := s.hashes.String(arg.Text()); ok {
			return name
		}
		if name, ok := s.hashes.File(arg.Text()); ok {
			return name
		}
		return "unknown"
	}
	ppid, _ := s.start.Arg("ppid")
	p := dftracer.Process{PID: int(s.start.PID), PPID: max(int(ppid.Int64()), 1), Host: s.hostName(s.who.Host()),
		Exec: str("exec_hash"), Command: str("cmd_hash"), Dir: str("cwd")}
	if p.PID == 0 {
		for key := range s.procs {
			if p.PID == 0 || int(key.PID) < p.PID {
				p.PID = int(key.PID)
			}
		}
	}
	var who identity.Identity // from the start record; other records are copied
	for i := range s.start.Args {
		who.Say(identity.Start, s.start.Args[i].Key, s.start.Args[i].Text())
	}
	p.WorldSize, p.JobID, p.SessionTag = who.WorldSize.Or(0), who.Job, who.Session
	if who.Attempt.IsSet() {
		attempt := who.Attempt.Get()
		p.Attempt = &attempt
	}
	return p
}

// clock returns the times of the original for the framing of a rewritten trace.
type clock struct{ us atomic.Int64 }

func (c *clock) now() time.Time { return time.UnixMicro(c.us.Load()) }

// maxEventSpans bounds the spans whose events are joined with them.
const maxEventSpans = 1 << 20

// eventOf reports whether a record is an event of a span, and returns the span.
// value is its time in microseconds or, for the count of events that the SDK
// dropped, that count.
func eventOf(ev *dftracer.Event) (span uint64, name string, value int64, ok bool) {
	if ev.Phase != dftracer.PhaseMetadata || ev.Name != tracefile.NameCustom {
		return 0, "", 0, false
	}
	arg, ok := ev.Arg(place.ArgSpan)
	if !ok || tracefile.Uint64(arg) == 0 {
		return 0, "", 0, false
	}
	name, text := ev.Meta()
	value, err := strconv.ParseInt(text, 10, 64)
	return tracefile.Uint64(arg), name, value, err == nil
}

// Package read reads the files for a command: it finds them, delivers their
// filtered events, summarizes their contents (an index, the members of a
// compressed file), and reports their defects.
package read

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/spans"
)

// Events calls fn with the filtered events of a file, in the order of the file.
func Events(ctx context.Context, a *ui.App, path string, q *Filter, bar *ui.Progress, fn func(*dftracer.Event) error) (*tracefile.Hashes, error) {
	filtered := fn
	if !q.All() {
		filtered = func(ev *dftracer.Event) error {
			if !q.Has(path, ev) {
				return nil
			}
			return fn(ev)
		}
	}
	if IsRecords(path) {
		return nil, scanRecords(ctx, a, path, bar, filtered)
	}
	_, hashes, err := Scan(ctx, a, path, bar, filtered)
	return hashes, err
}

// SpillSuffix is the end of the names of files with OTLP spans.
const SpillSuffix = ".otlp.jsonl"

// scanRecords is scan for JSON lines.
func scanRecords(ctx context.Context, a *ui.App, path string, bar *ui.Progress, fn func(*dftracer.Event) error) error {
	bar.File(path, 1)
	defer bar.EndFile()
	procs, err := ReadRecords(ctx, path, fn)
	if err != nil {
		return err
	}
	aside := 0
	for _, p := range procs {
		aside += p.Aside
	}
	WarnOfDamage(a, nil, procs)
	WarnOfSetAside(a, path, int64(aside))
	return nil
}

// WarnOfDamage reports defects of the files of processes, and skipped files.
// For all commands that read jobs, such a report sets the exit status 1.
func WarnOfDamage(a *ui.App, skipped []*job.FileError, procs []*job.Process) {
	for _, s := range skipped {
		a.Problem("%s: skipped: %s; see "+helptopic.NotATrace, s.Path, ui.Explain(s.Err))
	}
	for _, p := range procs {
		source := strings.Join(p.Sources, ", ")
		if p.Bad > 0 {
			a.Problem("%s: %s skipped (not records); trainspan trace validate lists them; see "+helptopic.Damaged, source, display.Plural(p.Bad, "line"))
		}
		if p.Torn {
			a.Problem("%s: the file is damaged or cut off; what can be read was used, trainspan trace recover repairs it; see "+helptopic.Damaged, source)
		}
	}
}

// ReadRecords calls fn with the spans of a file of JSON lines as events,
// process by process. Events with the rank and the start of a process precede
// its spans. Spans of OTLP keep their order, as in the trace of a receiver.
func ReadRecords(ctx context.Context, path string, fn func(*dftracer.Event) error) ([]*job.Process, error) {
	set, err := job.Open(path)
	if err == nil && len(set.Skipped) > 0 {
		err = set.Skipped[0].Err
	}
	if err != nil {
		if ui.IsSystem(err) {
			return nil, err
		}
		return nil, ui.BadData("%s: it has no JSON lines of native telemetry and no OTLP spans; see "+helptopic.NotATrace, path)
	}
	set.Workers = 1
	var failed error
	var args []dftracer.Arg // of the next span
	set.Arguments = func(*job.Process) func([]dftracer.Arg) { return func(a []dftracer.Arg) { args = a } }
	kind, _ := fsread.KindOf(path)
	if exported(kind) {
		set.Workers, set.Stop = 0, func() error { return failed }
		set.Events = func(*job.Process) func(*dftracer.Event) {
			return func(ev *dftracer.Event) {
				if failed == nil {
					failed = cmp.Or(ctx.Err(), fn(ev))
				}
			}
		}
	}
	jobs, err := set.Read(func(p *job.Process) job.Sink {
		if exported(kind) {
			return job.Sinks{}
		}
		return &recordSink{proc: p, ctx: ctx, fn: fn, failed: &failed, args: &args, ids: make(map[uint64]uint64)}
	})
	if err == nil || failed != nil {
		err = failed
	}
	if err == nil && len(set.Skipped) > 0 {
		err = set.Skipped[0]
		if exported(kind) {
			err = ui.BadData("%v; see "+helptopic.NotATrace, err)
		}
	}
	var all []*job.Process
	for _, j := range jobs {
		all = append(append(all, j.Processes...), j.Helpers...)
	}
	return all, err
}

// recordSink converts the spans of a process to events.
type recordSink struct {
	proc   *job.Process
	ctx    context.Context //nolint:containedctx // used during one call
	fn     func(*dftracer.Event) error
	failed *error
	args   *[]dftracer.Arg
	ids    map[uint64]uint64 // small numbers that fit in parents
	begun  bool
	event  dftracer.Event
}

func (s *recordSink) give(ev *dftracer.Event) {
	if *s.failed == nil {
		*s.failed = s.ctx.Err()
	}
	if *s.failed != nil {
		return
	}
	ev.PID, ev.HostHash = s.proc.PID, s.proc.Host
	*s.failed = s.fn(ev)
}

func (s *recordSink) fact(name, key, value string) {
	s.give(&dftracer.Event{Phase: dftracer.PhaseMetadata, Cat: dftracer.CatDFTracer, Name: name, Parent: dftracer.NoParent,
		Args: []dftracer.Arg{dftracer.String("name", key), dftracer.String("value", value)}})
}

func (s *recordSink) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.fact(tracefile.NameHostHash, s.proc.Host, s.proc.Host)
	if s.proc.RankKnown {
		s.fact(tracefile.NameProcess, "rank", strconv.Itoa(s.proc.Rank))
	}
	if s.proc.AttemptKnown {
		s.give(&dftracer.Event{Phase: dftracer.PhaseComplete, Cat: dftracer.CatDFTracer, Name: tracefile.NameStart, TS: s.proc.Start / 1000,
			Parent: dftracer.NoParent, Args: []dftracer.Arg{dftracer.Int("attempt", int64(s.proc.Attempt-1))}})
	}
}

func (s *recordSink) number(id uint64) uint64 {
	n := s.ids[id]
	if n == 0 {
		n = uint64(len(s.ids) + 1)
		s.ids[id] = n
	}
	return n
}

// Span implements job.Sink.
func (s *recordSink) Span(sp *job.Span) {
	s.begin()
	ev := &s.event
	*ev = dftracer.Event{Phase: dftracer.PhaseComplete, ID: s.number(sp.ID), Name: sp.Name, Cat: sp.Cat, TID: sp.Thread, TS: sp.Start / 1000,
		Parent: dftracer.NoParent, Args: ev.Args[:0]}
	if info, ok := spans.Lookup(sp.Name); ok {
		ev.Cat, ev.Name = info.Category, info.Event
	}
	if ev.Cat == "" {
		ev.Cat = "native"
	}
	if sp.Parent != 0 {
		ev.Parent = int64(s.number(sp.Parent))
	}
	ev.Args = append(ev.Args, *s.args...)
	if _, recorded := ev.Arg(attributes.Step); !recorded && sp.Step != job.Unknown {
		ev.Args = append(ev.Args, dftracer.Int(attributes.Step, sp.Step))
	}
	end := sp.End
	if end == job.NoEnd {
		end = max(s.proc.LastSeen, sp.Start)
		ev.Args = append(ev.Args, dftracer.Int("truncated", 1))
	}
	ev.Dur = end/1000 - ev.TS
	s.give(ev)
}

// Event implements job.Sink. It passes on only instant events about steps.
func (s *recordSink) Event(e *job.Event) {
	if e.Name == spans.EventTrainingMetricsUpdate {
		s.begin()
		s.give(e.Record())
	}
}

// Close implements job.Sink.
func (s *recordSink) Close() error { return nil }

// ErrEnough ends a reading that has found all that it needs.
var ErrEnough = errors.New("enough")

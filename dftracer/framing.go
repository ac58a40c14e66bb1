package dftracer

import (
	"strconv"
	"strings"
	"time"
)

// asctime is the date format of the start event.
const asctime = "Mon Jan _2 15:04:05 2006"

// line encodes a record of the Writer itself and passes it on.
func (p *pump) line(ev Event) {
	w := p.w
	if ev.ID == 0 && w.enc.hasID(ev.Phase) {
		ev.ID = w.lastID.Add(1)
	}
	ev.TID = max(ev.TID, w.enc.pid)
	line, cuts := appendFitting(p.text[:0], &ev, func(dst []byte, ev *Event) []byte {
		return w.enc.append(dst, &p.clock, ev)
	})
	w.cuts.Add(uint64(cuts))
	p.put(line, 1, ev.Phase == PhaseMetadata)
	p.text = line
}

func meta(kind, name string, value Arg) Event {
	value.Key = "value"
	return Event{Phase: PhaseMetadata, Type: TypeDFTracer, Name: kind, Cat: CatDFTracer, Args: []Arg{String("name", name), value}}
}

// header writes what every file begins with.
func (p *pump) header() {
	o, d := &p.w.opts, p.w.opts.Dialect
	who := o.Process
	if d != V22 {
		p.put([]byte("[\n"), 0, false)
	}
	cwd, cmd, exec := d.Hash(who.Dir), d.Hash(who.Command), d.Hash(who.Exec)
	p.line(meta(NameHostHash, who.Host, HashArg("", d.Hash(who.Host))))
	p.line(meta(NameThreadName, strconv.Itoa(who.PID), String("", NameThreadName)))
	if d == V22 {
		p.line(meta(NameCustom, "time_metric", String("", "US")))
	}
	if !o.NoMetadata {
		if d != V1 {
			p.line(meta(NameFileHash, who.Dir, HashArg("", cwd)))
		}
		p.line(meta(NameStringHash, who.Command, HashArg("", cmd)))
		p.line(meta(NameStringHash, who.Exec, HashArg("", exec)))
	}
	start := o.Now()
	written := start
	if !o.Start.IsZero() {
		start = o.Start
	}
	args := make([]Arg, 0, 10)
	if d != V1 {
		args = append(args, HashArg("cwd", cwd), versionArg(d, o.Version))
		args = append(args, HashArg("exec_hash", exec), HashArg("cmd_hash", cmd))
	} else {
		args = append(args, HashArg("cmd_hash", cmd), HashArg("exec_hash", exec), versionArg(d, o.Version))
	}
	args = append(args, String("date", start.Format(asctime)), Int("ppid", int64(who.PPID)))
	args = append(args, o.identity()...)
	if !o.Start.IsZero() {
		args = append(args, Int(argWritten, written.UnixMicro()))
	}
	p.line(Event{Name: NameStart, Cat: CatDFTracer, Type: TypeDFTracer, TS: start.UnixMicro(), Level: 1, Args: args})
}

// argWritten is when a trace about another time was written.
const argWritten = "written_ts"

// identity is what the start event says of the job.
func (o *Options) identity() []Arg {
	var args []Arg
	if o.Attempt != nil {
		args = append(args, Int("attempt", int64(*o.Attempt)))
	}
	if o.JobID != "" {
		args = append(args, String("job_id", o.JobID))
	}
	if o.SessionTag != "" {
		args = append(args, String("session_tag", o.SessionTag))
	}
	return args
}

// footer writes the end event and closes the brackets.
func (p *pump) footer(extra []Arg) {
	d := p.w.opts.Dialect
	n := p.part.lines
	if d == V22 {
		n -= p.part.facts // metadata has no id there and does not count
	}
	args := []Arg{Int("num_events", int64(n))}
	if lost := p.counts.lost.Load(); lost > 0 {
		args = append(args, Uint("events_lost", lost))
	}
	args = append(args, extra...)
	ts, written := p.w.endTime()
	if written != 0 {
		args = append(args, Int(argWritten, written))
	}
	p.line(Event{Name: NameEnd, Cat: CatDFTracer, Type: TypeDFTracer, TS: ts, Level: 1, Args: args})
	if d != V22 {
		p.put([]byte("]"), 0, false) // no line feed: old readers never look at an unfinished line
	}
}

// Custom metadata keys that the Writer uses.
const (
	// KeySpanBegin marks a record about a span that has begun. Its value is
	// the span's name; begin_id, begin_cat and begin_ts, level and p_idx
	// describe it, and its own arguments follow.
	KeySpanBegin = "span.begin"
	// KeyEventsLost marks a gap: its value is how many lines are missing;
	// reason, from_ts and to_ts (microseconds) say why and when.
	KeyEventsLost = "events.lost"
	// KeyPart marks the continuation of a rotated trace: its value is the
	// number of the part, counted from 1. Parents may be in earlier parts.
	KeyPart = "trace.part"
)

func (p *pump) missing(lost int, from, to time.Time, cause error) {
	ev := meta(NameCustom, KeyEventsLost, String("", strconv.Itoa(lost)))
	reason := "unknown"
	if cause != nil {
		reason = strings.TrimPrefix(cause.Error(), "dftracer: ")
	}
	ev.Args = append(ev.Args, String("reason", reason), Int("from_ts", from.UnixMicro()), Int("to_ts", to.UnixMicro()))
	p.line(ev)
}

// continued marks this file as a later part and repeats the names that its
// events may refer to.
func (p *pump) continued() {
	p.counts.parts.Add(1)
	p.line(meta(NameCustom, KeyPart, String("", strconv.FormatUint(p.counts.parts.Load(), 10))))
	p.repeatNames()
}

func (p *pump) repeatNames() {
	for _, ev := range p.w.names.all() {
		ev.ID = 0
		p.line(ev)
	}
}

// versionArg follows the dialect: V1 has a number, later ones have text.
func versionArg(d Dialect, version string) Arg {
	if d != V1 {
		return String("version", version)
	}
	var n, part int64
	parts := strings.SplitN(version, ".", 3)
	for i, weight := range [...]int64{100000, 100, 1} {
		if i < len(parts) {
			part, _ = strconv.ParseInt(parts[i], 10, 32)
			n += part * weight
		}
	}
	return Int("version", n)
}

package dftracer

import (
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/identity"
	"github.com/trainspan/trainspan/internal/outfile"
)

// asctime is the date format of the start event.
const asctime = "Mon Jan _2 15:04:05 2006"

// header writes what every file begins with.
func (f *framer) header() {
	o, d := f.o, f.o.Dialect
	who := o.Process
	if d != V22 {
		f.text = append(f.text, "[\n"...)
	}
	cwd, cmd, exec := dft.HashOf(d, who.Dir), dft.HashOf(d, who.Command), dft.HashOf(d, who.Exec)
	f.add(dft.Record(dft.NameHostHash, who.Host, dft.HashArg("", dft.HashOf(d, who.Host))))
	f.add(dft.Record(dft.NameThreadName, strconv.Itoa(who.PID), String("", dft.NameThreadName)))
	if d == V22 {
		f.add(dft.Record(dft.NameCustom, "time_metric", String("", "US")))
	}
	if !o.NoMetadata {
		if d != V1 {
			f.add(dft.Record(dft.NameFileHash, who.Dir, dft.HashArg("", cwd)))
		}
		f.add(dft.Record(dft.NameStringHash, who.Command, dft.HashArg("", cmd)))
		f.add(dft.Record(dft.NameStringHash, who.Exec, dft.HashArg("", exec)))
	}
	start := o.Now()
	written := start
	if !o.Start.IsZero() {
		start = o.Start
	}
	args := make([]Arg, 0, 10)
	if d != V1 {
		args = append(args, dft.HashArg("cwd", cwd), versionArg(d, o.Version))
		args = append(args, dft.HashArg("exec_hash", exec), dft.HashArg("cmd_hash", cmd))
	} else {
		args = append(args, dft.HashArg("cmd_hash", cmd), dft.HashArg("exec_hash", exec), versionArg(d, o.Version))
	}
	args = append(args, String("date", start.Format(asctime)), Int("ppid", int64(who.PPID)))
	args = append(args, o.identity()...)
	if !o.Start.IsZero() {
		args = append(args, Int(argWritten, written.UnixMicro()))
	}
	f.add(Event{Name: dft.NameStart, Cat: CatDFTracer, Type: dft.TypeDFTracer, TS: start.UnixMicro(), Level: 1, Args: args})
}

// argWritten is when a trace about another time was written.
const argWritten = "written_ts"

// identity is what the start event says of the job.
func (o *Options) identity() []Arg {
	var args []Arg
	if o.Process.WorldSize > 1 {
		args = append(args, Int(identity.Word(identity.WorldSize, identity.Start), int64(o.Process.WorldSize)))
	}
	if o.Process.Attempt != nil {
		args = append(args, Int(identity.Word(identity.Attempt, identity.Start), int64(*o.Process.Attempt)))
	}
	if o.Process.JobID != "" {
		args = append(args, String(identity.Word(identity.Job, identity.Start), o.Process.JobID))
	}
	if o.Process.SessionTag != "" {
		args = append(args, String(identity.Word(identity.Session, identity.Start), o.Process.SessionTag))
	}
	return args
}

// footer writes the end event and closes the brackets.
func (f *framer) footer(p outfile.Part) {
	d := f.o.Dialect
	n := p.Lines
	if d == V22 {
		n -= p.Metadata // metadata has no id there and does not count
	}
	args := []Arg{Int("num_events", int64(n))}
	if p.Lost > 0 {
		args = append(args, Uint(dft.ArgLost, p.Lost))
	}
	end := f.end()
	if p.Last {
		args = append(args, end.args...)
	} else {
		args = append(args, Int("continued", 1))
	}
	if end.written != 0 {
		args = append(args, Int(argWritten, end.written))
	}
	f.add(Event{Name: dft.NameEnd, Cat: CatDFTracer, Type: dft.TypeDFTracer, TS: end.ts, Level: 1, Args: args})
	if d != V22 {
		f.text = append(f.text, ']') // no line feed: old readers never look at an unfinished line
	}
}

// missing writes the record of a gap.
func (f *framer) missing(g outfile.Gap) {
	ev := dft.Record(dft.NameCustom, dft.KeyEventsLost, String("", strconv.Itoa(g.Lines)))
	reason := "unknown"
	if g.Cause != nil {
		reason = g.Cause.Error()
	}
	ev.Args = append(ev.Args, String("reason", reason), Int("from_ts", g.From.UnixMicro()), Int("to_ts", g.To.UnixMicro()))
	f.add(ev)
}

// continued marks this file as a later part.
func (f *framer) continued(n int) {
	f.add(dft.Record(dft.NameCustom, dft.KeyPart, String("", strconv.Itoa(n))))
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

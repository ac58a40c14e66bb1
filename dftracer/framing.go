package dftracer

import (
	"bytes"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// asctime is the date format of the start event.
const asctime = "Mon Jan _2 15:04:05 2006"

// header writes the start of a file.
func (f *framer) header() {
	o, d := f.o, f.o.Dialect
	who := o.Process
	if d != V22 {
		f.text = append(f.text, "[\n"...)
	}
	cwd, cmd, exec := tracefile.HashOf(d, who.Dir), tracefile.HashOf(d, who.Command), tracefile.HashOf(d, who.Exec)
	f.add(tracefile.Record(tracefile.NameHostHash, who.Host, tracefile.HashArg("", tracefile.HashOf(d, who.Host))))
	f.add(tracefile.Record(tracefile.NameThreadName, strconv.Itoa(who.PID), String("", tracefile.NameThreadName)))
	if d == V22 {
		f.add(tracefile.Record(tracefile.NameCustom, tracefile.KeyTimeMetric, String("", "US")))
	}
	if !o.NoMetadata {
		if d != V1 {
			f.add(tracefile.Record(tracefile.NameFileHash, who.Dir, tracefile.HashArg("", cwd)))
		}
		f.add(tracefile.Record(tracefile.NameStringHash, who.Command, tracefile.HashArg("", cmd)))
		f.add(tracefile.Record(tracefile.NameStringHash, who.Exec, tracefile.HashArg("", exec)))
	}
	start := o.Now()
	written := start
	if !o.Start.IsZero() {
		start = o.Start
	}
	args := make([]Arg, 0, 10)
	if d != V1 {
		args = append(args, tracefile.HashArg("cwd", cwd), versionArg(d, o.Version))
		args = append(args, tracefile.HashArg("exec_hash", exec), tracefile.HashArg("cmd_hash", cmd))
	} else {
		args = append(args, tracefile.HashArg("cmd_hash", cmd), tracefile.HashArg("exec_hash", exec), versionArg(d, o.Version))
	}
	args = append(args, String("date", start.Format(asctime)), Int("ppid", int64(who.PPID)))
	args = append(args, o.identity()...)
	if !o.Start.IsZero() {
		args = append(args, Int(argWritten, written.UnixMicro()))
	}
	f.add(Event{Name: tracefile.NameStart, Cat: CatDFTracer, Type: tracefile.TypeDFTracer, TS: start.UnixMicro(), Level: 1, Args: args})
}

// argWritten is the argument with the time of writing, in a trace about another
// time.
const argWritten = "written_ts"

// identity returns the arguments of the start event about the job.
func (o *Options) identity() []Arg {
	var args []Arg
	if o.Process.WorldSize > 1 {
		args = append(args, Int(identity.WorldSize.Word(identity.Start), int64(o.Process.WorldSize)))
	}
	if o.Process.Attempt != nil {
		args = append(args, Int(identity.Attempt.Word(identity.Start), int64(*o.Process.Attempt)))
	}
	if o.Process.JobID != "" {
		args = append(args, String(identity.Job.Word(identity.Start), o.Process.JobID))
	}
	if o.Process.SessionTag != "" {
		args = append(args, String(identity.Session.Word(identity.Start), o.Process.SessionTag))
	}
	return args
}

// footer writes the end event and closes the brackets.
func (f *framer) footer(p fswrite.Part) {
	d := f.o.Dialect
	n := p.Lines
	if d == V22 {
		n -= p.Metadata // this dialect gives metadata no id and does not count it
	}
	args := []Arg{Int("num_events", int64(n))}
	if p.Lost > 0 {
		args = append(args, Uint(tracefile.ArgLost, p.Lost))
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
	f.add(Event{Name: tracefile.NameEnd, Cat: CatDFTracer, Type: tracefile.TypeDFTracer, TS: end.ts, Level: 1, Args: args})
	if d != V22 {
		f.text = append(f.text, ']') // without a line feed, because old readers ignore an unfinished line
	}
}

// missing writes the record of a gap.
func (f *framer) missing(g fswrite.Gap) {
	ev := tracefile.Record(tracefile.NameCustom, tracefile.KeyEventsLost, String("", strconv.Itoa(g.Lines)))
	reason := "unknown"
	if g.Cause != nil {
		reason = g.Cause.Error()
	}
	ev.Args = append(ev.Args, String("reason", reason), Int("from_ts", g.From.UnixMicro()), Int("to_ts", g.To.UnixMicro()))
	f.add(ev)
}

// continued marks this file as a later part of a rotated trace.
func (f *framer) continued(n int) {
	f.add(tracefile.Record(tracefile.NameCustom, tracefile.KeyPart, String("", strconv.Itoa(n))))
}

// versionArg returns the version argument of a dialect: V1 has a number, later
// dialects have text.
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

// framer makes the start and the end of files and the records of gaps. Only the
// sink's goroutine calls its methods.
type framer struct {
	o        *Options
	enc      *tracefile.Encoder
	names    *names
	nextID   func() uint64
	shorten  *atomic.Uint64  // counts strings that were cut
	end      func() traceEnd // called when a file ends
	pump     *pump
	clock    tracefile.Clock
	line     []byte
	text     []byte
	lines    int
	metadata int

	single bool         // one gzip stream for the whole file
	zip    *gzip.Writer // the compressor of that stream
	packed bytes.Buffer
}

// traceEnd is what the Writer adds to the end event of the trace.
type traceEnd struct {
	ts, written int64 // of the end event; 0 means the time of writing
	args        []Arg
}

// open starts the gzip stream of a file that has one.
func (f *framer) open() (err error) {
	if f.single = f.o.Compression == CompressSingle; !f.single {
		return nil
	}
	level := f.o.Level
	if level == levelAdaptive {
		level = levelSmall
	}
	f.zip, err = gzip.NewWriterLevel(&f.packed, level) // in a resumed file this is another member
	return err
}

// Begin implements fswrite.Format.
func (f *framer) Begin(p fswrite.Part) fswrite.Block {
	if f.single {
		f.zip.Reset(&f.packed)
	}
	f.header()
	if p.Number > 0 {
		f.continued(p.Number)
	}
	if p.Number > 0 || p.Again {
		for _, ev := range f.names.all() {
			ev.ID = 0
			f.add(ev)
		}
	}
	return f.block(false)
}

// Encode implements fswrite.Format.
func (f *framer) Encode(data []byte) []byte {
	if !f.single {
		return data
	}
	f.packed.Reset()
	_, _ = f.zip.Write(data) // bytes.Buffer does not fail
	_ = f.zip.Flush()
	return f.packed.Bytes()
}

// Gap implements fswrite.Format.
func (f *framer) Gap(g fswrite.Gap) fswrite.Block {
	f.missing(g)
	return f.block(false)
}

// End implements fswrite.Format.
func (f *framer) End(p fswrite.Part) fswrite.Block {
	f.footer(p)
	return f.block(true)
}

// Pause implements fswrite.Options.Pause: it ends a gzip member.
func (f *framer) Pause() fswrite.Block {
	if !f.single {
		return fswrite.Block{}
	}
	f.packed.Reset()
	_ = f.zip.Close() // bytes.Buffer does not fail
	return fswrite.Block{Data: f.packed.Bytes()}
}

// add encodes a record.
func (f *framer) add(ev Event) {
	if ev.ID == 0 && f.enc.HasID(ev.Phase) {
		ev.ID = f.nextID()
	}
	ev.TID = max(ev.TID, f.enc.Pid)
	line, cuts := tracefile.AppendFitting(f.line[:0], &ev, func(dst []byte, ev *Event) []byte {
		return f.enc.Append(dst, &f.clock, ev)
	})
	f.shorten.Add(uint64(cuts))
	f.text = append(f.text, line...)
	f.line = line
	f.lines++
	if ev.Phase == PhaseMetadata {
		f.metadata++
	}
}

// block returns what was added since the last call, encoded for the file.
func (f *framer) block(last bool) fswrite.Block {
	b := fswrite.Block{Data: f.text, Lines: f.lines, Metadata: f.metadata}
	f.pump.bytes.Add(uint64(len(f.text)))
	switch {
	case f.o.Compression == CompressNone:
	case f.single:
		b.Data = f.Encode(f.text)
		if last {
			_ = f.zip.Close()
			b.Data = f.packed.Bytes()
		}
	case f.o.Pool != nil:
		f.packed.Reset()
		f.o.Pool.pack(&f.packed, levelFast, f.text)
		f.pump.members.Add(1)
		b.Data = f.packed.Bytes()
	default:
		// This is a separate member. It is rare, so its compressor is not kept.
		f.packed.Reset()
		z, err := gzip.NewWriterLevel(&f.packed, levelFast)
		if err != nil {
			break // the level was checked
		}
		_, _ = z.Write(f.text)
		_ = z.Close()
		f.pump.members.Add(1)
		b.Data = f.packed.Bytes()
	}
	f.text, f.lines, f.metadata = f.text[:0], 0, 0
	return b
}

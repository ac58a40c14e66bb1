package python

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/internal/identity"
	"github.com/trainspan/trainspan/internal/proc"
	"github.com/trainspan/trainspan/internal/ring"
	"github.com/trainspan/trainspan/internal/secret"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// process writes what one ring holds.
type process struct {
	o     *Options
	log   *slog.Logger
	ring  *ring.Ring
	w     *dftracer.Writer
	num   int64 // of the process, as this one knows it; 0 where it cannot be seen
	plain bool  // whether the trace is not compressed

	id      outputs.Identity
	threads map[uint32]*thread
	most    int // threads that are kept although nothing of them is open
	nodes   map[uint32]*node
	numbers map[string]int64 // the last collective of each group
	tree    int              // nodes that are below another one
	told    map[string]bool  // which bounds the log says were reached
	places  places
	files   files
	calls   *calls // nil until the program calls back
	relay   *relay // nil where nothing is sent
	last    int64  // the latest time in the ring

	written    written // nil for none
	again      int64   // spans that were among them
	unfinished node
	open       int64
	args       []dftracer.Arg
	spare      [][]dftracer.Arg // of spans that were written
	spans      [][]span         // lists of spans that waited

	mu    sync.Mutex
	stats Stats // guarded by mu, for those who ask
}

// beginAfter is how long a span is open before its begin is written.
const beginAfter = time.Second

// entityCategory is that of records about entities: metadata with names of their own.
const entityCategory = "entity"

// rootCategory is that of the root of the tree of nodes.
const rootCategory = "ai_root"

// newProcess opens the trace file of a ring. A live one belongs to a process
// that still runs.
func newProcess(ctx context.Context, o *Options, r *ring.Ring, live bool) (*process, error) {
	p := &process{
		o: o, ring: r, threads: make(map[uint32]*thread), most: maxThreads, nodes: make(map[uint32]*node), last: r.Opened(),
		told:       make(map[string]bool),
		unfinished: node{key: dftracer.NewKey(dftracer.CatDFTracer, "unfinished"), epoch: -1, step: -1},
	}
	p.log = o.log().With("pid", r.PID())
	who := r.Who()
	p.num = locate(r.PID(), r.Ticks(), who.PIDNS)
	p.identify(who)
	t := dftracer.Options{Level: 1} // the processors are the training's
	if o.Trace != nil {
		t = *o.Trace
	}
	t.Process = dftracer.Process{PID: p.id.PID, PPID: int(who.PPID), Host: who.Host, Exec: who.Exec, Command: who.Command, Dir: who.Dir}
	t.Start = time.Unix(0, r.Opened())
	if live && t.Heartbeat == 0 {
		t.Heartbeat = dftracer.DefaultHeartbeat
	}
	if who.Env["DFTRACER_INC_METADATA"] == "0" {
		t.NoMetadata = true
	}
	switch strings.ToLower(who.Env["DFTRACER_TRACE_COMPRESSION"]) {
	case "0", "false", "off", "no":
		t.Compression = dftracer.CompressNone
	}
	p.plain = t.Compression == dftracer.CompressNone
	t.JobID, t.WorldSize = p.id.Job, 1 // the name of the file says the rank
	if p.id.Attempt.IsSet() {
		attempt := p.id.Attempt.Get()
		t.Attempt = &attempt
	}
	if p.id.RankKnown {
		rank := p.id.Rank.Get()
		t.Rank = &rank
	}
	if t.OnError == nil {
		t.OnError = func(err error) { p.log.Warn("trace of a Python process", "error", err, "see", see.File) }
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, err
	}
	if !live {
		p.written = findWritten(ctx, r.Path(), o.Out, p.name(), r.PID())
	}
	w, err := dftracer.Create(filepath.Join(o.Out, p.name()), &t)
	if err != nil {
		return nil, err
	}
	p.w = w
	p.world(p.id.WorldSize)
	p.wrote(w.Path())
	p.relay = newRelay(p, live)
	return p, nil
}

// name is that of the trace. A program that named its log file, where nobody
// gave a folder for rings, gets that name.
func (p *process) name() string {
	stem := strings.TrimSuffix(filepath.Base(p.ring.Path()), ring.Ext)
	for range 2 { // pid and start
		stem = stem[:max(strings.LastIndexByte(stem, '-'), 0)]
	}
	if stem == "" || stem == "py" {
		stem = "trace"
	}
	if p.id.RankKnown && p.ring.Forks() == 0 {
		stem = fmt.Sprintf("%s-rank%d", stem, p.id.Rank.Get())
	}
	ext := ".pfw.gz"
	if p.plain {
		ext = ".pfw"
	}
	return fmt.Sprintf("%s-%d%s", stem, p.id.PID, ext)
}

// identify finds out who the process is from its launcher's variables.
func (p *process) identify(who ring.Who) {
	ranks, err := config.DetectRanks(func(name string) (string, bool) {
		v, ok := who.Env[name]
		return v, ok
	})
	if err != nil {
		p.log.Warn("the place of a Python process in its job", "error", err, "see", see.RankUnknown)
	}
	p.id = outputs.Identity{
		Host: who.Host, PID: int(p.ring.PID()), Version: outputs.Version, Rank: ranks.Rank, RankKnown: ranks.Rank.IsSet(),
		LocalRank: ranks.LocalRank, WorldSize: ranks.WorldSize.Or(0), Attempt: ranks.Attempt, Job: ranks.Job, Run: ranks.Run,
	}
	if p.id.Job == "" {
		p.id.Job = p.o.Job
	}
	if !p.id.Attempt.IsSet() && p.o.Attempt >= 0 {
		p.id.Attempt = config.Value(p.o.Attempt)
	}
}

// alive reports whether the process still runs.
func (p *process) alive() bool { return proc.Alive(int(p.num), p.ring.Ticks()) }

// read takes what has come, and returns how many slots that was.
func (p *process) read() (int, error) {
	n, err := p.ring.Read(p.take)
	p.metadata()
	if n > 0 {
		p.count()
	}
	return n, err
}

// wrote notes a file.
func (p *process) wrote(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Files = append(p.stats.Files, path)
}

// count publishes the counts.
func (p *process) count() {
	st := p.ring.Stats()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Spans, p.stats.Again, p.stats.Lost, p.stats.Bad, p.stats.Open = st.Spans, p.again, st.Lost, st.Bad, p.open
	if p.calls != nil {
		p.stats.Calls = p.calls.n
	}
}

// metadata writes what the program said about itself.
func (p *process) metadata() {
	for _, m := range p.ring.Metas() {
		n, isNumber := m.Value.(float64)
		switch {
		case m.Key == "rank" && isNumber && n >= 0 && n < identity.MaxRanks:
			if !p.id.RankKnown {
				p.id.Rank, p.id.RankKnown = config.Value(int(n)), true
				p.w.SetRank(int(n))
				p.relay.identified()
			}
		case m.Key == "world_size" && isNumber && n > 0 && n < identity.MaxRanks:
			if int(n) != p.id.WorldSize {
				p.id.WorldSize = int(n)
				p.world(p.id.WorldSize)
			}
		default:
			p.w.CM(m.Key, fmt.Sprint(m.Value))
		}
	}
}

// world writes how many ranks the job has, as far as it is known.
func (p *process) world(n int) {
	if n > 0 {
		p.w.CM(identity.Word(identity.WorldSize, identity.Record), fmt.Sprint(n))
	}
}

// limit says once that a bound was reached.
func (p *process) limit(what string) {
	if !p.told[what] {
		p.told[what] = true
		p.log.Warn(what, "see", see.Python)
	}
}

// take takes a record.
func (p *process) take(r *ring.Record) {
	p.last = max(p.last, r.Start, r.End)
	if r.Depth > maxDepth {
		p.limit("spans of a Python process nest deeper than 1,024, as where starts have no stop: what is deeper is written side by side")
		r.Depth = maxDepth
	}
	t := p.thread(r.Thread)
	var n *node
	if r.Name != nil {
		n = p.node(r.Name)
	}
	switch r.Kind {
	case ring.KindFile:
		p.file(r.Value, r.Args)
	case ring.KindSpan:
		if r.Call {
			p.fileCall(t, n, r)
			return
		}
		p.span(t, n, r)
		if r.Next >= 0 {
			p.places.set(r.End, -1, r.Next)
		}
		if n.iteration {
			p.iterated(r)
		}
	case ring.KindBegin:
		p.begin(t, span{node: n, start: r.Start, args: appendObject(nil, r.Args)}, r.Depth)
	case ring.KindPoint:
		p.end(t, span{node: n, start: r.Start, end: r.Start, thread: t, args: p.arguments(n, r.Start, p.args[:0], r.Args)}, r.Depth, false)
	case ring.KindPosition:
		if n != nil {
			n.update(r.Epoch, r.Value, nil)
		}
		if n == nil || n.key.Cat() == rootCategory && !n.off {
			p.places.set(r.Start, r.Epoch, r.Value)
		}
	case ring.KindUpdate:
		if !n.update(-1, -1, appendObject(nil, r.Args)) {
			p.limit("update was given more than 128 arguments, or more than 16 KiB, by a Python process: the further ones are left out")
		}
	case ring.KindState:
		n.each(func(n *node) { n.off = r.Value == 0 })
	case ring.KindDrop:
		n.over(t, r.Start)
		p.drop(t, span{node: n, start: r.Start, end: r.End, thread: t}, r.Depth, r.Crossed)
	case ring.KindNote:
		if n.key.Cat() == entityCategory {
			p.w.Write(&dftracer.Event{Phase: dftracer.PhaseMetadata, Cat: dftracer.CatDFTracer, Name: n.key.Name(), TID: p.ring.PID(), Args: appendObject(nil, r.Args)})
			return
		}
		p.note(n.key.Name(), r)
	case ring.KindCall:
		if r.Value > 0 { // an iteration, and its number from 1
			p.places.set(r.Start, -1, r.Value-1)
		}
		p.call(n.key.Name(), r.Start, r.Args)
	}
}

// note writes metadata with a time. What an exception says may hold a secret.
func (p *process) note(name string, r *ring.Record) {
	args := appendObject(nil, r.Args)
	for i := range args {
		if args[i].Key == attributes.ExceptionMessage {
			args[i] = dftracer.String(attributes.ExceptionMessage, secret.Text(args[i].Str()))
		}
	}
	p.w.CM(name, fmt.Sprint(r.Start/1000), args...)
}

// span takes a span that ended.
func (p *process) span(t *thread, n *node, r *ring.Record) {
	n.over(t, r.Start)
	if n.group != "" && r.Value > p.numbers[n.group] {
		if p.numbers == nil {
			p.numbers = make(map[string]int64)
		}
		p.numbers[n.group] = r.Value
	}
	asked := r.Start
	if r.Thread.Lane {
		asked -= r.Value
	}
	args := p.arguments(n, asked, appendValue(p.args[:0], n, r), r.Args)
	args = assemble.AppendStatus(args, r.Failed, false, "")
	if r.ArgsLost {
		args = append(args, dftracer.Int("args_lost", 1))
	}
	p.end(t, span{node: n, start: r.Start, end: r.End, thread: t, args: args}, r.Depth, r.Crossed)
}

// over notes that the latest span of a name on a thread has ended.
func (d *node) over(t *thread, start int64) {
	if t.number < cellThreads {
		d.ended[t.number] = max(d.ended[t.number], start)
	}
}

// appendValue appends what the value of a span stands for.
func appendValue(dst []dftracer.Arg, n *node, r *ring.Record) []dftracer.Arg {
	switch {
	case r.Value <= 0:
		return dst
	case r.Thread.Lane: // of a device, which came to it later
		return append(dst, dftracer.Int("background", 1), dftracer.Float("lag_us", float64(r.Value)/1000))
	case n.samples:
		return append(dst, dftracer.Int("samples", r.Value))
	case n.group != "":
		return append(dst, dftracer.Int(argNumber, r.Value))
	}
	return append(dst, dftracer.Int("count", r.Value))
}

// arguments are those of a span that was asked for at a time: where the training
// stood then, the first ones, what the node was given, and the span's own, which
// win.
func (p *process) arguments(n *node, asked int64, first []dftracer.Arg, own []byte) []dftracer.Arg {
	epoch, step := p.places.at(asked)
	if n.epoch >= 0 {
		epoch = n.epoch
	}
	if n.step >= 0 {
		step = n.step
	}
	rest := first
	for _, a := range n.args { // each key once
		if i := slices.IndexFunc(first, func(f dftracer.Arg) bool { return f.Key == a.Key }); i >= 0 {
			rest[i] = a
		} else {
			rest = append(rest, a)
		}
	}
	rest = appendObject(rest, own)
	rest, epoch = take(rest, attributes.Epoch, epoch)
	rest, step = take(rest, attributes.Step, step)
	p.args = rest
	var args []dftracer.Arg
	if n := len(p.spare); n > 0 {
		args, p.spare = p.spare[n-1], p.spare[:n-1]
	} else if n := len(rest) + 2; n > 2 || epoch >= 0 || step >= 0 {
		args = make([]dftracer.Arg, 0, n)
	}
	if epoch >= 0 {
		args = append(args, dftracer.Int(attributes.Epoch, epoch))
	}
	if step >= 0 {
		args = append(args, dftracer.Int(attributes.Step, step))
	}
	return append(args, rest...)
}

// write writes a span below another one, 0 for none, and what is below it.
func (p *process) write(s *span, parent uint64) {
	if len(s.below) > 0 {
		if s.id == 0 {
			s.id = p.w.NextID()
		}
		for i := range s.below {
			s.below[i].level = s.level + 1
			p.write(&s.below[i], s.id)
		}
		p.spareSpans(s.below)
		s.below = nil
	}
	start, end := s.start/1000, s.end/1000
	if p.written != nil && p.written.take(writtenSpan{s.node.key.Cat(), s.node.key.Name(), start, end - start}) {
		p.again++
		s.args = nil
		return
	}
	tid, alone := s.thread.place(start, end, s.aside)
	if !alone {
		p.limit("more than 256 spans of one thread of a Python process overlap: the further ones share a row")
	}
	at := dftracer.Span{
		ID: s.id, TID: tid, TS: start, Dur: end - start, Level: max(s.level, 1), Parent: dftracer.NoParent,
	}
	if parent != 0 {
		at.Parent = int64(parent)
	}
	p.w.WriteComplete(&s.node.key, at, s.args...)
	if cap(s.args) > 0 && len(p.spare) < maxSpare {
		p.spare = append(p.spare, s.args[:0])
	}
	s.args = nil
}

// maxSpare bounds the memory that is kept for the arguments of spans.
const maxSpare = 256

// event is an open span for its begin record.
func (p *process) event(s *span, parent uint64) *dftracer.Event {
	e := &dftracer.Event{
		ID: s.id, Name: s.node.key.Name(), Cat: s.node.key.Cat(), Type: dftracer.TypePython, TID: s.thread.tid, TS: s.start / 1000,
		Level: s.level, Parent: dftracer.NoParent, Args: s.args,
	}
	if parent != 0 {
		e.Parent = int64(parent)
	}
	return e
}

// cells returns the spans that the ring says were started last and that have not
// ended, by thread.
func (p *process) cells(before int64) (map[*thread][]began, error) {
	open := make(map[*thread][]began)
	err := p.ring.Cells(func(c ring.Cell) {
		t, n := p.thread(c.Thread), p.node(c.Name)
		if c.Start > n.ended[t.number] && c.Start <= before {
			open[t] = append(open[t], began{node: n, start: c.Start})
		}
	})
	return open, err
}

// tick writes the begin of what has been open for a while. What the cells show is
// looked at before the slots are: the end of a span whose cell is old may lie there, and
// the cells of those around it may be of their next ones by then.
func (p *process) tick(now int64) error {
	before := now - beginAfter.Nanoseconds()
	p.relay.pass(now)
	p.passTotals(now)
	open, err := p.cells(before)
	if err == nil {
		_, err = p.read()
	}
	for _, t := range p.threads {
		p.announce(t, slices.DeleteFunc(open[t], func(b began) bool { return b.start <= b.node.ended[t.number] }), before)
	}
	p.delivered()
	return err
}

// How often regions of the ring are given back, and how many are kept when the
// trace cannot be written: 8 MB of shared memory.
const (
	releaseEvery = 250 * time.Millisecond
	holdMost     = 16
)

// release gives back what was read from the ring once it is in the file, so that
// a kill of this process loses nothing. A disk that stalls is not waited for long.
func (p *process) release() error {
	for _, t := range p.threads {
		p.settleAll(t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := p.w.FlushContext(ctx); err != nil && p.ring.Held() < holdMost {
		return nil // the writer reports what goes wrong
	}
	return p.ring.Release()
}

// finish reads the rest of the ring of a process that is gone, or that is left
// to itself, as long as reading is not over, and closes what was written.
func (p *process) finish(ctx, reading context.Context) error {
	err := p.ring.Finish(reading, p.take)
	p.writeTotals()
	if err != nil {
		err = fmt.Errorf("%s: %w", p.ring.Path(), err)
	}
	p.metadata()
	open, cellErr := p.cells(1<<63 - 1)
	if err == nil {
		err = cellErr
	}
	for _, t := range p.threads {
		p.announce(t, open[t], 1<<63-1)
		for _, l := range t.levels {
			for i := range l.waiting { // nothing is known of the one around them
				p.write(&l.waiting[i], 0)
			}
		}
		p.open += int64(len(t.known))
	}
	p.count()
	var args []dftracer.Arg
	st := p.ring.Stats()
	if st.Others > 0 {
		p.limit("a Python process has more than 65,536 names: the spans of the further ones are called (other)")
	}
	if st.Lost > 0 {
		args = append(args, dftracer.Int("spans_lost", st.Lost))
	}
	if p.open > 0 && !p.ring.Closed() { // it did not end itself
		args = append(args, dftracer.Int("recovered", 1))
	}
	p.w.SetEndArgs(args...)
	p.w.SetEnd(time.Unix(0, p.last))
	if closeErr := p.w.CloseContext(ctx); err == nil { // before what goes over a network, which may take its time
		err = closeErr
	}
	p.relay.finish()
	p.calls.close(ctx, p.open > 0)
	p.relay.close(ctx)
	p.delivered()
	return err
}

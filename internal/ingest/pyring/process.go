package pyring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/telemetry"
)

// process writes the contents of one ring buffer.
type process struct {
	*source

	// The trace: see writer.go.
	w       *dftracer.Writer
	places  places
	written written // nil if there are none
	again   int64   // spans that were among them
	crowded bool    // spans share lane 0
	args    []dftracer.Arg
	spare   [][]dftracer.Arg // argument lists for reuse
	spans   [][]span         // span lists for reuse

	// The threads, and the code that nests their spans: see nest.go.
	relay      *relay // nil if nothing is sent
	threads    map[uint32]*thread
	most       int              // the number of threads that are kept although none of their spans is open
	numbers    map[string]int64 // the last collective of each group
	unfinished node

	nodes nodeTree
	files files
	calls *calls // nil before the first callback
	open  int64  // spans without an end
	gone  int64  // lines of its trace, written or waiting, that are no longer in the ring buffer
}

// beginAfter is how long a span must be open for a begin record.
const beginAfter = time.Second

// entityCategory is the category of records about entities: metadata with their
// own names.
const entityCategory = "entity"

// rootCategory is the category of the root of the node tree.
const rootCategory = "ai_root"

// newProcess opens the trace file of a ring buffer. live means that its process
// still runs.
func newProcess(ctx context.Context, o *Options, r *ring.Ring, live bool) (*process, error) {
	who := r.Who()
	src := &source{o: o, ring: r, log: o.log().With("pid", r.PID), num: locate(r.PID, r.Ticks, who.PIDNS), last: r.Opened, told: make(map[string]bool)}
	src.identify(who)
	p := emptyProcess(src)
	p.nodes, p.files, p.news = nodeTree{src: src, byID: make(map[uint32]*node)}, files{p: p}, p.metadata
	t := dftracer.Options{Level: 1} // the processors are needed for training
	if o.Trace != nil {
		t = *o.Trace
	}
	t.Process = dftracer.Process{PID: p.id.PID, PPID: int(who.PPID), Host: who.Host, Exec: who.Exec, Command: who.Command, Dir: who.Dir,
		JobID: p.id.Job, WorldSize: 1, SessionTag: t.Process.SessionTag} // the file name has the rank
	t.Start = time.Unix(0, r.Opened)
	if live && t.Heartbeat == 0 {
		t.Heartbeat = tracefile.DefaultHeartbeat
	}
	if who.Env["DFTRACER_INC_METADATA"] == "0" {
		t.NoMetadata = true
	}
	switch strings.ToLower(who.Env["DFTRACER_TRACE_COMPRESSION"]) {
	case "0", "false", "off", "no":
		t.Compression = dftracer.CompressNone
	}
	p.plain = t.Compression == dftracer.CompressNone
	if p.id.Attempt.IsSet() {
		attempt := p.id.Attempt.Get()
		t.Process.Attempt = &attempt
	}
	if p.id.RankKnown {
		rank := p.id.Rank.Get()
		t.Process.Rank = &rank
	}
	onError := t.OnError
	if onError == nil {
		onError = func(err error) {
			p.log.Warn("cannot write the trace of a Python process", "error", err, "see", helptopic.File)
		}
	}
	t.OnError = func(err error) {
		if o := (*dftracer.Outage)(nil); errors.As(err, &o) {
			src.fails.Store(!o.Over)
		}
		onError(err)
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, err
	}
	p.file = p.name()
	if !live {
		p.written = findWritten(ctx, r.Path, o.Out, p.file, r.PID)
	}
	w, err := dftracer.Create(filepath.Join(o.Out, p.file), &t)
	if err != nil {
		return nil, err
	}
	p.w = w
	p.world(p.id.WorldSize.Or(0))
	p.wrote(w.Path())
	p.relay = newRelay(src, live)
	return p, nil
}

// read reads new slots, and returns their number.
func (p *process) read() (int, error) {
	n, err := p.ring.Read(p.take)
	p.metadata()
	if n > 0 {
		p.count()
	}
	return n, err
}

// count publishes the counts.
func (p *process) count() {
	st := p.ring.Stats()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Spans, p.stats.Again, p.stats.Lost, p.stats.Bad, p.stats.Open = st.Spans, p.again, st.Lost+p.gone, st.Bad, p.open
	if p.calls != nil {
		p.stats.Calls = p.calls.n
	}
}

// metadata writes the program's metadata.
func (p *process) metadata() {
	for _, m := range p.ring.Metas() {
		n, isNumber := m.Value.(float64)
		switch {
		case m.Key == "rank" && isNumber && n >= 0 && n < identity.MaxRanks:
			if !p.id.RankKnown {
				p.id.Rank, p.id.RankKnown = config.Value(int(n)), true
				tracefile.WriteRank(p.w, int(n))
				p.relay.identified()
			}
		case m.Key == "world_size" && isNumber && n > 0 && n < identity.MaxRanks:
			if int(n) != p.id.WorldSize.Or(0) {
				p.id.WorldSize = config.Value(int(n))
				p.world(p.id.WorldSize.Or(0))
			}
		default:
			tracefile.WriteCustom(p.w, m.Key, fmt.Sprint(m.Value))
		}
	}
}

// world writes the number of ranks, if it is known.
func (p *process) world(n int) {
	if n > 0 {
		tracefile.WriteCustom(p.w, identity.WorldSize.Word(identity.Record), fmt.Sprint(n))
	}
}

// spanEnded notes that the latest span of a name on a thread has ended.
func (d *node) spanEnded(t *thread, start int64) {
	if t.number < cellThreads {
		d.ended[t.number] = max(d.ended[t.number], start)
	}
}

// cells returns the spans in the ring buffer's cells that have not ended, by
// thread.
func (p *process) cells(before int64) (map[*thread][]began, error) {
	open := make(map[*thread][]began)
	err := p.ring.Cells(func(c ring.Cell) {
		t, n := p.thread(c.Thread), p.nodes.nodeOf(c.Name)
		if c.Start > n.ended[t.number] && c.Start <= before {
			open[t] = append(open[t], began{node: n, start: c.Start})
		}
	})
	return open, err
}

// tick writes the begin of spans that have been open for a while. It reads the
// cells before the slots: the end of an old cell's span may be in the slots,
// and later the cells of spans around it may be about their successors.
func (p *process) tick(now int64) error {
	before := now - beginAfter.Nanoseconds()
	p.relay.pass(now)
	p.files.passTotals(now)
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

const (
	// Regions of the ring buffer are released this often, and sooner if there are
	// this many.
	releaseEvery = 250 * time.Millisecond
	releaseMany  = 8
	// waitMost is how many bytes wait in memory for a trace that cannot be written,
	// before data waits in the ring buffer: a quarter of what its writer holds, so
	// that the writer never loses lines. Sending to a backend stops too.
	waitMost = fswrite.DefaultHold / 4
)

// full reports whether new data has to wait in the ring buffer.
func (p *process) full() bool { return p.fails.Load() && p.w.Stats().Held >= waitMost }

// release releases what was read from the ring buffer once it is in the file.
// Until then it stays there for Import, whatever happens to the disk and to
// this process. It does not wait long for a stalled disk.
func (p *process) release() error {
	for _, t := range p.threads {
		p.settleAll(t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if p.w.FlushContext(ctx) != nil {
		return nil // the writer reports errors
	}
	p.gone = int64(p.w.Stats().Lost) // of a deleted file, for example
	return p.ring.Release()
}

// unwritten counts what is missing in a trace that could not be written
// completely: the spans that wait in the ring buffer, and the slots that are
// gone. If ctx ends first, the counts are too low.
func (p *process) unwritten(ctx context.Context) (waiting, lost int64) {
	if ctx.Err() != nil {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), counting)
		defer cancel()
		ctx = short
	}
	lost, err := p.ring.Unsaved()
	if err != nil {
		lost = 0 // its error was about reading, too
	}
	r, err := ring.Open(p.ring.Path, ring.Options{})
	if err != nil {
		return 0, lost
	}
	defer r.Close()
	seen := findWritten(ctx, p.ring.Path, p.o.Out, p.file, p.ring.PID)
	_ = r.Finish(ctx, func(rec *ring.Record) { // as above
		if rec.Kind == ring.KindSpan && !seen.take(spanOf(p.nodes.nodeOf(rec.Name), rec.Start/1000, rec.End/1000)) {
			waiting++
		}
	})
	return waiting, lost
}

// waitingSpans returns how many spans wait in the ring buffer at the end.
func (p *process) waitingSpans() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats.Waiting
}

// counting is the time for unwritten after ctx has ended. It is shorter than
// grace.
const counting = grace / 2

// finish reads the rest of the ring buffer of a process that is gone or no
// longer followed, until reading ends, and closes the output.
func (p *process) finish(ctx, reading context.Context) error {
	err := p.ring.Finish(reading, p.take)
	p.files.writeTotals()
	if err != nil {
		err = fmt.Errorf("%s: %w", p.ring.Path, err)
	}
	p.metadata()
	open, cellErr := p.cells(1<<63 - 1)
	if err == nil {
		err = cellErr
	}
	for _, t := range p.threads {
		p.announce(t, open[t], 1<<63-1)
		for _, l := range t.levels {
			for i := range l.waiting { // nothing is known about the span around them
				p.write(&l.waiting[i], 0)
			}
		}
		p.open += int64(len(t.known))
	}
	p.count()
	var args []dftracer.Arg
	st := p.ring.Stats()
	if st.Others > 0 {
		p.limit("a Python process uses more than 65,536 span names: spans with further names are called (other)")
	}
	if st.Lost > 0 {
		args = append(args, dftracer.Int("spans_lost", st.Lost))
	}
	if p.open > 0 && !p.ring.Closed() { // it did not end regularly
		args = append(args, dftracer.Int("recovered", 1))
	}
	p.w.SetEnd(time.Unix(0, p.last), args...)
	if closeErr := p.w.CloseContext(ctx); err == nil { // before the network outputs, which may take longer
		err = closeErr
	}
	if err != nil {
		waiting, lost := p.unwritten(ctx)
		p.gone += lost
		p.count()
		p.mu.Lock()
		p.stats.Waiting = waiting
		p.mu.Unlock()
	}
	p.relay.finish(p.threads)
	p.calls.close(ctx, p.open > 0)
	p.relay.close(ctx)
	p.delivered()
	return err
}

// providers returns the providers of a process.
func (p *process) providers() (all []*telemetry.Provider) {
	if p.calls != nil && p.calls.tel != nil {
		all = append(all, p.calls.tel)
	}
	if p.relay != nil {
		all = append(all, p.relay.own...)
	}
	return all
}

// delivered updates the counts of sent spans.
func (p *process) delivered() {
	all := p.providers()
	if len(all) == 0 {
		return
	}
	var d Delivery
	for _, tel := range all {
		st := tel.Stats()
		d.add(Delivery{
			Spans: st.EndedSpans, Sent: st.ExportedSpans, Spilled: st.SpilledSpans, Lost: st.DroppedSpans,
			LogRecords: st.LogRecords, LostLogRecords: st.DroppedLogRecords, Causes: st.Drops,
		})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Delivery = d
}

// add adds the counts of a process.
func (s *Stats) add(p *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Spans += p.stats.Spans
	s.Again += p.stats.Again
	s.Lost += p.stats.Lost
	s.Waiting += p.stats.Waiting
	s.Bad += p.stats.Bad
	s.Open += p.stats.Open
	s.Calls += p.stats.Calls
	s.Delivery.add(p.stats.Delivery)
	s.Files = append(s.Files, p.stats.Files...)
}

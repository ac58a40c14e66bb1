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

// process writes what one ring holds.
type process struct {
	*source

	// The trace: see writer.go.
	w       *dftracer.Writer
	places  places
	written written // nil for none
	again   int64   // spans that were among them
	crowded bool    // spans share lane 0
	args    []dftracer.Arg
	spare   [][]dftracer.Arg // of spans that were written
	spans   [][]span         // lists of spans that waited

	// The threads, and what puts their spans below each other: see nest.go.
	relay      *relay // nil where nothing is sent
	threads    map[uint32]*thread
	most       int              // threads that are kept although nothing of them is open
	numbers    map[string]int64 // the last collective of each group
	unfinished node

	nodes nodeTree
	files files
	calls *calls // nil until the program calls back
	open  int64  // spans that had not ended
	gone  int64  // lines that were in its trace, or on their way to it, and are in the ring no more
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
	who := r.Who()
	src := &source{o: o, ring: r, log: o.log().With("pid", r.PID), num: locate(r.PID, r.Ticks, who.PIDNS), last: r.Opened, told: make(map[string]bool)}
	src.identify(who)
	p := emptyProcess(src)
	p.nodes, p.files, p.news = nodeTree{src: src, byID: make(map[uint32]*node)}, files{p: p}, p.metadata
	t := dftracer.Options{Level: 1} // the processors are the training's
	if o.Trace != nil {
		t = *o.Trace
	}
	t.Process = dftracer.Process{PID: p.id.PID, PPID: int(who.PPID), Host: who.Host, Exec: who.Exec, Command: who.Command, Dir: who.Dir,
		JobID: p.id.Job, WorldSize: 1, SessionTag: t.Process.SessionTag} // the name of the file says the rank
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

// read takes what has come, and returns how many slots that was.
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

// metadata writes what the program said about itself.
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

// world writes how many ranks the job has, as far as it is known.
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

// cells returns the spans that the ring says were started last and that have not
// ended, by thread.
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

// tick writes the begin of what has been open for a while. What the cells show is
// looked at before the slots are: the end of a span whose cell is old may lie there, and
// the cells of those around it may be of their next ones by then.
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
	// Regions of the ring are given back so often, and sooner where there are so many.
	releaseEvery = 250 * time.Millisecond
	releaseMany  = 8
	// waitMost is how many bytes wait in memory for a trace that cannot be written, before
	// what comes waits in the ring: a quarter of what its writer takes, which never has to
	// lose lines then. What is sent to a backend stops there too.
	waitMost = fswrite.DefaultHold / 4
)

// full reports whether what comes has to wait in the ring.
func (p *process) full() bool { return p.fails.Load() && p.w.Stats().Held >= waitMost }

// release gives back what was read from the ring once it is in the file. Until then it
// stays there: for Import, whatever becomes of the disk and of this process. A disk that
// stalls is not waited for long.
func (p *process) release() error {
	for _, t := range p.threads {
		p.settleAll(t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if p.w.FlushContext(ctx) != nil {
		return nil // the writer reports what goes wrong
	}
	p.gone = int64(p.w.Stats().Lost) // of a file that was deleted, say
	return p.ring.Release()
}

// unwritten counts what is not in the trace when that could not be written to its end:
// the spans that wait in the ring, and the slots that are there no more. Where ctx ends
// before all are counted there are more.
func (p *process) unwritten(ctx context.Context) (waiting, lost int64) {
	if ctx.Err() != nil {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), counting)
		defer cancel()
		ctx = short
	}
	lost, err := p.ring.Unsaved()
	if err != nil {
		lost = 0 // its error was that of reading, too
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

// waitingSpans is how many spans wait in the ring when all is over.
func (p *process) waitingSpans() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats.Waiting
}

// counting is the time that unwritten gets when ctx has ended. It is shorter than grace.
const counting = grace / 2

// finish reads the rest of the ring of a process that is gone, or that is left
// to itself, as long as reading is not over, and closes what was written.
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
		p.limit("a Python process uses more than 65,536 span names: spans with further names are called (other)")
	}
	if st.Lost > 0 {
		args = append(args, dftracer.Int("spans_lost", st.Lost))
	}
	if p.open > 0 && !p.ring.Closed() { // it did not end itself
		args = append(args, dftracer.Int("recovered", 1))
	}
	p.w.SetEnd(time.Unix(0, p.last), args...)
	if closeErr := p.w.CloseContext(ctx); err == nil { // before what goes over a network, which may take its time
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

// providers are those of a process.
func (p *process) providers() (all []*telemetry.Provider) {
	if p.calls != nil && p.calls.tel != nil {
		all = append(all, p.calls.tel)
	}
	if p.relay != nil {
		all = append(all, p.relay.own...)
	}
	return all
}

// delivered publishes what became of the spans that are sent.
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

// add adds the counts of a process that is being read, or was.
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

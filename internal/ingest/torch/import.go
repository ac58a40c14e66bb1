package torch

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch/compilelog"
	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/platform/identity"
)

// Import reads sources and writes their events to sink, which may be nil if
// only spans are wanted. Sources are independent: one of another kind, or one
// that cannot be read, is skipped and reported; it is an error (a
// *kineto.RefusedError for another kind) only if there was nothing else to
// import. Damage inside a trace is reported and is not an error. Spans that
// were not delivered are the error of the report's Spans, after all events went
// to the sink.
//
// The report is also returned with an error, with what was found until then.
func Import(ctx context.Context, sink Sink, sources []Source, opts *Options) (*Report, error) {
	o := opts.resolved()
	rules, err := compileRules(o.Rules)
	if err != nil {
		return &Report{}, err
	}
	deviceRules, err := compileDeviceRules(o.DeviceRules)
	if err != nil {
		return &Report{}, err
	}
	im := &importer{opts: &o, rules: rules, deviceRules: deviceRules, store: extsort.NewStore(o.TempDir), seed: maphash.MakeSeed(), sink: sink, report: &Report{Events: map[string]int64{}}}
	defer im.close()
	for _, src := range sources {
		if err := im.read(ctx, src, len(sources) > 1); err != nil {
			return im.report, err
		}
	}
	if len(im.procs) == 0 && len(im.logs) == 0 {
		if err := cmp.Or(im.refused, im.failed); err != nil {
			return im.report, err
		}
		return im.report, errors.New("pytorch: nothing to import")
	}
	return im.report, im.write(ctx)
}

type discard struct{}

func (discard) Write(*dftracer.Event) {}

func idsOf(sink Sink) func() uint64 {
	if s, ok := sink.(interface{ NextID() uint64 }); ok {
		return s.NextID
	}
	var last uint64
	return func() uint64 { last++; return last }
}

// importer is one import.
type importer struct {
	opts            *Options
	rules           *ruleSet
	deviceRules     *deviceRules
	sink            Sink
	nextID          func() uint64
	report          *Report
	procs           []*process
	logs            []*loadedLog
	store           *extsort.Store
	texts           []scanned
	seed            maphash.Seed
	refused, failed error
	// logLanes counts the lanes of threads in compile logs.
	logLanes int64
}

func (im *importer) close() {
	for _, p := range im.procs {
		p.rows.close()
	}
	_ = im.store.Close() // its contents are no longer needed
}

// read scans one source. With several sources, each releases its memory when it
// is done. Problems of a source are reported, and the others are still read;
// the error is that of ctx.
func (im *importer) read(ctx context.Context, src Source, several bool) error {
	if src.Open == nil {
		im.fail(src.Name, errors.New("cannot open the source"))
		return nil
	}
	f, err := src.Open()
	var refused *kineto.RefusedError
	if errors.As(err, &refused) {
		im.refuse(src.Name, err)
		return nil
	}
	if err != nil {
		im.fail(src.Name, err)
		return nil
	}
	defer f.Close()
	// A pipe may wait for its writer forever.
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	before := len(im.procs)
	err = kineto.Walk(f, src.Name, func(m kineto.Member) error {
		body := bufio.NewReaderSize(m.Body, 4096)
		head, _ := body.Peek(64)
		var err error
		if compilelog.IsLog(head) {
			err = im.readLog(body, m.Name, src.ModTime)
		} else {
			err = im.readTrace(ctx, body, m.Name, src.ModTime, several || m.Name != src.Name)
		}
		if err != nil && ctx.Err() == nil {
			// The other members of an archive may be whole.
			im.fail(m.Name, err)
			return nil
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refused):
		im.refuse(src.Name, err)
	case err != nil && !im.truncatedSince(before):
		im.fail(src.Name, err)
	}
	return nil
}

// truncatedSince reports whether a trace read since then is reported as
// truncated.
func (im *importer) truncatedSince(before int) bool {
	return len(im.procs) > before && im.procs[len(im.procs)-1].report.Truncated
}

// fail reports a source, or a part of one, that could not be read.
func (im *importer) fail(name string, err error) {
	im.report.Failed = append(im.report.Failed, Failure{name, textError{err}})
	if im.failed == nil {
		im.failed = fmt.Errorf("pytorch: %s: %w", name, err)
	}
}

func (im *importer) refuse(name string, err error) {
	im.report.Refused = append(im.report.Refused, Failure{name, textError{err}})
	if im.refused == nil {
		im.refused = fmt.Errorf("%s: %w", name, err)
	}
}

func (im *importer) readTrace(ctx context.Context, body io.Reader, name string, mod time.Time, several bool) error {
	p := newProcess(name, im.opts, im.rules, im.deviceRules, im.store)
	text := &sum{from: body, hashed: several}
	text.hash.SetSeed(im.seed)
	cut, err := scan(ctx, p, text, mod)
	if err == nil {
		if same := im.copyOf(text); same != "" {
			p.rows.close()
			im.report.Copies = append(im.report.Copies, Failure{name, textError{fmt.Errorf("a copy of %s; counted once", same)}})
			return nil
		}
		im.texts = append(im.texts, scanned{name, text.key()})
		err = link(ctx, p)
	}
	if err == nil && several {
		err = p.rows.flush()
	}
	var refused *kineto.RefusedError
	if err != nil {
		p.rows.close()
		if errors.As(err, &refused) {
			im.refuse(name, err)
			return nil
		}
		return err
	}
	im.procs = append(im.procs, p)
	im.report.Files = append(im.report.Files, p.report)
	if cut != nil {
		im.fail(name, cut)
	}
	return nil
}

// sum identifies equal files, whatever their names and compression, by their
// length and a hash with a seed of this import; two files of one length have
// the same hash once in 2^64.
type sum struct {
	from   io.Reader
	hashed bool // there are other files
	hash   maphash.Hash
	n      int64
}

// Read implements io.Reader.
func (s *sum) Read(b []byte) (int, error) {
	n, err := s.from.Read(b)
	s.n += int64(n)
	if s.hashed {
		_, _ = s.hash.Write(b[:n])
	}
	return n, err
}

func (s *sum) key() textKey { return textKey{s.n, s.hash.Sum64()} }

type textKey struct {
	length int64
	hash   uint64
}

// scanned is a trace that was read.
type scanned struct {
	name string
	key  textKey
}

// copyOf returns the name of an equal trace that was read before, or "".
func (im *importer) copyOf(s *sum) string {
	key := s.key()
	for _, t := range im.texts {
		if t.key == key {
			return t.name
		}
	}
	return ""
}

func (im *importer) write(ctx context.Context) error {
	im.identify()
	for _, group := range windows(im.procs, im.opts) {
		if rep := alignRanks(group, im.opts); rep != nil {
			im.report.Ranks = append(im.report.Ranks, rep)
		}
	}
	if err := im.begin(); err != nil {
		return err
	}
	logs := indexLogs(im.logs)
	spans := newSpanWriter(ctx, im.opts.Spans, im.procs)
	if spans != nil {
		im.report.Spans = spans.report
	}
	frames := jobs(im.procs)
	for _, p := range im.procs {
		p.graphs = logs.indexFor(p.rank)
		spans.process(p)
		o := &out{p: p, sink: im.sink, nextID: im.nextID, counts: im.report.Events}
		if err := emit(ctx, o, spans, frames); err != nil {
			return fmt.Errorf("pytorch: %s: %w", p.name, err)
		}
		p.rows.close()
	}
	spans.flush()
	for _, l := range im.logs {
		im.writeLog(l)
	}
	if spans != nil && spans.report.Err != nil {
		return spans.report.Err
	}
	return nil
}

// earliest returns the first moment of an import, in nanoseconds since 1970, or
// 0.
func (im *importer) earliest() int64 {
	first := int64(math.MaxInt64)
	for _, p := range im.procs {
		if p.hasRows() {
			lo, _ := p.bounds()
			first = min(first, p.wall(lo))
		}
	}
	for _, l := range im.logs {
		for i := range l.phases {
			first = min(first, l.phases[i].Start)
		}
	}
	if first == math.MaxInt64 {
		return 0
	}
	return max(first, 0)
}

// begin opens the sink.
func (im *importer) begin() error {
	if im.opts.Begin != nil {
		start := time.Time{}
		if first := im.earliest(); first > 0 {
			start = time.Unix(0, first)
		}
		sink, err := im.opts.Begin(start)
		if err != nil {
			return &sinkError{err}
		}
		im.sink = sink
	}
	if im.sink == nil {
		im.sink = discard{}
	}
	if s, ok := im.sink.(interface{ Dialect() dftracer.Dialect }); ok {
		im.opts.Dialect = s.Dialect()
	}
	im.nextID = idsOf(im.sink)
	return nil
}

// sinkError is the error of a sink that could not be opened, as opposed to that
// of a file.
type sinkError struct{ error }

func (e *sinkError) Unwrap() error { return e.error }

// identify determines hosts and process ids once all files are known, because
// two processes of unknown hosts must not look like one.
func (im *importer) identify() {
	for _, p := range im.procs {
		switch {
		case p.host != "":
		case im.opts.Host != "":
			p.host = im.opts.Host
		default:
			p.host = identity.HostOf(p.rank)
		}
	}
	slices.SortStableFunc(im.procs, func(a, b *process) int { return compareRanks(a.rank, b.rank) })
}

// compareRanks orders ranks, unknown ones last.
func compareRanks(a, b int64) int {
	switch {
	case a < 0 && b < 0:
		return 0
	case a < 0:
		return 1
	case b < 0:
		return -1
	}
	return cmp.Compare(a, b)
}

// finishReport fills in the results of the passes. lanesLeft is on how many
// threads phases have no device time.
func (p *process) finishReport(lanesLeft int) {
	r := p.report
	if r.Compile != nil {
		r.Compile.say(r)
	}
	r.PID, r.Host = p.pid, p.host
	r.Start, r.End = time.Unix(0, p.wall(p.window[0])), time.Unix(0, p.wall(p.window[1]))
	r.SelfCPU, r.Device = time.Duration(p.totalSelf), time.Duration(p.totalDevice)
	r.SpilledBytes = p.rows.spilled()
	if r.Steps == 0 {
		r.cannot("steps: the profiler marks them only when it runs with a schedule")
	}
	if p.ordinals == 0 {
		r.cannot("operators: the trace has no host rows")
	}
	if p.launchesComm && !p.hasComm && !p.hasGloo {
		r.cannot("collectives: they ran on a device, and the trace has only their launches")
	}
	if !p.hasShapes && p.ordinals > 0 {
		r.cannot("input_size: record_shapes was off")
	}
	if r.MemoryInstants == 0 {
		r.cannot("memory: profile_memory was off")
	}
	if p.rank < 0 {
		r.cannot("the rank: neither the file nor its name has it")
	}
	if r.DeviceUnlinked > 0 {
		r.cannot(fmt.Sprintf("what launched %d device rows: a graph replay launched them, or the launch was before the window", r.DeviceUnlinked))
	}
	if r.HalfEvents > 0 {
		r.warn(fmt.Sprintf("%d events have only a begin or only an end and were dropped", r.HalfEvents))
	}
	if r.Negative > 0 {
		r.warn(fmt.Sprintf("%d events end before they begin and were dropped", r.Negative))
	}
	if r.NoProcess > 0 {
		r.warn(fmt.Sprintf("%d events have no numeric process id and were dropped", r.NoProcess))
	}
	if r.TooDeep > 0 {
		r.warn(fmt.Sprintf("%d rows nest deeper than %d levels; they are siblings of their parent row", r.TooDeep, maxDepth))
	}
	if p.stepsLeft > 0 {
		r.warn(fmt.Sprintf("%d steps after the first %d are annotations, not steps", p.stepsLeft, maxSteps))
	}
	if lanesLeft > 0 {
		r.warn(fmt.Sprintf("phases on %d threads have no device time (limit: %d threads with phases)", lanesLeft, maxSums))
	}
	if r.Clamped > 0 {
		r.warn(fmt.Sprintf("%d rows outlived their parent row and were cut to it", r.Clamped))
	}
}

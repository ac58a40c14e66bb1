package pytorch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/integrations/pytorch/kineto"
	"github.com/trainspan/trainspan/integrations/pytorch/torchtrace"
)

// Import reads sources and writes their events to sink, which may be nil when
// only spans are wanted. A source of another kind is left out and reported; it
// is an error (a *kineto.RefusedError) only when nothing else was there to
// import. Damage inside a trace is reported and not an error.
//
// The report is returned with an error too and holds what was found until then.
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
	im := &importer{opts: &o, rules: rules, deviceRules: deviceRules, sink: sink, report: &Report{Events: map[string]int64{}}}
	defer im.close()
	for _, src := range sources {
		if err := im.read(ctx, src, len(sources) > 1); err != nil {
			return im.report, err
		}
	}
	if len(im.procs) == 0 && len(im.logs) == 0 {
		if im.refused != nil {
			return im.report, im.refused
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

// importer holds one import.
type importer struct {
	opts        *Options
	rules       *ruleSet
	deviceRules *deviceRules
	sink        Sink
	nextID      func() uint64
	report      *Report
	procs       []*process
	logs        []*loadedLog
	refused     error
	// logLanes counts the lanes given to threads of compile logs.
	logLanes int64
}

// loadedLog is a compile log with its phases.
type loadedLog struct {
	name   string
	log    *torchtrace.Log
	phases []torchtrace.Phase
	report *LogReport
}

func (im *importer) close() {
	for _, p := range im.procs {
		p.close()
	}
}

// read scans one source. With several, each leaves memory when it is done.
func (im *importer) read(ctx context.Context, src Source, several bool) error {
	if src.Open == nil {
		return fmt.Errorf("pytorch: source %q cannot be opened", src.Name)
	}
	f, err := src.Open()
	var refused *kineto.RefusedError
	if errors.As(err, &refused) {
		im.refuse(src.Name, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("pytorch: %w", err)
	}
	defer f.Close()
	err = kineto.Walk(f, src.Name, func(m kineto.Member) error {
		body := bufio.NewReaderSize(m.Body, 4096)
		head, _ := body.Peek(64)
		if torchtrace.IsLog(head) {
			return im.readLog(body, m.Name)
		}
		return im.readTrace(ctx, body, m.Name, src.ModTime, several || m.Name != src.Name)
	})
	if errors.As(err, &refused) {
		im.refuse(src.Name, err)
		return nil
	}
	return err
}

func (im *importer) refuse(name string, err error) {
	im.report.Refused = append(im.report.Refused, Refusal{Name: name, Reason: err.Error()})
	if im.refused == nil {
		im.refused = fmt.Errorf("%s: %w", name, err)
	}
}

func (im *importer) readTrace(ctx context.Context, body io.Reader, name string, mod time.Time, flush bool) error {
	p := newProcess(name, im.opts, im.rules, im.opts.Memory)
	p.deviceRules = im.deviceRules.fork()
	p.report.modTime = mod
	err := p.scan(ctx, body)
	var refused *kineto.RefusedError
	switch {
	case errors.As(err, &refused):
		p.close()
		im.refuse(name, err)
		return nil
	case err != nil:
		p.close()
		return fmt.Errorf("pytorch: %s: %w", name, err)
	}
	im.procs = append(im.procs, p)
	im.report.Files = append(im.report.Files, p.report)
	if err := p.link(ctx); err != nil {
		return fmt.Errorf("pytorch: %s: %w", name, err)
	}
	if flush {
		if err := p.flush(); err != nil {
			return fmt.Errorf("pytorch: %s: %w", name, err)
		}
	}
	return nil
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
	logs := make([]*torchtrace.Log, 0, len(im.logs))
	for _, l := range im.logs {
		logs = append(logs, l.log)
	}
	spans := newSpanWriter(ctx, im.opts.Spans, im.procs)
	if spans != nil {
		im.report.Spans = spans.report
	}
	frames := jobs(im.procs)
	for _, p := range im.procs {
		p.graphs = indexGraphs(logs, p.rank)
		spans.process(p)
		e := &emitter{p: p, opts: im.opts, sink: im.sink, nextID: im.nextID, spans: spans, counts: im.report.Events, jobs: frames}
		if err := e.run(ctx); err != nil {
			return fmt.Errorf("pytorch: %s: %w", p.name, err)
		}
		p.finishReport()
		p.close()
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

// begin opens the sink.
func (im *importer) begin() error {
	if im.opts.Begin != nil {
		start := time.Time{}
		if first := im.earliest(); first > 0 {
			start = time.Unix(0, first)
		}
		sink, err := im.opts.Begin(start)
		if err != nil {
			return err
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

// identify settles hosts and process ids once all files are known: two
// processes of unknown hosts must not look like one.
func (im *importer) identify() {
	for _, p := range im.procs {
		switch {
		case p.host != "":
		case im.opts.Host != "":
			p.host = im.opts.Host
		case p.rank >= 0:
			p.host = "rank" + strconv.FormatInt(p.rank, 10) + "@unknown-host"
		default:
			p.host = "unknown-host"
		}
	}
	slices.SortStableFunc(im.procs, func(a, b *process) int { return compareRanks(a.rank, b.rank) })
}

func compareRanks(a, b int64) int {
	switch {
	case a == b || a < 0 || b < 0:
		return 0
	case a < b:
		return -1
	}
	return 1
}

// finishReport fills in what the passes found.
func (p *process) finishReport() {
	r := p.report
	r.PID, r.Host = p.pid, p.host
	r.Start, r.End = time.Unix(0, p.wall(p.window[0])), time.Unix(0, p.wall(p.window[1]))
	r.SelfCPU, r.Device = time.Duration(p.totalSelf), time.Duration(p.totalDevice)
	for _, s := range p.sorters() {
		r.SpilledBytes += s.Spilled()
	}
	if r.Steps == 0 {
		r.cannot("steps: the profiler marks them only when it runs with a schedule")
	}
	if p.ordinals == 0 {
		r.cannot("operators: the trace has no host rows")
	}
	if !r.hasShapes && p.ordinals > 0 {
		r.cannot("input_size: record_shapes was off")
	}
	if r.MemoryInstants == 0 {
		r.cannot("memory: profile_memory was off")
	}
	if p.rank < 0 {
		r.cannot("the rank: neither the file nor its name tells")
	}
	if r.DeviceUnlinked > 0 {
		r.cannot(fmt.Sprintf("what launched %d device rows: the launch is a graph replay or before the window", r.DeviceUnlinked))
	}
	if r.Clamped > 0 {
		r.warn(fmt.Sprintf("%d rows outlived the row around them and were cut to it", r.Clamped))
	}
}

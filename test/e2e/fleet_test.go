package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
	"github.com/trainspan/trainspan/test/e2e/servers"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// The size of the fleet. docs/guide/clusters.md has the results of large ones.
const (
	fleetRanksVariable = "TRAINSPAN_FLEET_RANKS"
	fleetStepsVariable = "TRAINSPAN_FLEET_STEPS"
	fleetStepVariable  = "TRAINSPAN_FLEET_STEP"  // duration of a step
	fleetBatchVariable = "TRAINSPAN_FLEET_BATCH" // steps in a request
	fleetAgentVariable = "TRAINSPAN_FLEET_AGENT" // ranks per agent

	stepSpans = 20 // in a step, as docs/guide/clusters.md assumes
)

// written extends the agent's configuration: a rank gets the acknowledgment
// when the batch is in the file and, without batch/apart, in the queue to the
// gateway.
const written = `exporters: {dftracer: {acknowledge: written}}
service: {pipelines: {traces/gateway: {processors: [memory_limiter]}}}
`

// unsampled extends the gateway's configuration: it keeps all spans.
const unsampled = `service: {pipelines: {traces: {processors: [memory_limiter]}}}
`

// fleet is ranks that send through agents and a gateway to a backend.
type fleet struct {
	ranks, steps int
	batch        int // steps in a request
	perAgent     int // ranks
	step         time.Duration
	agents       []*servers.CollectorServer
	gateway      *servers.CollectorServer
	dirs         []string // of the agents' files
	backend      *fleetBackend
	acknowledged atomic.Int64
	retries      atomic.Int64
}

func (f *fleet) spans() int64 { return int64(f.ranks * f.steps * stepSpans) }

// TestFleet sends the spans of many ranks through agents and a gateway in their
// shipped configurations, kills an agent and the gateway in the middle, and
// restarts them: every span is in a trace file and reaches the backend.
func TestFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("a fleet takes a while")
	}
	program := collectorProgram(t)
	f := &fleet{ranks: fleetSetting(t, fleetRanksVariable, 32), steps: fleetSetting(t, fleetStepsVariable, 100), step: 50 * time.Millisecond,
		batch: fleetSetting(t, fleetBatchVariable, 5), perAgent: fleetSetting(t, fleetAgentVariable, 128)}
	if text := os.Getenv(fleetStepVariable); text != "" {
		step, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("%s: %v", fleetStepVariable, err)
		}
		f.step = step
	}
	f.start(t, program)
	began := time.Now()
	ctx, cancel := context.WithTimeout(untilDeadline(t), 10*time.Minute) // limits a test that hangs
	defer cancel()
	var senders sync.WaitGroup
	failed := make(chan error, f.ranks)
	for rank := range f.ranks {
		senders.Go(func() { failed <- f.send(ctx, rank) })
	}
	f.disturb(t, ctx, f.agents[0], f.spans()*2/5)
	f.disturb(t, ctx, f.gateway, f.spans()*3/5)
	senders.Wait()
	for range f.ranks {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(began)
	await(ctx, func() bool { return f.backend.seen.total() >= f.spans() })
	for _, a := range f.agents {
		a.Stop()
	}
	f.gateway.Stop()
	if n := f.backend.seen.total(); n != f.spans() {
		t.Errorf("%d spans reached the backend, want %d", n, f.spans())
	}
	files := f.inFiles(t)
	if n := files.total(); n != f.spans() {
		t.Errorf("%d spans are in trace files, want %d", n, f.spans())
	}
	t.Logf("%d ranks, %d agents: %d spans in %v, %d batches sent again, spans there twice: %d at the backend, %d in files",
		f.ranks, len(f.agents), f.spans(), took.Round(time.Millisecond), f.retries.Load(), f.backend.seen.twice.Load(), files.twice.Load())
	var cpu time.Duration
	var memory int64
	for _, a := range f.agents {
		c, m := a.Used()
		cpu, memory = cpu+c, max(memory, m)
	}
	perSpan := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(f.spans()) }
	plain, packed := f.requestSize(t)
	t.Logf("of a span: %.0f bytes of OTLP, %.0f with gzip, %.1f in a trace file", plain, packed, float64(f.fileSize(t))/float64(files.total()+files.twice.Load()))
	each := (f.ranks + len(f.agents) - 1) / len(f.agents)
	t.Logf("agents: %.1f us of CPU a span, at most %d MB each, %d KB for each of its %d resources", perSpan(cpu), memory>>20, memory>>10/int64(each), each)
	cpu, gatewayMemory := f.gateway.Used()
	t.Logf("gateway: %.1f us of CPU a span, at most %d MB, %d KB for each of %d resources", perSpan(cpu), gatewayMemory>>20, gatewayMemory>>10/int64(f.ranks), f.ranks)
	// The limits of the configurations, which are for the processes of a node.
	if memory > 1024<<20 && each <= 128 || gatewayMemory > 4096<<20 {
		t.Errorf("an agent took %d MB, the gateway %d; want at most 1024, 4096", memory>>20, gatewayMemory>>20)
	}
	if t.Failed() {
		t.Log(f.agents[0].Log(), f.gateway.Log())
	}
}

// fleetSetting returns a number from the environment.
func fleetSetting(t *testing.T, name string, n int) int {
	t.Helper()
	if text := os.Getenv(name); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			t.Fatalf("%s=%s is not a number above 0", name, text)
		}
	}
	return n
}

// start runs backend, gateway and at least two agents.
func (f *fleet) start(t *testing.T, program string) {
	t.Helper()
	ctx, dir := untilDeadline(t), t.TempDir()
	f.backend = startFleetBackend(t, f.ranks, f.steps*stepSpans)
	run := func(config, overlay string, env ...string) *servers.CollectorServer {
		extra := filepath.Join(dir, config+"-extra.yaml")
		if err := os.WriteFile(extra, []byte(overlay), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := servers.StartCollector(ctx, program, []string{filepath.Join("..", "..", "integrations", "collector", "config", config+".yaml"), extra}, env)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Stop)
		return c
	}
	f.gateway = run("gateway", unsampled, "JAEGER_GRPC="+f.backend.address, "QUEUE_DIR="+filepath.Join(dir, "queue-gateway"),
		"EVENTS_FILE="+filepath.Join(dir, "events.jsonl"))
	for i := range max(2, (f.ranks+f.perAgent-1)/f.perAgent) {
		name := filepath.Join(dir, "agent-"+strconv.Itoa(i))
		f.dirs = append(f.dirs, name)
		f.agents = append(f.agents, run("agent", written, "TRACE_DIR="+name, "QUEUE_DIR="+name+"-queue", "GATEWAY="+f.gateway.GRPC))
	}
}

// await returns when ok returns true or ctx is done.
func await(ctx context.Context, ok func() bool) {
	for !ok() && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond) // poll interval
	}
}

// disturb kills a Collector after the given number of acknowledged spans, and
// restarts it after another tenth: the others continue meanwhile.
func (f *fleet) disturb(t *testing.T, ctx context.Context, c *servers.CollectorServer, after int64) {
	t.Helper()
	await(ctx, func() bool { return f.acknowledged.Load() >= after })
	c.Kill()
	await(ctx, func() bool { return f.acknowledged.Load() >= after+f.spans()/10 })
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

// send runs a rank: it goes through its steps and sends batches. It repeats
// each until it is acknowledged, like a job with a spill directory.
func (f *fleet) send(ctx context.Context, rank int) error {
	conn, err := grpc.NewClient(f.agents[rank%len(f.agents)].GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second}}))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // no request is in progress
	to := collector.NewTraceServiceClient(conn)
	began := time.Now()
	// Ranks of a job do not send at the same time: their timers differ.
	late := time.Duration(f.batch) * f.step * time.Duration(rank) / time.Duration(f.ranks)
	for step := 0; step < f.steps; step += f.batch {
		n := min(f.batch, f.steps-step)
		select {
		case <-time.After(time.Until(began.Add(time.Duration(step+n)*f.step + late))): // simulated work
		case <-ctx.Done():
			return ctx.Err()
		}
		request := fleetBatch(rank, step, n, began)
		for {
			one, cancel := context.WithTimeout(ctx, 30*time.Second) // then it is sent again
			_, err = to.Export(one, request)
			cancel()
			if err == nil {
				break
			}
			f.retries.Add(1)
			select {
			case <-time.After(200 * time.Millisecond): // between two attempts
			case <-ctx.Done():
				return fmt.Errorf("rank %d, step %d: %w", rank, step, err)
			}
		}
		f.acknowledged.Add(int64(n * stepSpans))
	}
	return nil
}

// requestSize returns the bytes per span in a request, uncompressed and
// compressed.
func (f *fleet) requestSize(t *testing.T) (plain, packed float64) {
	t.Helper()
	text, err := proto.Marshal(fleetBatch(0, 0, f.batch, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	spans := float64(f.batch * stepSpans)
	return float64(len(text)) / spans, float64(len(gziptest.Pack(text))) / spans
}

// fileSize returns the size of the agents' trace files in bytes.
func (f *fleet) fileSize(t *testing.T) (n int64) {
	t.Helper()
	for _, dir := range f.dirs {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range files {
			if info, err := e.Info(); err == nil {
				n += info.Size()
			}
		}
	}
	return n
}

// fleetBatch returns the spans of n steps: of each the parts, then the
// iteration.
func fleetBatch(rank, first, n int, began time.Time) *collector.ExportTraceServiceRequest {
	whole := func(key string, v int) *common.KeyValue {
		return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(v)}}}
	}
	text := func(key, v string) *common.KeyValue {
		return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: v}}}
	}
	scope := &trace.ScopeSpans{Scope: &common.InstrumentationScope{Name: "fleet"}}
	id := func(seq int) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(rank+1)), uint32(seq+1))
	}
	const part = uint64(20 * time.Millisecond)
	for step := first; step < first+n; step++ {
		start := uint64(began.UnixNano()) + uint64(step)*stepSpans*part
		iteration := step*stepSpans + stepSpans - 1
		for i := range stepSpans {
			seq := step*stepSpans + i
			s := &trace.Span{
				TraceId: append(id(0), id(step)...), SpanId: id(seq), ParentSpanId: id(iteration), Name: "model_forward",
				StartTimeUnixNano: start + uint64(i)*part, EndTimeUnixNano: start + uint64(i+1)*part - 1000,
				Attributes: []*common.KeyValue{whole("step", step), whole("seq", seq)},
			}
			if seq == iteration {
				s.ParentSpanId, s.Name, s.StartTimeUnixNano = nil, "training_single_iteration", start
			}
			scope.Spans = append(scope.Spans, s)
		}
	}
	return &collector.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{
			text("service.name", "fleet"), text("host.name", "node-"+strconv.Itoa(rank/8)), whole("process.pid", 1000+rank), whole("training.rank", rank),
		}},
		ScopeSpans: []*trace.ScopeSpans{scope},
	}}}
}

// fleetSeen is the set of received spans.
type fleetSeen struct {
	marks  [][]atomic.Bool // by rank and number
	n      atomic.Int64
	twice  atomic.Int64
	others atomic.Int64 // not sent by the test
}

func newFleetSeen(ranks, spans int) *fleetSeen {
	s := &fleetSeen{marks: make([][]atomic.Bool, ranks)}
	for i := range s.marks {
		s.marks[i] = make([]atomic.Bool, spans)
	}
	return s
}

func (s *fleetSeen) mark(rank, seq int64) {
	switch {
	case rank < 0 || rank >= int64(len(s.marks)) || seq < 0 || seq >= int64(len(s.marks[rank])):
		s.others.Add(1)
	case s.marks[rank][seq].Swap(true):
		s.twice.Add(1)
	default:
		s.n.Add(1)
	}
}

// total returns the number of different received spans, -1 if there are unknown
// ones.
func (s *fleetSeen) total() int64 {
	if s.others.Load() > 0 {
		return -1
	}
	return s.n.Load()
}

// inFiles reads the agents' trace files, those of killed agents to their last
// line.
func (f *fleet) inFiles(t *testing.T) *fleetSeen {
	t.Helper()
	seen := newFleetSeen(f.ranks, f.steps*stepSpans)
	for _, dir := range f.dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.pfw.gz"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no trace files: %v", dir, err)
		}
		for _, path := range files {
			_, err := dftracer.Scan(path, nil, func(ev *dftracer.Event) error {
				if seq, ok := ev.Arg("seq"); ok && ev.Phase == dftracer.PhaseComplete {
					seen.mark(ev.PID-1000, seq.Int64())
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	return seen
}

// fleetBackend counts the received spans.
type fleetBackend struct {
	collector.UnimplementedTraceServiceServer
	address string
	seen    *fleetSeen
}

func startFleetBackend(t *testing.T, ranks, spans int) *fleetBackend {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &fleetBackend{address: l.Addr().String(), seen: newFleetSeen(ranks, spans)}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	collector.RegisterTraceServiceServer(server, b)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // ends with Stop
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return b
}

// Export implements the OTLP service.
func (b *fleetBackend) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	for _, rs := range r.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				if len(s.SpanId) == 8 {
					b.seen.mark(int64(binary.BigEndian.Uint32(s.SpanId))-1, int64(binary.BigEndian.Uint32(s.SpanId[4:]))-1)
				}
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

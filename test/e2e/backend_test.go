package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
)

// behaviourVariable selects the behavior of a backend: healthy, slow, failing
// or silent.
const behaviourVariable = "TRAINSPAN_E2E_BEHAVIOUR"

// hung is the line that a backend prints when it stops accepting requests.
const hung = "hung"

// slowness is how long a slow backend takes for a call.
const slowness = 2 * time.Second

// backend is an OTLP receiver in a separate process, so that it shares neither
// memory nor garbage collection with the training. It reports the accepted
// spans before it answers.
type backend struct {
	address string
	cmd     *exec.Cmd
	stdin   io.WriteCloser

	mu   sync.Mutex
	took counts
	hung chan struct{} // closed when a call is held forever
	read chan struct{} // closed at the end of the output
}

// counts holds the numbers of spans and log records.
type counts struct{ spans, logs int64 }

// startBackend runs a backend until the end of the test or stop.
func startBackend(t *testing.T, behaviour string) *backend {
	t.Helper()
	b := &backend{cmd: exec.CommandContext(untilDeadline(t), os.Args[0]), hung: make(chan struct{}), read: make(chan struct{})}
	b.cmd.Env = append(os.Environ(), roleVariable+"=backend", behaviourVariable+"="+behaviour, "GOMAXPROCS=1")
	b.cmd.Stderr = os.Stderr
	stdin, err := b.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.stdin = stdin
	stdout, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		t.Fatal("the backend did not start")
	}
	b.address = lines.Text()
	go func() {
		defer close(b.read)
		for lines.Scan() {
			if lines.Text() == hung {
				close(b.hung)
				continue
			}
			b.mu.Lock()
			_, _ = fmt.Sscan(lines.Text(), &b.took.spans, &b.took.logs)
			b.mu.Unlock()
		}
	}()
	t.Cleanup(func() { b.stop() })
	return b
}

// dieAtNextCall makes the backend exit without an answer at its next call, when
// all answers have arrived: it has acknowledged every span that it accepted.
func (b *backend) dieAtNextCall(came func(counts) bool) {
	fmt.Fprintln(b.stdin, "die")
	go func() {
		select {
		case <-b.hung:
			for !came(b.counts()) {
				select {
				case <-b.read:
					return
				case <-time.After(time.Millisecond): // poll interval
				}
			}
			_ = b.cmd.Process.Kill()
		case <-b.read:
		}
	}()
}

func (b *backend) counts() counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.took
}

// stop ends the backend and returns the numbers of accepted spans and records.
func (b *backend) stop() counts {
	_ = b.stdin.Close()
	<-b.read
	_ = b.cmd.Wait() // a backend that exited has reported its counts
	return b.counts()
}

// runBackend is the main function of a backend process. It ends with its input.
func runBackend() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	s := &receiver{behaviour: os.Getenv(behaviourVariable), ids: map[string]bool{}}
	switch s.behaviour {
	case "silent":
		go s.acceptOnly(l)
	case "healthy", "slow", "failing":
		server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
		collectorpb.RegisterTraceServiceServer(server, s)
		logspb.RegisterLogsServiceServer(server, &logReceiver{receiver: s})
		metricspb.RegisterMetricsServiceServer(server, &metricReceiver{receiver: s})
		go func() { _ = server.Serve(l) }() // ends with the process
	default:
		return fmt.Errorf("%s=%q means nothing", behaviourVariable, s.behaviour)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if strings.TrimSpace(lines.Text()) == "die" {
			s.mu.Lock()
			s.doomed = true
			s.mu.Unlock()
		}
	}
	return nil
}

// receiver is the OTLP service of a backend.
type receiver struct {
	collectorpb.UnimplementedTraceServiceServer
	behaviour string

	mu     sync.Mutex
	doomed bool
	ids    map[string]bool // of the accepted spans
	logs   int
	silent []net.Conn
}

// Export implements the OTLP service of traces.
func (r *receiver) Export(ctx context.Context, request *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	return &collectorpb.ExportTraceServiceResponse{}, r.take(ctx, func() {
		for _, s := range flatten(request.GetResourceSpans()) {
			r.ids[string(s.GetSpanId())] = true
		}
	})
}

// logReceiver is the OTLP service of logs.
type logReceiver struct {
	logspb.UnimplementedLogsServiceServer
	*receiver
}

// Export implements the OTLP service of logs.
func (r *logReceiver) Export(ctx context.Context, request *logspb.ExportLogsServiceRequest) (*logspb.ExportLogsServiceResponse, error) {
	return &logspb.ExportLogsServiceResponse{}, r.take(ctx, func() {
		for _, rl := range request.GetResourceLogs() {
			for _, sl := range rl.GetScopeLogs() {
				r.logs += len(sl.GetLogRecords())
			}
		}
	})
}

// metricReceiver is the OTLP service of metrics.
type metricReceiver struct {
	metricspb.UnimplementedMetricsServiceServer
	*receiver
}

// Export implements the OTLP service of metrics.
func (r *metricReceiver) Export(ctx context.Context, _ *metricspb.ExportMetricsServiceRequest) (*metricspb.ExportMetricsServiceResponse, error) {
	return &metricspb.ExportMetricsServiceResponse{}, r.take(ctx, func() {})
}

// take handles a request by the configured behavior.
func (r *receiver) take(ctx context.Context, note func()) error {
	switch r.behaviour {
	case "slow":
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(slowness): // the slowness that the test measures
		}
	case "failing":
		return status.Error(codes.Internal, "the disk is on fire")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.doomed {
		fmt.Println(hung)
		select {} // until it is killed
	}
	note()
	fmt.Println(len(r.ids), r.logs)
	return nil
}

// acceptOnly accepts connections and never answers.
func (r *receiver) acceptOnly(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.silent = append(r.silent, c) // the garbage collector would close an unreferenced connection
		r.mu.Unlock()
	}
}

func flatten(all []*tracepb.ResourceSpans) (spans []*tracepb.Span) {
	for _, rs := range all {
		for _, ss := range rs.GetScopeSpans() {
			spans = append(spans, ss.GetSpans()...)
		}
	}
	return spans
}

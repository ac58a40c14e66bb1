//go:build unix

package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/launch"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/ingest/otlpreceiver"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/environ"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// otlpSide is the receiver, its files, and the forwarding to the user's
// backend.
type otlpSide struct {
	dir      string
	receiver *otlpreceiver.Receiver
	files    *otlpreceiver.Files
	queue    *delivery.Queue[forwarded] // nil if nothing is forwarded
}

// forwarded is one span to be forwarded.
type forwarded struct {
	resource *resourcepb.Resource
	scope    *commonpb.InstrumentationScope
	span     *tracepb.Span
}

// startOTLP starts the receiver and sets its address in the command's
// environment.
func startOTLP(s *start, ready *launch.Ready) (*otlpSide, error) {
	o := &otlpSide{dir: s.dir}
	if s.set.Forward != "" {
		if err := o.forwardTo(s); err != nil { // the files contain the spans anyway
			s.problem("cannot forward spans: %v; see "+helptopic.Delivery, err)
		}
	}
	attempt := s.where.Attempt
	o.files = otlpreceiver.NewFiles(&otlpreceiver.FilesOptions{
		Dir: s.dir, SessionTag: s.tag(), JobID: s.run.Job, Attempt: &attempt, Recorded: s.token, PID: (&peers{}).find, Journal: true, Logger: s.log,
	})
	token, err := s.otlpToken()
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return nil, errors.Join(err, o.files.Close(ctx))
	}
	r, err := otlpreceiver.Listen(o.take, &otlpreceiver.Options{Token: token, Logger: s.log})
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return nil, errors.Join(err, o.files.Close(ctx))
	}
	o.receiver = r
	// The protocol that the user chose is kept; the port serves both.
	protocol := "http/protobuf"
	for _, name := range []string{varProtocol, "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if v, _ := os.LookupEnv(name); strings.TrimSpace(v) != "" {
			protocol = strings.TrimSpace(v)
			break
		}
	}
	endpoint := r.Endpoint()
	if protocol != "grpc" {
		endpoint += otlpreceiver.Path
	}
	ready.Env[varProtocol], ready.Env[varEndpoint] = launch.Bytes(protocol), launch.Bytes(endpoint)
	// The user's values are for the backend at the previous endpoint.
	ready.Unset = append(ready.Unset, "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
		"OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY")
	if token == "" {
		ready.Unset = append(ready.Unset, varHeaders)
	} else {
		// The headers for all signals are the same as without these variables.
		headers, _ := os.LookupEnv("OTEL_EXPORTER_OTLP_HEADERS")
		if headers = strings.TrimSpace(headers); headers != "" {
			headers += ","
		}
		ready.Env[varHeaders] = launch.Bytes(headers + environ.TokenHeader + "=" + url.QueryEscape(token))
	}
	return o, nil
}

// otlpToken returns the token that senders must send: a random one, or that of
// the user's file. It returns "" if no token is required.
func (s *start) otlpToken() (string, error) {
	path := string(s.set.TokenFile)
	switch {
	case s.set.NoToken:
		return "", nil
	case path == "":
		var random [32]byte
		_, _ = rand.Read(random[:]) // never fails
		return hex.EncodeToString(random[:]), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the token: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return "", fmt.Errorf("the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < minToken || len(text) > maxToken || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "", fmt.Errorf("the token in %s: the file must have one line of %d to %d printable ASCII characters without spaces", path, minToken, maxToken)
	}
	return token, nil
}

// Bounds of a user's token.
const (
	minToken = 16
	maxToken = 4 << 10
)

// forwardTo makes the queue to the user's backend. Headers, protocol and
// certificates come from the environment.
func (o *otlpSide) forwardTo(s *start) error {
	cfg, _, err := otlp.FromEnv(func(name string) (string, bool) {
		switch name {
		case "OTEL_EXPORTER_OTLP_ENDPOINT":
			return s.set.Forward, true
		case varEndpoint, "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER":
			return "", false
		}
		return os.LookupEnv(name)
	})
	if err != nil {
		return err
	}
	exporter, err := otlp.New(context.Background(), cfg)
	if err != nil {
		return err
	}
	options := exporter.Delivery()
	options.MaxQueue = max(options.MaxQueue, forwardQueue)
	options.OnLoss = func(cause delivery.Cause, _ int64, err error) { // called once for each cause: run.json has the counts
		s.problem("spans were not forwarded: %v (%v); see "+helptopic.Delivery, cause, err)
	}
	options.Clean, options.Spill = nil, nil
	o.queue = delivery.NewQueue(delivery.Sink[forwarded]{
		Unit:   "spans",
		Export: func(ctx context.Context, batch []forwarded) error { return exporter.Upload(ctx, regroup(batch)) },
		Close:  exporter.Shutdown,
	}, &options)
	return nil
}

// forwardQueue is the maximum number of spans that wait for the backend.
const forwardQueue = 1 << 15

// take is the receiver's sink. Spans that will be sent again are not forwarded
// yet.
func (o *otlpSide) take(ctx context.Context, b *otlpreceiver.Batch) error {
	err := o.files.Take(ctx, b)
	if o.queue != nil && !errors.Is(err, otlpreceiver.ErrLater) {
		var request collectorpb.ExportTraceServiceRequest
		if failed := proto.Unmarshal(b.Body, &request); failed != nil {
			return errors.Join(err, failed)
		}
		for _, rs := range request.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, span := range ss.GetSpans() {
					o.queue.Put(forwarded{rs.GetResource(), ss.GetScope(), span}, proto.Size(span))
				}
			}
		}
	}
	return err
}

// peers caches the process at the other end of a connection, which is expensive
// to find.
type peers struct {
	mu    sync.Mutex
	known map[string]peerSeen
}

type peerSeen struct {
	pid int
	at  time.Time
}

// Bounds of the cache: remember is the time for which a port counts as the same
// connection, maxPeers the maximum number of entries.
const (
	remember = time.Minute
	maxPeers = 1024
)

func (p *peers) find(from net.Addr) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := from.String()
	if seen, ok := p.known[key]; ok && time.Since(seen.at) < remember {
		return seen.pid
	}
	if p.known == nil || len(p.known) >= maxPeers {
		p.known = make(map[string]peerSeen)
	}
	pid := peerPID(from)
	p.known[key] = peerSeen{pid, time.Now()}
	return pid
}

// regroup merges spans by resource and scope.
func regroup(batch []forwarded) (out []*tracepb.ResourceSpans) {
	var rs *tracepb.ResourceSpans
	var ss *tracepb.ScopeSpans
	for i := range batch {
		f := &batch[i]
		if rs == nil || rs.Resource != f.resource {
			rs, ss = &tracepb.ResourceSpans{Resource: f.resource}, nil
			out = append(out, rs)
		}
		if ss == nil || ss.Scope != f.scope {
			ss = &tracepb.ScopeSpans{Scope: f.scope}
			rs.ScopeSpans = append(rs.ScopeSpans, ss)
		}
		ss.Spans = append(ss.Spans, f.span)
	}
	return out
}

func (o *otlpSide) close(ctx context.Context) error {
	brief, cancel := context.WithTimeout(ctx, closing/4) // a sender that is stopped in a request must leave time for the files
	defer cancel()
	errs := []error{o.receiver.Shutdown(brief), o.files.Close(ctx)}
	if err := o.replay(ctx); err != nil {
		errs = append(errs, err)
	}
	if o.queue != nil {
		ctx, cancel := context.WithTimeout(ctx, delivery.DefaultShutdownTimeout)
		defer cancel()
		err := o.queue.Shutdown(ctx)
		if q := o.queue.Stats(); q.DroppedTotal() > 0 {
			err = fmt.Errorf("%d of %d spans were not forwarded: %w", q.DroppedTotal(), q.Ended, cmp.Or(q.LastError, err))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// replay adds the contents of journals in the directory: those of an earlier
// start whose processes were killed, or of this start if its trace files are
// not complete.
func (o *otlpSide) replay(ctx context.Context) error {
	left, _ := otlpreceiver.FindJournals(o.dir)
	if len(left) == 0 {
		return nil
	}
	var paths []string
	for i := range left {
		paths = append(paths, left[i].Path)
	}
	if _, err := otlpreceiver.Replay(ctx, paths, &otlpreceiver.ReplayOptions{}); err != nil {
		return fmt.Errorf("%s has spans that are not in a trace: %w; add them with: trainspan trace import %s", paths[0], err, o.dir)
	}
	return nil
}

// describe adds the counts to run.json.
func (o *otlpSide) describe(r *rundir.Run) {
	if o == nil {
		return
	}
	st, files := o.receiver.Stats(), o.files.Stats()
	r.OTLP = &rundir.OTLP{
		Endpoint: o.receiver.Endpoint(), Requests: st.Requests, Spans: st.Spans, Own: files.Recorded, Again: files.Duplicates,
		Rejected: st.Rejected, Refused: st.Refused,
		Cut: files.CutAttributes + files.CutEvents + files.CutLinks, SharedLane: files.SharedLane, SharedFile: files.SharedFile,
	}
	if o.queue != nil {
		q := o.queue.Stats()
		r.Forward = &rundir.Forward{Spans: q.Ended, Sent: q.Exported, Lost: q.DroppedTotal()}
		if q.LastError != nil {
			r.Forward.Error = q.LastError.Error()
		}
	}
}

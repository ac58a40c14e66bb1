package e2e

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/test/e2e/servers"
)

// outage is a job whose Jaeger is killed half-way. Jaeger keeps spans in
// memory, so its spans are counted before.
type outage struct {
	jaeger *servers.JaegerServer
	name   string
	tel    *telemetry.Provider
	all    *spanKeeper
	log    *reports
	cb     *callbacks.Callbacks
	loop   *loop
	before int // spans in Jaeger when it was killed
}

func startOutage(t *testing.T, cfg func(*otlp.Config)) *outage {
	t.Helper()
	o := &outage{jaeger: startJaeger(t, servers.JaegerOptions{}), name: service(t), all: &spanKeeper{}, log: &reports{}}
	c := send(config.OTLPGRPC, "http://"+o.jaeger.GRPC)
	c.RetryFirst, c.RetryMost = 100*time.Millisecond, time.Second
	if cfg != nil {
		cfg(&c)
	}
	o.tel = configure(t, newBuilder(o.name).WithSegment(0).WithSpanProcessor(o.all).WithLogger(o.log.logger()).WithShutdownTimeout(20*time.Second), c)
	o.cb = callbacks.New(o.tel)
	o.loop = &loop{net: newNetwork(16, 8, 8), cb: o.cb}
	o.cb.OnAppStart(t.Context())
	o.cb.OnTrainStart(t.Context(), callbacks.TrainStart{})
	o.steps(t, 50)
	if err := o.tel.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.before = len(spansOf(t, o.jaeger.Query, o.name, 50*spansPerStep))
	o.jaeger.Kill()
	return o
}

func (o *outage) steps(t *testing.T, n int) {
	for range n {
		o.loop.step(t.Context())
	}
}

// refuse listens in Jaeger's place until the given number of attempts have
// failed.
func (o *outage) refuse(t *testing.T, attempts int) {
	t.Helper()
	l, err := net.Listen("tcp", o.jaeger.GRPC)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer context.AfterFunc(untilDeadline(t), func() { l.Close() })()
	for range attempts {
		c, err := l.Accept()
		if err != nil {
			t.Fatalf("the exporter does not retry Jaeger: %v", err)
		}
		c.Close()
	}
}

// end ends the job and checks its counts.
func (o *outage) end(t *testing.T) telemetry.Stats {
	t.Helper()
	o.cb.OnTrainEnd(t.Context())
	o.cb.OnAppEnd(t.Context())
	_ = o.tel.Shutdown(context.Background()) // the counts have more detail
	s := o.tel.Stats()
	if s.EndedSpans != int64(len(o.all.spans)) || s.PendingSpans != 0 || s.EndedSpans != s.ExportedSpans+s.SpilledSpans+s.DroppedSpans {
		t.Errorf("%d spans ended, want exported + spilled + dropped: %+v", len(o.all.spans), s)
	}
	// Later losses with the same cause are not all logged.
	if first, sum := o.log.lost(); first > s.DroppedSpans || (first > 0) != (s.DroppedSpans > 0) || sum != s.DroppedSpans {
		t.Errorf("the log has %d lost spans, and %d at the end, want some and %d", first, sum, s.DroppedSpans)
	}
	return s
}

// TestBackendComesBack kills Jaeger half-way and restarts it: spans that ended
// meanwhile are delivered.
func TestBackendComesBack(t *testing.T) {
	o := startOutage(t, nil)
	o.steps(t, 50)
	o.refuse(t, 2)
	if s := o.tel.Stats(); s.ExportedSpans != int64(o.before) || s.PendingSpans != 50*spansPerStep {
		t.Errorf("while Jaeger is away: %+v, want %d exported, %d pending", s, o.before, 50*spansPerStep)
	}
	if err := o.jaeger.Start(untilDeadline(t)); err != nil {
		t.Fatal(err)
	}
	o.steps(t, 50)
	s := o.end(t)
	if s.DroppedSpans != 0 || s.ExportedSpans != s.EndedSpans {
		t.Errorf("stats %+v, want every span exported", s)
	}
	after := len(byID(spansOf(t, o.jaeger.Query, o.name, int(s.EndedSpans)-o.before)))
	if o.before+after != len(o.all.spans) {
		t.Errorf("Jaeger had %d spans before and %d after, want %d together", o.before, after, len(o.all.spans))
	}
}

// TestBackendStaysAway kills Jaeger half-way and does not restart it: later
// spans are counted as lost, including those beyond the queue.
func TestBackendStaysAway(t *testing.T) {
	o := startOutage(t, func(c *otlp.Config) {
		c.RetryFor, c.QueueSize, c.BatchSize = time.Second, 400, 100
	})
	o.steps(t, 200)
	s := o.end(t)
	if s.ExportedSpans != int64(o.before) || s.DroppedSpans != int64(len(o.all.spans)-o.before) || s.Drops["queue full"] == 0 {
		t.Errorf("%d spans ended, %d before the end of Jaeger, %+v; want the rest dropped", len(o.all.spans), o.before, s)
	}
}

// TestSpill kills Jaeger half-way; later spans go to the spill directory and
// are sent when Jaeger is back.
func TestSpill(t *testing.T) {
	var c otlp.Config
	o := startOutage(t, func(cfg *otlp.Config) {
		cfg.SpillDir, cfg.RetryFor = t.TempDir(), time.Second
		c = *cfg
	})
	o.steps(t, 500)
	s := o.end(t)
	if s.DroppedSpans != 0 || s.SpilledSpans != int64(len(o.all.spans)-o.before) {
		t.Errorf("%d spans ended, %d before the end of Jaeger, %+v; want the rest spilled", len(o.all.spans), o.before, s)
	}
	if err := o.jaeger.Start(untilDeadline(t)); err != nil {
		t.Fatal(err)
	}
	exporter, err := otlp.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := otlp.Replay(t.Context(), c.SpillDir, exporter)
	if err != nil || int64(got.Sent) != s.SpilledSpans || got.Left != 0 || got.Broken != 0 {
		t.Errorf("replay: %+v, %v; want all %d spilled spans sent", got, err, s.SpilledSpans)
	}
	if err := exporter.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	var after []string
	for id := range byID(spansOf(t, o.jaeger.Query, o.name, got.Sent)) {
		after = append(after, id)
	}
	if o.before+len(after) != len(o.all.spans) {
		t.Errorf("Jaeger had %d spans before and %d after, want %d together", o.before, len(after), len(o.all.spans))
	}
}

// TestNoAnswer has backends that do not exist, or accept the connection and
// never answer: nothing hangs, and the counts include every span.
func TestNoAnswer(t *testing.T) {
	dead, err := servers.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	silent := startBackend(t, "silent").address
	for backend, address := range map[string]string{"dead": dead, "silent": silent} {
		for name, protocol := range protocols {
			t.Run(backend+"-"+name, func(t *testing.T) {
				start := time.Now()
				loseDemo(t, send(protocol, "http://"+address))
				t.Logf("the whole job took %v", time.Since(start))
			})
		}
	}
}

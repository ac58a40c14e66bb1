package e2e

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/record/setup"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/test/e2e/servers"
)

// pairsVariable and runsVariable change the length of the measurement.
// niceVariable sets a nice value below zero for the training thread, so that
// other programs interrupt it less on a busy machine.
const (
	pairsVariable = "TRAINSPAN_E2E_PAIRS"
	runsVariable  = "TRAINSPAN_E2E_RUNS"
	niceVariable  = "TRAINSPAN_E2E_NICE"
)

// fault is a state of the backend during a run.
type fault struct {
	name      string
	onlySpans bool // the backend accepts no logs and metrics
	start     func(t *testing.T, service string) endpoint
}

// endpoint is a backend for one run.
type endpoint struct {
	address   string
	halfway   func(came func(counts) bool) // nil: nothing happens; came reports whether so much was acknowledged
	delivered func() counts                // the content of the backend; called at the end
}

var faults = []fault{
	{"healthy: Jaeger, spans only", true, func(t *testing.T, service string) endpoint {
		j := startJaeger(t, servers.JaegerOptions{})
		return endpoint{j.GRPC, nil, func() counts {
			found, err := j.Query.Spans(t.Context(), service)
			if err != nil {
				t.Error(err)
			}
			return counts{spans: int64(len(byID(found)))}
		}}
	}},
	{"healthy", false, behaves("healthy")},
	{"dead from the start", false, func(t *testing.T, _ string) endpoint {
		address, err := servers.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		return endpoint{address, nil, func() counts { return counts{} }}
	}},
	{"dies half-way", false, func(t *testing.T, _ string) endpoint {
		b := startBackend(t, "healthy")
		return endpoint{b.address, b.dieAtNextCall, b.stop}
	}},
	{"slow, 2 s per call", false, behaves("slow")},
	{"accepts, never answers", false, behaves("silent")},
	{"returns errors", false, behaves("failing")},
}

func behaves(behaviour string) func(*testing.T, string) endpoint {
	return func(t *testing.T, _ string) endpoint {
		b := startBackend(t, behaviour)
		return endpoint{b.address, nil, b.stop}
	}
}

// row is the effect of one fault on the training.
type row struct {
	fault               string
	with, without       side
	background          time.Duration // CPU time of everything except the training
	ended, delivered    int64
	dropped, reported   int64
	logs, logsDelivered int64
	shutdown            time.Duration // the longest
}

// side is the half of the steps with telemetry, or that without.
type side struct {
	steps []time.Duration
	cpu   time.Duration
	watch stopwatch
}

// TestFaults trains, every other step with telemetry, for every state of the
// backend, and prints the cost. It asserts counts and the result of the
// training; the times are for the reader, because other programs share the
// machine.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	pairs, runs := setting(t, pairsVariable, 400), setting(t, runsVariable, 3)
	want := plainLoss(2 * pairs)
	var rows []*row
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			// CPU times are those of one thread.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			defer prefer(t)()
			r := &row{fault: f.name}
			for range runs {
				if loss := r.run(t, f, pairs); loss != want {
					t.Errorf("loss is %v with telemetry, want %v as without", loss, want)
				}
			}
			rows = append(rows, r)
		})
	}
	if len(rows) > 0 {
		report(t, rows, pairs, runs)
	}
}

func setting(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is not a number above 0", variable, s)
	}
	return n
}

// prefer sets the requested priority of the training thread.
func prefer(t *testing.T) (undo func()) {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv(niceVariable))
	if err != nil || n == 0 {
		return func() {}
	}
	if err := setNice(n); err != nil {
		t.Fatalf("%s=%d: %v", niceVariable, n, err)
	}
	return func() {
		if err := setNice(0); err != nil {
			t.Error(err)
		}
	}
}

func newTraining() *network { return newNetwork(128, 96, 384) }

// plainLoss returns the loss after the number of steps of a job without
// telemetry.
func plainLoss(steps int) (loss float64) {
	l := &loop{net: newTraining()}
	for range steps {
		loss = l.step(context.Background())
	}
	return loss
}

// train runs the training loop and returns the last loss: pairs of steps, one
// with telemetry and one without, in alternating order.
func (r *row) train(ctx context.Context, cb *callbacks.Callbacks, pairs int, halfway func()) (loss float64) {
	l := &loop{net: newTraining()}
	own, all := threadTime(), processTime()
	for i := range pairs {
		if i == pairs/2 {
			halfway()
		}
		for _, recorded := range [2]bool{i%2 == 0, i%2 != 0} {
			s := &r.without
			l.cb = nil
			if recorded {
				s, l.cb = &r.with, cb
			} else {
				s.watch.instead = max(time.Microsecond, r.with.watch.mean())
			}
			l.watch = &s.watch
			before, cpu, start := s.watch, threadTime(), time.Now()
			loss = l.step(ctx)
			d := time.Since(start) - (s.watch.outside - before.outside)
			s.cpu += threadTime() - cpu
			if !recorded { // the busy-wait is not part of the training
				d -= s.watch.total - before.total
				s.cpu -= s.watch.totalCPU - before.totalCPU
			}
			s.steps = append(s.steps, d)
		}
	}
	r.background += processTime() - all - (threadTime() - own)
	return loss
}

// slower returns the median over the pairs of the additional time of the step
// with telemetry, as a fraction of the step without.
func (r *row) slower() float64 {
	all := make([]float64, len(r.with.steps))
	for i, d := range r.with.steps {
		all[i] = float64(d)/float64(r.without.steps[i]) - 1
	}
	return median(all)
}

// run runs a complete job, checks the counts of its spans and log records, and
// returns the last loss.
func (r *row) run(t *testing.T, f fault, pairs int) (loss float64) {
	t.Helper()
	name := service(t)
	backend := f.start(t, name)
	cfg, log, all := job(name), &reports{}, &counter{}
	cfg.Outputs.OTLP = config.OTLP{Protocol: config.OTLPGRPC, Endpoint: "http://" + backend.address} // otherwise the defaults
	signals := config.Value(!f.onlySpans)
	b, outputs, err := setup.NewBuilder(t.Context(), cfg, &setup.Options{Logs: signals, Metrics: signals, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	tel, err := b.WithSpanProcessor(all).WithLogger(log.logger()).ConfigureProvider(t.Context())
	if err != nil {
		t.Fatal(errors.Join(err, outputs.Close(t.Context())))
	}
	cb := callbacks.New(tel)
	cb.OnAppStart(t.Context())
	cb.OnTrainStart(t.Context(), callbacks.TrainStart{})
	loss = r.train(t.Context(), cb, pairs, func() {
		if backend.halfway != nil {
			backend.halfway(func(c counts) bool {
				return tel.Stats().ExportedSpans == c.spans && outputs.Logs.LogStats().Exported == c.logs
			})
		}
	})
	cb.OnTrainEnd(t.Context())
	start := time.Now()
	cb.OnAppEnd(t.Context())
	_ = tel.Shutdown(context.Background()) // the counts have more detail
	r.shutdown = max(r.shutdown, time.Since(start))
	delivered := backend.delivered()
	r.account(t, tel.Stats(), all.n.Load(), delivered.spans, log)
	r.accountLogs(t, outputs.Logs.LogStats(), delivered.logs, log)
	return loss
}

// account compares telemetry's counts of spans with those that the job ended,
// those in the backend, and those in the log.
func (r *row) account(t *testing.T, s telemetry.Stats, ended, delivered int64, log *reports) {
	t.Helper()
	if s.EndedSpans != ended || s.PendingSpans != 0 || s.EndedSpans != s.ExportedSpans+s.SpilledSpans+s.DroppedSpans {
		t.Errorf("%d spans ended, want exported + spilled + dropped: %+v", ended, s)
	}
	if delivered != s.ExportedSpans {
		t.Errorf("the backend has %d spans, want %d as exported", delivered, s.ExportedSpans)
	}
	dropped := ended - delivered - s.SpilledSpans
	first, atEnd := log.lost() // later losses with the same cause are not all logged
	if first > dropped || (first > 0) != (dropped > 0) || atEnd != dropped {
		t.Errorf("%d spans were dropped; the log has %d one by one and %d at the end, want some and all", dropped, first, atEnd)
	}
	r.ended += ended
	r.delivered += delivered
	r.dropped += dropped
	r.reported += atEnd
}

// accountLogs does the same for log records.
func (r *row) accountLogs(t *testing.T, s otlp.LogStats, delivered int64, log *reports) {
	t.Helper()
	if s.Pending != 0 || s.Recorded != s.Exported+s.Dropped {
		t.Errorf("log stats %+v, want recorded = exported + dropped, none pending", s)
	}
	if delivered != s.Exported {
		t.Errorf("the backend has %d log records, want %d as exported", delivered, s.Exported)
	}
	if told := log.lostRecords(); told != s.Recorded-delivered {
		t.Errorf("the log has %d lost log records, want %d", told, s.Recorded-delivered)
	}
	r.logs += s.Recorded
	r.logsDelivered += delivered
}

func median[T float64 | time.Duration](all []T) T {
	sorted := slices.Sorted(slices.Values(all))
	if len(sorted) == 0 {
		return 0
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

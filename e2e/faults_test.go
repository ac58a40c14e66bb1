package e2e

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/e2e/servers"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/telemetry"
)

// pairsVariable and runsVariable change the length of the measurement.
const (
	pairsVariable = "TRAINSPAN_E2E_PAIRS"
	runsVariable  = "TRAINSPAN_E2E_RUNS"
)

const (
	shutdownTimeout = telemetry.DefaultShutdownTimeout
	// shutdownMargin is what a busy machine may add to the deadline.
	shutdownMargin = 2 * time.Second
)

// fault is a state of the backend during a run.
type fault struct {
	name string
	// start gives the address of a fresh backend, a function that is called
	// half-way, and one that gives the number of spans that the backend has.
	start func(t *testing.T, service string) (address string, halfway func(), delivered func() int)
}

var faults = []fault{
	{"healthy", func(t *testing.T, service string) (string, func(), func() int) {
		j := startJaeger(t, servers.JaegerOptions{})
		return j.GRPC, nil, func() int {
			found, err := j.Query.Spans(t.Context(), service)
			if err != nil {
				t.Error(err)
			}
			return len(byID(found))
		}
	}},
	{"dead from the start", func(t *testing.T, _ string) (string, func(), func() int) {
		address, err := servers.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		return address, nil, func() int { return 0 }
	}},
	{"dies half-way", func(t *testing.T, _ string) (string, func(), func() int) {
		b := startBackend(t, "healthy")
		return b.address, b.dieAtNextCall, b.stop
	}},
	{"slow, 2 s per call", behaves("slow")},
	{"accepts, never answers", behaves("silent")},
	{"returns errors", behaves("failing")},
}

func behaves(behaviour string) func(*testing.T, string) (string, func(), func() int) {
	return func(t *testing.T, _ string) (string, func(), func() int) {
		b := startBackend(t, behaviour)
		return b.address, nil, b.stop
	}
}

// row is what one fault did to the training.
type row struct {
	fault                     string
	with, without             side
	background                time.Duration // processor time of everything but the training
	ended, delivered, spilled int64
	dropped, reported         int64
	shutdown                  time.Duration // the longest
}

// side is the half of the steps that have telemetry, or that have none.
type side struct {
	steps []time.Duration
	cpu   time.Duration
	watch stopwatch
}

// TestFaults trains, every other step with telemetry, for every state of the
// backend, and prints what that cost. What it asserts are counts, the deadline
// of the shutdown and the result of the training; times are for the reader,
// because other programs share the machine.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	pairs, runs := setting(t, pairsVariable, 400), setting(t, runsVariable, 3)
	want := plainLoss(2 * pairs)
	var rows []*row
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			// Thread times are of one thread.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			r := &row{fault: f.name}
			for range runs {
				if loss := r.run(t, f, pairs); loss != want {
					t.Errorf("the loss is %v with telemetry and %v without", loss, want)
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
		t.Fatalf("%s=%q is not a number above zero", variable, s)
	}
	return n
}

func newTraining() *network { return newNetwork(128, 96, 384) }

// plainLoss is the loss after so many steps of a job without telemetry.
func plainLoss(steps int) (loss float64) {
	l := &loop{net: newTraining()}
	for range steps {
		loss = l.step(context.Background())
	}
	return loss
}

// train is the training loop: pairs of steps, one with telemetry and one
// without, in turns one or the other first.
func (r *row) train(ctx context.Context, cb *callbacks.Callbacks, pairs int, halfway func()) (loss float64) {
	l := &loop{net: newTraining()}
	own, all := threadTime(), processTime()
	for i := range pairs {
		if i == pairs/2 && halfway != nil {
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
			if !recorded { // what was burned is no part of the training
				d -= s.watch.total - before.total
				s.cpu -= s.watch.totalCPU - before.totalCPU
			}
			s.steps = append(s.steps, d)
		}
	}
	r.background += processTime() - all - (threadTime() - own)
	return loss
}

// slower is the median over the pairs of how much longer the step with
// telemetry took, in parts of the one without.
func (r *row) slower() float64 {
	all := make([]float64, len(r.with.steps))
	for i, d := range r.with.steps {
		all[i] = float64(d)/float64(r.without.steps[i]) - 1
	}
	return median(all)
}

// run is a whole job, and the account of its spans.
func (r *row) run(t *testing.T, f fault, pairs int) (loss float64) {
	t.Helper()
	name := service(t)
	address, halfway, delivered := f.start(t, name)
	cfg := otlp.Config{OTLP: config.OTLP{Protocol: config.OTLPGRPC, Endpoint: "http://" + address}} // the defaults
	log, all := &reports{}, &counter{}
	tel := configure(t, newBuilder(name).WithSpanProcessor(all).WithLogger(log.logger()), cfg)
	cb := callbacks.New(tel)
	cb.OnAppStart(t.Context())
	cb.OnTrainStart(t.Context(), callbacks.TrainStart{})
	loss = r.train(t.Context(), cb, pairs, halfway)
	cb.OnTrainEnd(t.Context())
	start := time.Now()
	cb.OnAppEnd(t.Context())
	_ = tel.Shutdown(context.Background()) // the counts say more
	took := time.Since(start)
	r.shutdown = max(r.shutdown, took)
	if took > shutdownTimeout+shutdownMargin {
		t.Errorf("the shutdown took %v, its deadline is %v", took, shutdownTimeout)
	}
	r.account(t, tel.Stats(), all.n.Load(), int64(delivered()), log)
	return loss
}

// account holds what telemetry says of its spans against what the job ended,
// what the backend has, and what the log tells.
func (r *row) account(t *testing.T, s telemetry.Stats, ended, delivered int64, log *reports) {
	t.Helper()
	single, atEnd := log.lost()
	if s.EndedSpans != ended || s.PendingSpans != 0 || s.EndedSpans != s.ExportedSpans+s.SpilledSpans+s.DroppedSpans {
		t.Errorf("%d spans ended; the sums are wrong: %+v", ended, s)
	}
	if delivered != s.ExportedSpans {
		t.Errorf("the backend has %d spans, telemetry says %d", delivered, s.ExportedSpans)
	}
	if dropped := ended - delivered - s.SpilledSpans; single != dropped || atEnd != dropped {
		t.Errorf("%d spans were dropped; the log tells of %d, and %d at the end", dropped, single, atEnd)
	}
	r.ended += ended
	r.delivered += delivered
	r.spilled += s.SpilledSpans
	r.dropped += ended - delivered - s.SpilledSpans
	r.reported += atEnd
}

func median[T float64 | time.Duration](all []T) T {
	sorted := slices.Sorted(slices.Values(all))
	if len(sorted) == 0 {
		return 0
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

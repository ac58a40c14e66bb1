package e2e

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/e2e/servers"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/telemetry"
)

// stepsVariable and pairsVariable change the length of the measurement.
const (
	stepsVariable = "TRAINSPAN_E2E_STEPS"
	pairsVariable = "TRAINSPAN_E2E_PAIRS"
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
	fault                             string
	plain, recorded                   []time.Duration // of single steps
	wall, cpu                         []float64       // slowdown of each pair, in parts of one
	callback, baseline                stopwatch
	ended, delivered, spilled         int64
	dropped, reported, reportedSingly int64
	shutdown                          time.Duration // the longest
}

// TestFaults trains with and without telemetry, one after the other, for every
// state of the backend, and prints what that cost. What it asserts are counts,
// the deadline of the shutdown and the result of the training; times are for
// the reader, because other programs share the machine.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	steps, pairs := setting(t, stepsVariable, 400), setting(t, pairsVariable, 4)
	// Thread times are of one thread. A goroutine that ends while it holds its
	// thread would end the thread too.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var rows []*row
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			r := &row{fault: f.name}
			for i := range pairs {
				r.pair(t, f, steps, i%2 == 1)
			}
			rows = append(rows, r)
		})
	}
	if len(rows) > 0 {
		printRows(rows, steps, pairs)
	}
}

func setting(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 2 {
		t.Fatalf("%s=%q is not a number above one", variable, s)
	}
	return n
}

// pair runs the job twice, with telemetry and without, in one order or the
// other.
func (r *row) pair(t *testing.T, f fault, steps int, plainFirst bool) {
	t.Helper()
	instead := 2 * time.Microsecond
	if r.callback.calls > 0 {
		instead = r.callback.total / time.Duration(r.callback.calls)
	}
	var plain, recorded measured
	for _, with := range []bool{!plainFirst, plainFirst} {
		runtime.GC()
		if with {
			recorded = r.recordedRun(t, f, steps)
		} else {
			plain = trainRun(t.Context(), callbacks.New(nil), &stopwatch{instead: instead}, steps, nil)
		}
	}
	if plain.loss != recorded.loss {
		t.Errorf("the loss is %v with telemetry and %v without", recorded.loss, plain.loss)
	}
	r.baseline.add(plain.watch)
	r.callback.add(recorded.watch)
	r.plain = append(r.plain, plain.steps...)
	r.recorded = append(r.recorded, recorded.steps...)
	r.wall = append(r.wall, float64(median(recorded.steps))/float64(median(plain.steps))-1)
	r.cpu = append(r.cpu, float64(recorded.cpu)/float64(plain.cpu)-1)
}

// measured is one training.
type measured struct {
	steps []time.Duration // without what was burned in place of callbacks
	cpu   time.Duration   // of the training thread
	watch *stopwatch
	loss  float64
}

// trainRun is the training loop alone.
func trainRun(ctx context.Context, cb *callbacks.Callbacks, w *stopwatch, steps int, halfway func()) measured {
	m := measured{steps: make([]time.Duration, 0, steps), watch: w}
	l := &loop{net: newNetwork(128, 96, 192), cb: cb, watch: w}
	cpu := threadTime()
	for i := range steps {
		if i == steps/2 && halfway != nil {
			halfway()
		}
		burned, start := w.total, time.Now()
		m.loss = l.step(ctx)
		d := time.Since(start)
		if w.instead > 0 {
			d -= w.total - burned
		}
		m.steps = append(m.steps, d)
	}
	m.cpu = threadTime() - cpu
	if w.instead > 0 {
		m.cpu -= w.totalCPU
	}
	return m
}

// recordedRun is a whole job with telemetry, and the account of its spans.
func (r *row) recordedRun(t *testing.T, f fault, steps int) measured {
	t.Helper()
	name := service(t)
	address, halfway, delivered := f.start(t, name)
	cfg := otlp.Config{OTLP: config.OTLP{Protocol: config.OTLPGRPC, Endpoint: "http://" + address}} // the defaults
	log, all := &reports{}, &counter{}
	tel := configure(t, newBuilder(name).WithSpanProcessor(all).WithLogger(log.logger()), cfg)
	cb := callbacks.New(tel)
	cb.OnAppStart(t.Context())
	cb.OnTrainStart(t.Context(), callbacks.TrainStart{})
	m := trainRun(t.Context(), cb, &stopwatch{}, steps, halfway)
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
	return m
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
	r.reportedSingly += single
}

// add puts another run's measurements to w.
func (w *stopwatch) add(other *stopwatch) {
	w.calls += other.calls
	w.total += other.total
	w.totalCPU += other.totalCPU
	w.worst = max(w.worst, other.worst)
	w.worstCPU = max(w.worstCPU, other.worstCPU)
}

func median[T float64 | time.Duration](all []T) T {
	sorted := slices.Sorted(slices.Values(all))
	if len(sorted) == 0 {
		return 0
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func printRows(rows []*row, steps, pairs int) {
	fmt.Printf("\n%d pairs of runs per row, %d steps each with %d spans and %d callbacks; %d processors, %s\n\n",
		pairs, steps, spansPerStep, 2*spansPerStep, runtime.NumCPU(), runtime.Version())
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "backend\tsteps/s without\twith\tslower, wall\tslower, CPU\tmean callback\tworst callback\ton CPU\tworst without\tspans ended\tdelivered\tdropped\treported\tshutdown\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%+.2f %%\t%+.2f %%\t%v\t%v\t%v\t%v\t%d\t%d\t%d\t%d\t%v\t\n",
			r.fault, perSecond(r.plain), perSecond(r.recorded), 100*median(r.wall), 100*median(r.cpu),
			short(r.callback.total/time.Duration(max(1, r.callback.calls))), short(r.callback.worst), short(r.callback.worstCPU), short(r.baseline.worst),
			r.ended, r.delivered, r.dropped, r.reported, r.shutdown.Round(10*time.Millisecond))
	}
	_ = w.Flush() // to the standard output
	fmt.Print(`
steps/s: of the median step. slower: median over the pairs, by the clock, and by the processor time of the
training thread. worst callback: by the clock, which holds the time in which other programs had the processor;
on CPU: without it. worst without: as many pauses of the mean callback's length, in the runs without telemetry.

`)
}

func perSecond(steps []time.Duration) float64 { return 1 / median(steps).Seconds() }

func short(d time.Duration) time.Duration {
	if d > time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Nanosecond)
}

package recorder

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/trainspan/trainspan/internal/metrics"
)

// Instruments are those of the OpenTelemetry metrics that a recorder feeds.
// Package metrics lists them. A nil Instruments records nothing.
//
// Every rank knows the samples, tokens and operations of the whole job. The
// instruments training.samples, training.tokens and training.flops count this
// rank's share, so that a sum over ranks is the job's figure;
// training.job.samples, .tokens and .flops count the job's on every rank.
type Instruments struct {
	iteration  metric.Float64Histogram
	iterations metric.Int64Counter
	failed     metric.Int64Counter
	samples    metric.Int64Counter
	tokens     metric.Int64Counter
	flops      metric.Float64Counter
	job        struct {
		samples, tokens metric.Int64Counter
		flops           metric.Float64Counter
	}
	throughput metric.Float64Gauge
	average    metric.Float64Gauge
	loss       metric.Float64Gauge
	save       metric.Float64Histogram
	saves      metric.Int64Counter

	blocking, background, stored, lost metric.MeasurementOption

	rank                    int64
	samplesShare, toksShare share
}

// share is a rank's part of a count of the whole job. The parts of all ranks
// add up to the count at every moment.
type share struct{ total atomic.Int64 }

// add returns the rank's part of n more.
func (s *share) add(n, rank, ranks int64) int64 {
	after := s.total.Add(n)
	part := func(total int64) int64 { return (total + ranks - 1 - rank%ranks) / ranks }
	return part(after) - part(after-n)
}

// NewInstruments makes the instruments with a meter, for a rank. What cannot be
// made is in the error; the SDK gives instruments that do nothing in its place.
func NewInstruments(m metric.Meter, rank int) (*Instruments, error) {
	in := metrics.Maker{Meter: m}
	outcome := func(ok string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", ok)))
	}
	phase := func(name string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(attribute.String("phase", name)))
	}
	out := &Instruments{
		rank:       int64(max(rank, 0)),
		iteration:  in.Histogram(metrics.IterationDuration),
		iterations: in.Int64Counter(metrics.Iterations),
		failed:     in.Int64Counter(metrics.IterationsFailed),
		samples:    in.Int64Counter(metrics.Samples),
		tokens:     in.Int64Counter(metrics.Tokens),
		flops:      in.Float64Counter(metrics.Flops),
		throughput: in.Float64Gauge(metrics.GPUThroughput),
		average:    in.Float64Gauge(metrics.GPUThroughputAverage),
		loss:       in.Float64Gauge(metrics.Loss),
		save:       in.Histogram(metrics.CheckpointDuration),
		saves:      in.Int64Counter(metrics.CheckpointSaves),
		blocking:   phase("blocking"), background: phase("background"),
		stored: outcome("success"), lost: outcome("failure"),
	}
	out.job.samples = in.Int64Counter(metrics.JobSamples)
	out.job.tokens = in.Int64Counter(metrics.JobTokens)
	out.job.flops = in.Float64Counter(metrics.JobFlops)
	// A count that is there from the start can be seen to rise.
	out.iterations.Add(context.Background(), 0)
	out.failed.Add(context.Background(), 0)
	out.saves.Add(context.Background(), 0, out.stored)
	out.saves.Add(context.Background(), 0, out.lost)
	return out, in.Err
}

// reading is what one call has to say in metrics, kept until the lock is
// released.
type reading struct {
	iteration  *iterationReading
	failed     bool
	blocking   int64 // nanoseconds of a save that training waited for
	background int64 // nanoseconds of a save in the background
	stored     bool  // a save succeeded
	lost       bool  // a save failed
}

type iterationReading struct {
	duration        int64 // nanoseconds
	ranks           int64
	samples, tokens int64
	flops           float64
	throughput      float64 // 10^12 operations per second and GPU
	average         float64
	loss            float64
	hasLoss         bool
}

// record feeds the instruments.
func (m *Instruments) record(r *reading) {
	if m == nil {
		return
	}
	ctx := context.Background()
	if it := r.iteration; it != nil {
		m.iteration.Record(ctx, seconds(it.duration))
		m.iterations.Add(ctx, 1)
		m.samples.Add(ctx, m.samplesShare.add(it.samples, m.rank, it.ranks))
		m.job.samples.Add(ctx, it.samples)
		if it.tokens > 0 {
			m.tokens.Add(ctx, m.toksShare.add(it.tokens, m.rank, it.ranks))
			m.job.tokens.Add(ctx, it.tokens)
		}
		if it.flops > 0 {
			m.flops.Add(ctx, it.flops/float64(it.ranks))
			m.job.flops.Add(ctx, it.flops)
			m.throughput.Record(ctx, it.throughput*tera)
			m.average.Record(ctx, it.average*tera)
		}
		if it.hasLoss {
			m.loss.Record(ctx, it.loss)
		}
	}
	if r.failed {
		m.failed.Add(ctx, 1)
	}
	if r.blocking > 0 {
		m.save.Record(ctx, time.Duration(r.blocking).Seconds(), m.blocking)
	}
	if r.background > 0 {
		m.save.Record(ctx, time.Duration(r.background).Seconds(), m.background)
	}
	if r.stored {
		m.saves.Add(ctx, 1, m.stored)
	}
	if r.lost {
		m.saves.Add(ctx, 1, m.lost)
	}
}

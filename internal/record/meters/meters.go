// Package meters updates the OpenTelemetry metrics of the training.
package meters

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/internal/export/metrics"
	"github.com/trainspan/trainspan/internal/record/spantree"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const tera = 1e12

// Instruments are the OpenTelemetry instruments of the training; package metrics lists
// them. A nil Instruments records nothing.
//
// Every rank knows the samples, tokens and operations of the whole job. The instruments
// training.samples, training.tokens and training.flops count this rank's share, so that
// a sum over ranks is the job's total; training.job.samples, .tokens and .flops count
// the job's total on every rank.
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

// share computes a rank's part of a count of the whole job. The parts of all ranks
// always add up to the count.
type share struct{ total atomic.Int64 }

// add adds n to the count and returns the rank's part of n.
func (s *share) add(n, rank, ranks int64) int64 {
	after := s.total.Add(n)
	part := func(total int64) int64 { return (total + ranks - 1 - rank%ranks) / ranks }
	return part(after) - part(after-n)
}

// New returns the instruments of a meter for a rank. The error lists the instruments
// that cannot be created; the SDK replaces these with no-op instruments.
func New(m metric.Meter, rank int) (*Instruments, error) {
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
	// Export the counters from the start, so that backends see the first increase.
	out.iterations.Add(context.Background(), 0)
	out.failed.Add(context.Background(), 0)
	out.saves.Add(context.Background(), 0, out.stored)
	out.saves.Add(context.Background(), 0, out.lost)
	return out, in.Err
}

// Record updates the instruments with a reading.
func (m *Instruments) Record(r *spantree.Reading) {
	if m == nil {
		return
	}
	ctx := context.Background()
	if it := r.Iteration; it != nil {
		m.iteration.Record(ctx, spantree.Seconds(it.Duration))
		m.iterations.Add(ctx, 1)
		m.samples.Add(ctx, m.samplesShare.add(it.Samples, m.rank, it.Ranks))
		m.job.samples.Add(ctx, it.Samples)
		if it.Tokens > 0 {
			m.tokens.Add(ctx, m.toksShare.add(it.Tokens, m.rank, it.Ranks))
			m.job.tokens.Add(ctx, it.Tokens)
		}
		if it.Flops > 0 {
			m.flops.Add(ctx, it.Flops/float64(it.Ranks))
			m.job.flops.Add(ctx, it.Flops)
			m.throughput.Record(ctx, it.Throughput*tera)
			m.average.Record(ctx, it.Average*tera)
		}
		if it.Loss.IsSet() {
			m.loss.Record(ctx, it.Loss.Get())
		}
	}
	if r.Failed {
		m.failed.Add(ctx, 1)
	}
	if r.Blocking > 0 {
		m.save.Record(ctx, time.Duration(r.Blocking).Seconds(), m.blocking)
	}
	if r.Background > 0 {
		m.save.Record(ctx, time.Duration(r.Background).Seconds(), m.background)
	}
	if r.Stored {
		m.saves.Add(ctx, 1, m.stored)
	}
	if r.Lost {
		m.saves.Add(ctx, 1, m.lost)
	}
}

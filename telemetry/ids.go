package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// RandomIDs returns a generator of random trace and span ids for
// [TrainingTelemetryBuilder.WithIDGenerator]: every root span begins a new
// trace. It is seeded by the operating system and does not use the program's
// random generators.
func RandomIDs() sdktrace.IDGenerator { return &idGenerator{} }

// jobIDs returns a generator of random span ids that gives all root spans of a
// job one trace id. The trace id derives from the session tag, the attempt, and
// what all ranks of this run share and no other run has, such as the launcher's
// job id: all ranks of a job are in one trace without communication. It is the
// default for jobs of several ranks.
//
// If run is empty, nothing distinguishes this run from others, and the trace id
// is this process's own, because a session tag alone would put different runs
// into one trace.
func jobIDs(sessionTag, run string, attempt int) sdktrace.IDGenerator {
	g := &idGenerator{}
	if run != "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "trainspan trace\x00%q\x00%q\x00%d", sessionTag, run, attempt))
		copy(g.job[:], sum[:])
	}
	for !g.job.IsValid() {
		g.fill(g.job[:])
	}
	return g
}

// partID returns the trace id of a part of the job's run: the same on all
// ranks.
func (g *idGenerator) partID(lap int, window int64, number int) (id trace.TraceID) {
	sum := sha256.Sum256(fmt.Appendf(nil, "trainspan trace part\x00%x\x00%d\x00%d\x00%d", g.job, lap, window, number))
	copy(id[:], sum[:])
	if !id.IsValid() {
		id[0] = 1
	}
	return id
}

type idGenerator struct {
	job trace.TraceID // of every root span; if zero, each gets another one
}

// fill fills dst, a number of whole words, from the runtime's generator: a
// strong generator per thread, seeded by the operating system, which programs
// cannot seed.
func (g *idGenerator) fill(dst []byte) {
	for ; len(dst) >= 8; dst = dst[8:] {
		binary.LittleEndian.PutUint64(dst, rand.Uint64())
	}
}

// NewIDs implements sdktrace.IDGenerator.
func (g *idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id := g.job
	for !id.IsValid() {
		g.fill(id[:])
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (g *idGenerator) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return g.spanID() }

func (g *idGenerator) spanID() (id trace.SpanID) {
	for !id.IsValid() {
		g.fill(id[:])
	}
	return id
}

// idsOf returns the generator of ids for a process: one trace for the whole job
// if it has several ranks with a common id, see [jobIDs]. shared reports
// whether the ranks of the job share a trace.
func idsOf(id Identity) (_ sdktrace.IDGenerator, shared bool) {
	if id.WorldSize.Or(0) <= 1 {
		return jobIDs("", "", 0), true
	}
	return jobIDs(id.SessionTag, id.Run, id.Attempt.Get()), id.Run != ""
}

// clock gives the time of a run.
type clock struct {
	now  func() time.Time
	nano func() int64          // the same in nanoseconds since the Unix epoch
	time func(int64) time.Time // the time of a recent result of nano
	of   func(time.Time) int64 // a time of the program in nanoseconds
	wall func() int64          // the wall clock, which may have been set since the start; nil for the program's own clock
}

// clockOf returns the program's own clock, or the current wall clock continued
// by the monotonic clock, so that setting the clock moves no span. If the
// program's clock panics, the system's is used.
func clockOf(own func() time.Time) clock {
	base := time.Now()
	system := systemClock(base, base.UnixNano())
	if own == nil {
		return system
	}
	calm := func() (now time.Time) {
		defer func() {
			if recover() != nil {
				now = system.now()
			}
		}()
		return own()
	}
	return clock{
		now: calm, nano: func() int64 { return calm().UnixNano() },
		time: func(ns int64) time.Time { return time.Unix(0, ns) }, of: time.Time.UnixNano,
	}
}

// systemClock returns the clock that was at wall at the time base. A time with a monotonic
// reading is converted by that.
func systemClock(base time.Time, wall int64) clock {
	return clock{
		now:  func() time.Time { return base.Add(time.Since(base)) },
		nano: func() int64 { return wall + int64(time.Since(base)) },
		time: func(ns int64) time.Time { return base.Add(time.Duration(ns - wall)) },
		of:   func(at time.Time) int64 { return wall + int64(at.Sub(base)) },
		wall: func() int64 { return time.Now().UnixNano() },
	}
}

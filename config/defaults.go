package config

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"
)

// WithDefaults returns a copy of b in which nothing is open that has a default.
// r is the place of the process, as [DetectRanks] gives it.
//
//   - WorldSize is that of r, else 1.
//   - SessionTag names the job of the launcher; where there is none, it is the
//     application name for several ranks, and new for each start of a process on
//     its own.
//   - ErrorStrategy is DisableQuietly where telemetry is off for this rank, else
//     PropagateErrors. Logger.Level is LogCritical where telemetry is off and no
//     strategy was given, else LogInfo.
//   - SummaryDataSchemaVersion is "1.0.0", ExplicitTimeWindow 600 s.
//   - Training.PerfTag is the application name, LogEveryNTrainIterations 50,
//     SaveCheckpointStrategy CheckpointSync.
//
// It calls the function of EnableForCurrentRank, if there is one. Doing it again
// changes nothing.
func (b *Base) WithDefaults(r Ranks) Base {
	c := b.Clone()
	if !c.WorldSize.IsSet() {
		c.WorldSize = Value(r.WorldSize.Or(1))
	}
	if !c.SessionTag.IsSet() {
		c.SessionTag = Value(c.newSessionTag(r))
	}
	quiet := !b.Enabled()
	if c.Logger.Level == "" {
		c.Logger.Level = LogInfo
		if quiet && c.ErrorStrategy == "" {
			c.Logger.Level = LogCritical
		}
	}
	if c.ErrorStrategy == "" {
		c.ErrorStrategy = PropagateErrors
		if quiet {
			c.ErrorStrategy = DisableQuietly
		}
	}
	c.SummaryDataSchemaVersion = cmp.Or(c.SummaryDataSchemaVersion, "1.0.0")
	c.ExplicitTimeWindow = cmp.Or(c.ExplicitTimeWindow, 600*time.Second)
	if t := c.Training; t != nil {
		*t = t.WithDefaults(c.ApplicationName)
	}
	return c
}

// WithDefaults returns a copy of t in which PerfTag is perfTag,
// LogEveryNTrainIterations 50 and SaveCheckpointStrategy [CheckpointSync],
// unless they are given.
func (t *Training) WithDefaults(perfTag string) Training {
	c := t.Clone()
	if !c.PerfTag.IsSet() && !c.PerfTags.IsSet() {
		c.PerfTag = Value(perfTag)
	}
	if !c.LogEveryNTrainIterations.IsSet() {
		c.LogEveryNTrainIterations = Value(DefaultLogEvery)
	}
	c.SaveCheckpointStrategy = cmp.Or(c.SaveCheckpointStrategy, CheckpointSync)
	return c
}

// newSessionTag makes a tag that is the same on all ranks.
func (b *Base) newSessionTag(r Ranks) string {
	switch {
	case r.Job != "":
		return "job-" + r.Job
	case b.WorldSize.Get() > 1:
		return b.ApplicationName
	}
	return processTag()
}

// processTag names this start of the process, the same for all who ask.
var processTag = sync.OnceValue(func() string {
	var random [3]byte
	_, _ = rand.Read(random[:]) // never fails
	return time.Now().UTC().Format("20060102-150405-") + hex.EncodeToString(random[:])
})

// WithDefaults returns a copy of t in which Path, Dialect, BufferSize and
// WriteInterval are given.
func (t *Trace) WithDefaults() Trace {
	c := *t
	c.Path = cmp.Or(c.Path, "./trace")
	c.Dialect = cmp.Or(c.Dialect, TraceV2)
	c.BufferSize = cmp.Or(c.BufferSize, 1<<20)
	c.WriteInterval = cmp.Or(c.WriteInterval, time.Second)
	return c
}

// WithDefaults returns a copy of o in which Protocol, Timeout, Compression and
// MetricsInterval are given.
func (o *OTLP) WithDefaults() OTLP {
	c := *o
	c.Protocol = cmp.Or(c.Protocol, OTLPHTTP)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.Compression = cmp.Or(c.Compression, "none")
	c.MetricsInterval = cmp.Or(c.MetricsInterval, time.Minute)
	return c
}

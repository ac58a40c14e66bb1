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
//     PropagateErrors. Logger.Level is CRITICAL where telemetry is off and no
//     strategy was given, else INFO.
//   - SummaryDataSchemaVersion is "1.0.0", ExplicitTimeWindow 600 s.
//   - Training.PerfTag is the application name, LogEveryNTrainIterations 50,
//     SaveCheckpointStrategy CheckpointSync.
//
// It calls the function of EnableForCurrentRank, if there is one. Doing it again
// changes nothing.
func (b *Base) WithDefaults(r Ranks) Base {
	c := Clone(b)
	if !c.WorldSize.IsSet() {
		c.WorldSize = Value(r.WorldSize.Or(1))
	}
	if !c.SessionTag.IsSet() {
		c.SessionTag = Value(c.newSessionTag(r))
	}
	quiet := !b.EnableForCurrentRank.Or(true)
	if c.Logger.Level == "" {
		c.Logger.Level = "INFO"
		if quiet && c.ErrorStrategy == "" {
			c.Logger.Level = "CRITICAL"
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
		t.setDefaults(c.ApplicationName)
	}
	return c
}

func (t *Training) setDefaults(perfTag string) {
	if !t.PerfTag.IsSet() && !t.PerfTags.IsSet() {
		t.PerfTag = Value(perfTag)
	}
	if !t.LogEveryNTrainIterations.IsSet() {
		t.LogEveryNTrainIterations = Value(50)
	}
	t.SaveCheckpointStrategy = cmp.Or(t.SaveCheckpointStrategy, CheckpointSync)
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

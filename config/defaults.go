package config

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"
)

// WithDefaults returns a copy of b with all defaults filled in. r is the place
// of the process, as [DetectRanks] returns it. SessionTag defaults to the
// launcher's job; without one it is the application name for several ranks, and
// new for each start of a single process. If telemetry is off for this rank,
// errors are handled quietly and the level is CRITICAL, unless they are set. It
// calls the function of EnableForCurrentRank, if there is one. A second call
// changes nothing.
func (b *Base) WithDefaults(r Ranks) Base {
	c := Clone(b)
	if !c.WorldSize.IsSet() {
		c.WorldSize = Value(r.WorldSize.Or(1))
	}
	if !c.SessionTag.IsSet() {
		tag := c.ApplicationName
		if r.Job != "" {
			tag = "job-" + r.Job
		} else if c.WorldSize.Get() <= 1 {
			tag = processTag()
		}
		c.SessionTag = Value(tag)
	}
	level, strategy := "INFO", PropagateErrors
	if !b.EnableForCurrentRank.Or(true) {
		strategy = DisableQuietly
		if c.ErrorStrategy == "" {
			level = "CRITICAL"
		}
	}
	c.Logger.Level, c.ErrorStrategy = cmp.Or(c.Logger.Level, level), cmp.Or(c.ErrorStrategy, strategy)
	c.SummaryDataSchemaVersion = cmp.Or(c.SummaryDataSchemaVersion, "1.0.0")
	c.ExplicitTimeWindow = cmp.Or(c.ExplicitTimeWindow, 600*time.Second)
	if t := c.Training; t != nil {
		if !t.PerfTag.IsSet() && !t.PerfTags.IsSet() {
			t.PerfTag = Value(c.ApplicationName)
		}
		if !t.LogEveryNTrainIterations.IsSet() {
			t.LogEveryNTrainIterations = Value(50)
		}
		t.SaveCheckpointStrategy = cmp.Or(t.SaveCheckpointStrategy, CheckpointSync)
	}
	return c
}

// processTag returns a tag for this start of the process, the same at each
// call.
var processTag = sync.OnceValue(func() string {
	var random [3]byte
	_, _ = rand.Read(random[:]) // never fails
	return time.Now().UTC().Format("20060102-150405-") + hex.EncodeToString(random[:])
})

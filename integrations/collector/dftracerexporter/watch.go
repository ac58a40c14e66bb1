package dftracerexporter

import (
	"context"
	"log/slog"

	"github.com/trainspan/trainspan/integrations/collector/dftracerexporter/internal/metadata"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// watcher counts and logs the events of the store.
type watcher struct {
	log *zap.Logger
	in  *metadata.TelemetryBuilder
}

var _ place.Watcher = watcher{}

func add(to metric.Int64Counter, n int64) {
	if n != 0 {
		to.Add(context.Background(), n)
	}
}

func (w watcher) Counted(c place.Counts, lost uint64) {
	add(w.in.DftracerSpansWritten, c.Spans)
	add(w.in.DftracerEventsWritten, c.Events)
	add(w.in.DftracerSpansBegun, c.Begins)
	add(w.in.DftracerDuplicateSpans, c.Duplicates)
	add(w.in.DftracerUnfinishedSpans, c.Unfinished)
	add(w.in.DftracerSharedLaneSpans, c.SharedLane)
	add(w.in.DftracerCutAttributes, c.Cut.Attributes)
	add(w.in.DftracerCutEvents, c.Cut.Events)
	add(w.in.DftracerCutLinks, c.Cut.Links)
	add(w.in.DftracerLostLines, int64(lost)) //nolint:gosec // lines
}

func (w watcher) Opened(again bool) {
	if again {
		w.in.DftracerFilesResumed.Add(context.Background(), 1)
	} else {
		w.in.DftracerFilesCreated.Add(context.Background(), 1)
	}
	w.in.DftracerOpenFiles.Add(context.Background(), 1)
}

func (w watcher) Closed() { w.in.DftracerOpenFiles.Add(context.Background(), -1) }

func (w watcher) Outage() { w.in.DftracerFileOutages.Add(context.Background(), 1) }

func (w watcher) Log(level slog.Level, message string, args ...any) {
	at := zapcore.InfoLevel
	switch {
	case level >= slog.LevelError:
		at = zapcore.ErrorLevel
	case level >= slog.LevelWarn:
		at = zapcore.WarnLevel
	case level < slog.LevelInfo:
		at = zapcore.DebugLevel
	}
	var fields []zap.Field
	for ; len(args) > 1; args = args[2:] {
		if err, ok := args[1].(error); ok {
			fields = append(fields, zap.Error(err))
			continue
		}
		fields = append(fields, zap.Any(args[0].(string), args[1]))
	}
	w.log.Log(at, message, fields...)
}

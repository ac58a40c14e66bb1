package setup

import (
	"log/slog"
	"strings"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// dialects maps the configured dialect to that of package dftracer.
var dialects = map[string]dftracer.Dialect{
	config.TraceV1:  dftracer.V1,
	config.TraceV2:  dftracer.V2,
	config.TraceV22: dftracer.V22,
}

// newTrace returns the output for the trace file. The provider opens the file.
func newTrace(t config.Trace, ranks config.Ranks, world int, log *slog.Logger) *pfw.Exporter {
	t = settings.Trace(t)
	o := TraceOptions(&t)
	o.OnError, o.OnPath = fileEvents(log, "trace")
	rank := ranks.Rank.Or(0) // as in the records; a single process is rank 0
	o.Process.Rank = &rank
	path := t.Path
	if ranks.Rank.IsSet() { // ranks must not share a trace file
		o.Process.WorldSize = max(world, ranks.WorldSize.Or(1))
	}
	o.HashName = isPrefix(path)
	options := &pfw.Options{Trace: o, Files: pfw.FileOptions{
		Off: !t.IO.Or(true), NoPOSIX: !t.POSIX.Or(true), NoSTDIO: !t.STDIO.Or(true), Dirs: t.DataDirs, Aggregate: t.AggregateIO.Or(false),
	}}
	if t.CoreAffinity.Or(false) {
		options.Cores = coreAffinity()
	}
	return pfw.New(path, options)
}

// TraceOptions returns the writer options of a configuration: dialect, compression and
// buffers. Unset fields have the defaults of package dftracer.
func TraceOptions(t *config.Trace) *dftracer.Options {
	o := &dftracer.Options{
		Dialect:       dialects[t.Dialect],
		NoMetadata:    !t.Metadata.Or(true),
		NoTIDs:        !t.TIDs.Or(true),
		MemberSize:    t.BufferSize,
		FlushInterval: t.WriteInterval,
	}
	if t.CommandLine.Or(false) {
		o.Process.Command = tracefile.CommandLine()
	}
	if t.Compression.IsSet() {
		o.Compression = dftracer.CompressMembers
		if !t.Compression.Get() {
			o.Compression = dftracer.CompressNone
		}
	}
	return o
}

// fileEvents returns callbacks that log the errors and the paths of a file.
func fileEvents(log *slog.Logger, output string) (onError func(error), onPath func(string)) {
	onError = func(err error) {
		log.Warn("telemetry cannot write a file", "output", output, "error", err, "see", helptopic.File)
	}
	onPath = func(path string) { log.Info("telemetry writes to another file", "output", output, "path", path) }
	return onError, onPath
}

// isPrefix reports whether a path is the prefix of a trace's name, as in one-logger's
// configuration. Pipes, devices and "-" are not prefixes.
func isPrefix(path string) bool {
	return !strings.HasSuffix(path, ".pfw.gz") && !strings.HasSuffix(path, ".pfw") && !fswrite.AsIs(path)
}

package exporters

import (
	"fmt"
	"strings"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
)

// dialects are those of package dftracer; the configuration was checked.
var dialects = map[string]dftracer.Dialect{
	config.TraceV1:  dftracer.V1,
	config.TraceV2:  dftracer.V2,
	config.TraceV22: dftracer.V22,
}

// openTrace creates the trace file.
func openTrace(t config.Trace, ranks config.Ranks, world int) (*pfw.Processor, error) {
	t = t.WithDefaults()
	o := traceOptions(&t)
	rank := ranks.Rank.Or(0) // as the records say; a process on its own is rank 0
	o.Rank = &rank
	path := t.Path
	stem, ext := traceExt(path)
	switch {
	case ext == "":
		o.HashName = true // the path is a prefix
	case max(world, ranks.WorldSize.Or(1)) > 1 && ranks.Rank.IsSet() &&
		!strings.Contains(path, "{rank}") && !strings.Contains(path, "{pid}"):
		path = stem + "-{rank}" + ext // ranks cannot share a trace
	}
	p, err := pfw.Create(path, &pfw.Options{Trace: o})
	if err != nil {
		return nil, fmt.Errorf("exporters: outputs.trace.path: %w", err)
	}
	if t.CoreAffinity.Or(false) {
		if cores := coreAffinity(); len(cores) > 0 {
			p.Writer().SetCoreAffinity(cores)
		}
	}
	return p, nil
}

func traceOptions(t *config.Trace) *dftracer.Options {
	o := &dftracer.Options{
		Dialect:       dialects[t.Dialect],
		NoMetadata:    !t.Metadata.Or(true),
		NoTIDs:        !t.TIDs.Or(true),
		MemberSize:    t.BufferSize,
		FlushInterval: t.WriteInterval,
		Existing:      dftracer.ExistingKeep, // a restarted job keeps what it wrote before
	}
	if t.CommandLine.Or(false) {
		o.Process.Command = dftracer.CommandLine()
	}
	if t.Compression.IsSet() {
		o.Compression = dftracer.CompressMembers
		if !t.Compression.Get() {
			o.Compression = dftracer.CompressNone
		}
	}
	return o
}

// traceExt cuts the extension off the path of a trace; ext is empty for a
// prefix.
func traceExt(path string) (stem, ext string) {
	for _, ext := range [...]string{".pfw.gz", ".pfw"} {
		if stem, ok := strings.CutSuffix(path, ext); ok {
			return stem, ext
		}
	}
	return path, ""
}

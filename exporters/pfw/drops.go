package pfw

import (
	"maps"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// ReportLosses implements outputs.Output. The trace's end record repeats what
// was lost, as otlp_dropped_<key>.
func (p *Processor) ReportLosses(lost outputs.Losses) {
	if p != nil {
		d := map[string]int64(maps.Clone(lost))
		p.dropped.Store(&d)
	}
}

func (p *Processor) drops() (args []dftracer.Arg) {
	d := p.dropped.Load()
	if d == nil {
		return nil
	}
	for _, cause := range slices.Sorted(maps.Keys(*d)) {
		args = append(args, dftracer.Int("otlp_dropped_"+strings.ReplaceAll(cause, " ", "_"), (*d)[cause]))
	}
	return args
}

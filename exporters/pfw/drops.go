package pfw

import (
	"maps"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
)

// TellDrops says what the other exporters of the program lost: spans by cause,
// log records as "logs <cause>", exports of metrics as "metric exports". The
// trace's end record repeats it, as otlp_dropped_<key>. Package telemetry calls
// it before Shutdown.
func (p *Processor) TellDrops(drops map[string]int64) {
	if p != nil {
		d := maps.Clone(drops)
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

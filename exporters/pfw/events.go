package pfw

import (
	"strconv"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/internal/dft"
)

// argSpan is the argument of an event's record that names its span.
const argSpan = "span"

// remainingEvents writes the events that OnEvent has not written.
func (d *desk) remainingEvents(e *spanEntry, s sdktrace.ReadOnlySpan, tid int64, level int) {
	events := s.Events()
	if len(events) == 0 {
		return
	}
	// The SDK drops the oldest events of a span with too many.
	dropped := s.DroppedEvents()
	written := e.events()
	for i := max(written-dropped, 0); i < len(events); i++ {
		writeEvent(d.w, e.id, tid, level, &events[i])
	}
	if written == 0 && dropped > 0 {
		d.w.Write(&dftracer.Event{
			Phase: dftracer.PhaseMetadata, Name: dft.NameCustom, Cat: dftracer.CatDFTracer,
			TID: tid, Level: below(level), Parent: int64(e.id),
			Args: []dftracer.Arg{
				dftracer.String("name", assemble.ArgDroppedEvents), dftracer.String("value", strconv.Itoa(dropped)),
				dftracer.Int(argSpan, int64(e.id)),
			},
		})
	}
}

// below is the level of what lies directly below a level; 0 is unknown.
func below(level int) int {
	if level == 0 {
		return 0
	}
	return level + 1
}

func writeEvent(w *dftracer.Writer, id uint64, tid int64, level int, ev *sdktrace.Event) {
	var stack [stackArgs]dftracer.Arg
	args := append(stack[:0],
		dftracer.String("name", ev.Name), dftracer.String("value", strconv.FormatInt(ev.Time.UnixMicro(), 10)),
		dftracer.Int(argSpan, int64(id)))
	ours := len(args)
	for i := range ev.Attributes {
		args = appendArg(args, &ev.Attributes[i])
	}
	dft.Distinct(args, ours, len(args), "event.")
	w.Write(&dftracer.Event{
		Phase: dftracer.PhaseMetadata, Name: dft.NameCustom, Cat: dftracer.CatDFTracer,
		TID: tid, Level: below(level), Parent: int64(id), Args: args,
	})
}

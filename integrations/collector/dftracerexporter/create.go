package dftracerexporter

import (
	"context"
	"errors"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/zap"
)

// arrival describes what arrives for a process.
type arrival struct {
	res   pcommon.Resource
	start time.Time // the earliest start in it; zero is unknown
	now   time.Time
}

// create creates the file of a process.
func (e *tracesExporter) create(from place.Sender, a arrival) (place.Made, error) {
	res := a.res
	if from == place.SharedSender {
		res = pcommon.NewResource() // the file does not belong only to the process that came first
	}
	opts := e.cfg.options()
	opts.Pool = e.pool
	about(&opts, &from, res.Attributes())
	if opts.Start = a.start; a.start.IsZero() {
		opts.Start = a.now // the times of the trace are those of its job, not of this process
	}
	path := pathOf(&from, e.cfg.Directory, e.cfg.FileName)
	opts.OnError = func(err error) {
		var o *dftracer.Outage
		if errors.As(err, &o) && o.Over {
			e.log.Info("trace file is writable again", zap.String("file", path), zap.Error(err))
			return
		}
		e.in.DftracerFileOutages.Add(context.Background(), 1)
		e.log.Error("cannot write the trace file; the exporter retries", zap.String("file", path), zap.Error(err), zap.String("see", helptopic.File))
	}
	w, err := place.Create(path, &opts)
	if err != nil {
		return place.Made{}, err
	}
	if from.MadeUp && from.Instance == "" {
		e.log.Warn("spans have no process.pid and no service.instance.id: processes with the same host, service and rank share a file",
			zap.String("file", w.Path()), zap.String("see", helptopic.Collector))
	}
	e.log.Debug("trace file created", zap.String("file", w.Path()))
	return place.Made{Writer: w, TID: int64(from.PID), Cut: describe(w, res, e.cfg.limits().Attributes)}, nil
}

// about sets the options that describe the process from its resource. Of
// process.command it takes only the program, because the arguments can hold
// secrets.
func about(opts *dftracer.Options, from *place.Sender, attrs pcommon.Map) {
	id := identify(attrs)
	opts.Process.Command, opts.Process.Dir = text(attrs, "process.command"), text(attrs, "process.working_directory")
	from.Trace(opts, &id)
}

// describe writes the resource's attributes as metadata of the file, except for
// command lines, which can hold secrets.
func describe(w *dftracer.Writer, res pcommon.Resource, limit int) place.Cut {
	facts := place.Facts{Writer: w, Limit: limit}
	for key, v := range res.Attributes().All() {
		switch key {
		case "process.command_args", "process.command_line", "process.command":
		default:
			if facts.Room() {
				facts.Add(key, v.AsString())
			}
		}
	}
	return facts.End()
}

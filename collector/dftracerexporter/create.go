package dftracerexporter

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/zap"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/internal/see"
)

// arrival is what comes for a process.
type arrival struct {
	res   pcommon.Resource
	start time.Time // the earliest in it; zero is unknown
	now   time.Time
}

// create makes the file of a process.
func (e *tracesExporter) create(from assemble.Sender, a arrival) (assemble.Made, error) {
	res := a.res
	if from == assemble.SharedSender {
		res = pcommon.NewResource() // it is not that of the one that came first
	}
	opts := e.cfg.options()
	opts.Pool = e.pool
	about(&opts, &from, res.Attributes())
	if opts.Start = a.start; a.start.IsZero() {
		opts.Start = a.now // the times of the trace are those of its job, not ours
	}
	path := pathOf(&from, e.cfg.Directory, e.cfg.FileName)
	opts.OnError = func(err error) {
		var o *dftracer.Outage
		if errors.As(err, &o) && o.Over {
			e.log.Info("trace file works again", zap.String("file", path), zap.Error(err))
			return
		}
		e.in.DftracerFileOutages.Add(context.Background(), 1)
		e.log.Error("trace file cannot be written, will try again", zap.String("file", path), zap.Error(err), zap.String("see", see.File))
	}
	w, err := assemble.Create(path, &opts)
	if err != nil {
		return assemble.Made{}, err
	}
	if from.MadeUp && from.Instance == "" {
		e.log.Warn("spans come without process.pid and service.instance.id: processes of the same host, service and rank share a file",
			zap.String("file", w.Path()), zap.String("see", see.Collector))
	}
	e.log.Debug("trace file made", zap.String("file", w.Path()))
	return assemble.Made{Writer: w, TID: int64(from.PID), Cut: describe(w, res, e.cfg.limits().Attributes)}, nil
}

// about fills in what a resource says of the process. process.command is the program;
// what follows it carries secrets.
func about(opts *dftracer.Options, from *assemble.Sender, attrs pcommon.Map) {
	id := identify(attrs)
	opts.Process.Command, opts.Process.Dir = text(attrs, "process.command"), text(attrs, "process.working_directory")
	from.Trace(opts, &id)
}

// describe writes what the resource says as metadata of the file, except for command
// lines, which can hold secrets.
func describe(w *dftracer.Writer, res pcommon.Resource, limit int) assemble.Cut {
	facts := assemble.Facts{Writer: w, Limit: limit}
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

package torch

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch/compilelog"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// maxPhases bounds the compile phases kept of one log.
const maxPhases = 1 << 20

// LogReport describes one TORCH_TRACE log.
type LogReport struct {
	// Name is the file. Rank is -1 if the log does not have it.
	Name string `json:"name"`
	Rank int64  `json:"rank"`
	// Phases counts compile phases, Unmatched begins and ends without partner,
	// Compilations the compiled frames, Operators the nodes of their graphs.
	Phases       int64 `json:"phases"`
	Unmatched    int64 `json:"unmatched_phases,omitempty"`
	Compilations int64 `json:"compilations"`
	Operators    int64 `json:"operators"`
	// Executions lists the compile ids of the graphs in the order in which they
	// ran, if the log has it. The log has no times of these.
	Executions []string `json:"executions,omitempty"`
	// Skipped and Defects describe what could not be read.
	Skipped int64               `json:"skipped"`
	Defects []compilelog.Defect `json:"defects,omitempty"`
	// Warnings are sentences for people.
	Warnings []string `json:"warnings,omitempty"`
}

func (r *LogReport) text(b *strings.Builder) {
	display.Fprintf(b, "%s: compile log, %d phases, %d compilations with %d operators\n", r.Name, r.Phases, r.Compilations, r.Operators)
	if n := len(r.Executions); n > 0 {
		display.Fprintf(b, "  %d graph executions, in this order: %s", n, strings.Join(r.Executions[:min(n, 20)], " "))
		if n > 20 {
			b.WriteString(" ...")
		}
		b.WriteByte('\n')
	}
	if r.Unmatched > 0 {
		display.Fprintf(b, "  warning: %d phases have only a begin or only an end\n", r.Unmatched)
	}
	for _, d := range r.Defects {
		display.Fprintf(b, "  %s\n", d)
	}
	for _, s := range r.Warnings {
		display.Fprintf(b, "  warning: %s\n", s)
	}
}

func (im *importer) readLog(body io.Reader, name string, written time.Time) error {
	l := &loadedLog{name: name}
	lost := int64(0)
	log, err := compilelog.Read(body, written, func(p *compilelog.Phase) error {
		if len(l.phases) < maxPhases {
			l.phases = append(l.phases, *p)
		} else {
			lost++
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.log = log
	l.report = &LogReport{Name: name, Rank: log.Rank, Phases: log.Phases, Unmatched: log.Unmatched, Executions: log.Executions, Skipped: log.Skipped, Defects: log.Defects}
	for _, c := range log.Compiles {
		l.report.Compilations++
		l.report.Operators += int64(len(c.Forward) + len(c.Backward) + len(c.Inference))
	}
	if log.ByClock {
		l.report.Warnings = append(l.report.Warnings, "the log has no dates: its times are those in front of the records, with the year and time zone that match the time when the file was written")
	}
	if lost > 0 {
		l.report.Warnings = append(l.report.Warnings, fmt.Sprintf("%d phases after the first %d were dropped", lost, maxPhases))
	}
	im.logs = append(im.logs, l)
	im.report.Logs = append(im.report.Logs, l.report)
	return nil
}

// writeLog writes the compile phases of a log. They belong to the process of
// the trace with the same rank, if there is one.
func (im *importer) writeLog(l *loadedLog) {
	pid, rank := l.log.PID, l.log.Rank
	host := im.opts.Host
	if rank < 0 {
		rank = int64(identity.RankInName(l.name))
	}
	for _, p := range im.procs {
		if p.rank == rank && (rank >= 0 || len(im.procs) == 1) {
			pid, host = p.pid, p.host
			break
		}
	}
	if host == "" {
		host = identity.HostOf(rank)
	}
	hash := tracefile.HashOf(im.opts.Dialect, host)
	ev := dftracer.Event{
		Phase: dftracer.PhaseMetadata, Name: tracefile.NameHostHash, Cat: dftracer.CatDFTracer, PID: pid, HostHash: tracefile.HashText(hash, im.opts.Dialect),
		Args: []dftracer.Arg{dftracer.String("name", host), tracefile.HashArg("value", hash)},
	}
	im.report.Events[ev.Cat]++
	im.sink.Write(&ev)
	// Separate lanes, because a profile of the same thread may have other rows at
	// the same time.
	lanes := map[int64]int64{}
	for i := range l.phases {
		p := &l.phases[i]
		lane, ok := lanes[p.TID]
		if !ok {
			lane = im.logLanes
			im.logLanes++
			lanes[p.TID] = lane
		}
		im.writePhase(p, logLanes+lane, pid, rank, ev.HostHash)
	}
}

func (im *importer) writePhase(p *compilelog.Phase, tid, pid, rank int64, hostHash string) {
	ts := max(p.Start/1000, 0)
	ev := dftracer.Event{
		Phase: dftracer.PhaseComplete, Type: tracefile.TypePython, ID: im.nextID(), Name: "compile." + p.Name, Cat: "dynamo", PID: pid, TID: tid,
		TS: ts, Dur: max((p.Start+p.Dur)/1000-ts, 0), Level: p.Depth, Parent: dftracer.NoParent, HostHash: hostHash,
	}
	if p.CompileID != "" {
		ev.Args = append(ev.Args, dftracer.String("compile_id", p.CompileID))
	}
	if p.FailType != "" {
		ev.Args = append(ev.Args, dftracer.String("fail_type", p.FailType))
	}
	ev.Args = append(ev.Args, dftracer.Int("thread", p.TID))
	if p.Instant {
		ev.Args = append(ev.Args, dftracer.Int("instant", 1))
	}
	if rank >= 0 {
		ev.Args = append(ev.Args, dftracer.Int("rank", rank))
	}
	ev.Args = append(ev.Args, dftracer.String("source", "torch_trace"))
	im.report.Events[ev.Cat]++
	im.sink.Write(&ev)
}

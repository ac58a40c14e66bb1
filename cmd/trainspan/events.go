package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/tracefile"
)

type eventsOptions struct {
	json, csv bool
	metadata  bool
	all       bool
	limit     int64
	limited   bool // the user has set --limit
	sort      string
	filter    read.Filter
}

func newEvents(a *ui.App) *cobra.Command {
	var o eventsOptions
	cmd := &cobra.Command{
		Use:   "events FILE...",
		Short: "Print the events of a trace, one per line",
		Long: `Prints the events of traces or JSON lines, one per line, in the order of the file:
start, duration, rank, category, name and arguments. --json prints one JSON object
per line, --csv a table with a header. Their times are in microseconds; points in
time are microseconds since 1970. Memory does not grow with the size of the traces.

--sort duration prints the longest spans first: as a table, or with --json and --csv
in the same form as other events. It prints 20 unless --limit is given, and reports
the number of spans on standard error. Spans that enclose the whole run are omitted
unless --all is given: the application, loops, epochs and bodies of iterators.

Events more than 30 days from the other times of their file are omitted; --from and
--to show them.`,
		Example: `  trainspan trace events trace.pfw.gz --category 'checkpoint*' --rank 0
  trainspan trace events trace.pfw.gz --from +10m --to +10m5s
  trainspan trace events out/ --name forward --json | jq .dur_us
  trainspan trace events out/ --sort duration --category dataloader --limit 5
  trainspan trace events trace.pfw.gz --csv > trace.csv`,
		ValidArgsFunction: read.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.limited = cmd.Flags().Changed("limit")
			if err := o.check(); err != nil {
				return err
			}
			return runEvents(cmd.Context(), a, args, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print a JSON object per line")
	f.BoolVar(&o.csv, "csv", false, "print comma-separated values")
	f.BoolVar(&o.metadata, "metadata", false, "also print metadata records and the framing")
	f.Int64Var(&o.limit, "limit", 0, "stop after this many events; 0 prints all (default with --sort duration: 20)")
	f.Var(ui.NewChoice(&o.sort, sortFile, sortDuration), "sort", "order: file (as recorded) or duration (the longest spans first)")
	ui.Words(cmd, "sort", sortFile, sortDuration)
	f.BoolVar(&o.all, "all", false, "with --sort duration, also print spans that enclose the whole run")
	o.filter.Flags(f)
	return cmd
}

// The orders of events.
const (
	sortFile     = "file"
	sortDuration = "duration"
)

// check reports contradictory flags, and sets the default limit of --sort
// duration.
func (o *eventsOptions) check() error {
	switch {
	case o.json && o.csv:
		return ui.Usage("--json and --csv: choose one")
	case o.limit < 0:
		return ui.Usage("--limit %d: use 0 or more", o.limit)
	case o.sort != sortDuration && o.all:
		return ui.Usage("--all needs --sort duration; without it all events are printed")
	case o.sort == sortDuration && o.metadata:
		return ui.Usage("--metadata and --sort duration: choose one; metadata records have no duration")
	case o.sort == sortDuration && !o.limited:
		o.limit = longestLimit
	case o.sort == sortDuration && o.limit == 0:
		return ui.Usage("--limit 0 with --sort duration: use 1 or more; this many spans are kept in memory")
	}
	return nil
}

// eventPrinter prints events in one of the forms.
type eventPrinter struct {
	w   *bufio.Writer
	csv *ui.CsvWriter
	o   *eventsOptions
	who *job.FileTracker

	imported *profileImport
	buf      []byte
	line     []byte
	row      []string
	n        int64

	columns int // width of a text line
}

var eventColumns = []string{"file", "ts_us", "dur_us", "ph", "rank", "pid", "tid", "cat", "name", "epoch", "step", "id", "parent", "args"}

func runEvents(ctx context.Context, a *ui.App, args []string, o *eventsOptions) error {
	args, imported, err := withTraces(ctx, a, args)
	if err != nil {
		return err
	}
	defer imported.remove()
	files, err := read.Expand(ctx, args)
	if err != nil {
		return err
	}
	if err := o.filter.Prepare(ctx, files); err != nil {
		return err
	}
	var longest longestSpans
	if o.sort == sortDuration {
		var first int64
		if longest, first, err = readLongest(ctx, a, files, o); err != nil {
			return err
		}
		if !o.json && !o.csv {
			showLongest(a, longest, first, len(files) > 1)
			return nil
		}
	}
	p := &eventPrinter{imported: imported, w: bufio.NewWriterSize(a.Stdout, 64<<10), o: o, columns: a.Width()}
	switch {
	case o.json:
		p.w.Reset(display.JSON(a.Stdout))
	case o.csv:
		p.csv = ui.NewCSV(p.w)
		_ = p.csv.Row(slices.Clone(eventColumns)) // the writer keeps its error
	}
	if o.sort == sortDuration {
		for i := range longest {
			s := &longest[i]
			p.print(s.file, read.RankText(s.proc), &s.ev)
		}
	} else {
		err = p.read(ctx, a, files)
	}
	if p.csv != nil {
		p.csv.Flush()
	}
	if flushed := p.w.Flush(); err == nil {
		err = flushed
	}
	return err
}

// read prints the events of files in order.
func (p *eventPrinter) read(ctx context.Context, a *ui.App, files []string) error {
	o := p.o
	var times read.TimeJudge
	times.Reading()
	bar := a.StartProgress("events", files)
	err := a.Each(ctx, files, func(path string) error {
		if o.limit > 0 && p.n >= o.limit {
			return nil
		}
		p.who = o.filter.Who.File(path)
		times.Look(ctx, path, &o.filter)
		take, end := times.File(path, func(ev *dftracer.Event) error { return p.take(path, ev) })
		_, err := read.Events(ctx, a, path, &o.filter, bar, take)
		if errors.Is(err, read.ErrEnough) {
			return nil
		}
		end()
		return err
	})
	bar.Finish()
	if err == nil {
		read.WarnOfTimes(a, &times)
		for _, path := range slices.Sorted(maps.Keys(times.Medians)) {
			a.Note("%s: its times change by more than 30 days; the filters used the times before the change", path)
		}
	}
	return err
}

func (p *eventPrinter) take(path string, ev *dftracer.Event) error {
	who := p.who.Of(ev)
	if (ev.Phase == dftracer.PhaseMetadata || ev.Cat == dftracer.CatDFTracer) && !p.o.metadata {
		return nil
	}
	p.print(path, read.RankText(who), ev)
	if p.n++; p.n == p.o.limit {
		return read.ErrEnough
	}
	return nil
}

func (p *eventPrinter) print(path, rank string, ev *dftracer.Event) {
	switch {
	case p.o.json:
		p.json(p.imported.name(path), rank, ev)
	case p.o.csv:
		p.record(p.imported.name(path), rank, ev)
	default:
		p.text(rank, ev)
	}
}

// text prints an event for people.
func (p *eventPrinter) text(rank string, ev *dftracer.Event) {
	b := time.UnixMicro(ev.TS).UTC().AppendFormat(p.buf[:0], "2006-01-02 15:04:05.000000")
	if ev.Phase == dftracer.PhaseMetadata {
		b = append(b[:0], "                          "...)
	}
	b = fmt.Appendf(b, "  %10s", display.Micros(float64(ev.Dur)))
	if rank != "" {
		b = fmt.Appendf(b, "  rank %-3s", rank)
	} else {
		b = fmt.Appendf(b, "  pid %d", ev.PID)
	}
	b = fmt.Appendf(b, "  %s/%s", ev.Cat, ev.Name)
	for i := range ev.Args {
		b = fmt.Appendf(b, " %s=%s", ev.Args[i].Key, ev.Args[i].Text())
	}
	p.buf = b
	p.line = append(display.Append(p.line[:0], b), '\n')
	_, _ = p.w.Write(display.Paragraphs(p.line, p.columns)) // Flush returns the error
}

func (p *eventPrinter) json(path, rank string, ev *dftracer.Event) {
	b := append(p.buf[:0], `{"file":`...)
	b = appendText(b, path)
	b = append(b, `,"ts_us":`...)
	b = strconv.AppendInt(b, ev.TS, 10)
	b = append(b, `,"dur_us":`...)
	b = strconv.AppendInt(b, ev.Dur, 10)
	b = append(b, `,"ph":`...)
	b = appendText(b, ev.Phase.String())
	if rank != "" {
		b = append(b, `,"rank":`...)
		b = appendText(b, rank)
	}
	b = append(b, `,"pid":`...)
	b = strconv.AppendInt(b, ev.PID, 10)
	b = append(b, `,"tid":`...)
	b = strconv.AppendInt(b, ev.TID, 10)
	b = append(b, `,"cat":`...)
	b = appendText(b, ev.Cat)
	b = append(b, `,"name":`...)
	b = appendText(b, ev.Name)
	b = append(b, `,"id":`...)
	b = strconv.AppendUint(b, ev.ID, 10)
	if ev.Parent > 0 {
		b = append(b, `,"parent":`...)
		b = strconv.AppendInt(b, ev.Parent, 10)
	}
	b = append(b, `,"args":`...)
	b = appendArgs(b, ev.Args)
	p.buf = append(b, "}\n"...)
	_, _ = p.w.Write(p.buf) // Flush returns the error
}

// appendArgs appends arguments as a JSON object.
func appendArgs(dst []byte, args []dftracer.Arg) []byte {
	dst = append(dst, '{')
	for i := range args {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, args[i].Key)
		dst = append(dst, ':')
		dst = tracefile.AppendArg(args[i], dst, dftracer.V2)
	}
	return append(dst, '}')
}

func (p *eventPrinter) record(path, rank string, ev *dftracer.Event) {
	number := func(key string) string {
		if n := read.NumberOf(ev, key); n != nil {
			return strconv.FormatInt(*n, 10)
		}
		return ""
	}
	parent := ""
	if ev.Parent > 0 {
		parent = strconv.FormatInt(ev.Parent, 10)
	}
	p.buf = appendArgs(p.buf[:0], ev.Args)
	p.row = append(p.row[:0], path, strconv.FormatInt(ev.TS, 10), strconv.FormatInt(ev.Dur, 10), ev.Phase.String(), rank,
		strconv.FormatInt(ev.PID, 10), strconv.FormatInt(ev.TID, 10), ev.Cat, ev.Name, number("epoch"), number("step"),
		strconv.FormatUint(ev.ID, 10), parent, string(p.buf))
	_ = p.csv.Row(p.row) // the writer keeps its error
}

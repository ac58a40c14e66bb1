package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
)

func newInfo(a *ui.App) *cobra.Command {
	var asJSON bool
	var q read.Filter
	cmd := &cobra.Command{
		Use:   "info FILE...",
		Short: "Show what a trace contains and lacks",
		Long: `Shows for each trace: dialect, size, gzip members, time span, processes with their
ranks, the number of events per category, and what is missing for a complete trace.
Events are spans; start and end records count as metadata. Events more than 30 days
from the others are counted, but do not extend the time span. JSON lines of native
telemetry are read too.

The status is 1 if a trace is damaged or has lines that are not records.`,
		Example: `  trainspan trace info trace.pfw.gz
  trainspan trace info out/ --json | jq '.[] | select(.missing)'`,
		ValidArgsFunction: read.Complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runInfo(cmd.Context(), a, args, &q, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array with one object per file")
	q.Flags(cmd.Flags())
	return cmd
}

func runInfo(ctx context.Context, a *ui.App, args []string, q *read.Filter, asJSON bool) error {
	args, imported, err := withTraces(ctx, a, args)
	if err != nil {
		return err
	}
	defer imported.remove()
	files, err := read.Expand(ctx, args)
	if err != nil {
		return err
	}
	if err := q.Prepare(ctx, files); err != nil {
		return err
	}
	bar := a.StartProgress("info", files)
	infos := make([]*read.FileInfo, 0, len(files))
	err = a.Each(ctx, files, func(path string) error {
		inspect := func() (*read.FileInfo, error) { return read.Inspect(ctx, a, path, bar) }
		if !q.All() || read.IsRecords(path) {
			inspect = func() (*read.FileInfo, error) { return read.InspectPart(ctx, a, path, q, bar) }
		}
		info, err := inspect()
		if err == nil {
			info.Path = imported.name(path)
			infos = append(infos, info)
		}
		return err
	})
	bar.Finish()
	if err != nil {
		return err
	}
	var relative []string
	for _, info := range infos {
		if info.BadLines > 0 {
			a.Problem("%s: %s not a record; trainspan trace validate lists them; see "+helptopic.Damaged, info.Path, display.Plural(info.BadLines, "line"))
		}
		if info.Damaged != "" {
			a.Problem("%s: damaged at byte %d: %s; trainspan trace recover repairs it; see "+helptopic.Damaged, info.Path, info.DamagedAt, info.Damaged)
		}
		read.WarnOfSetAside(a, info.Path, info.Aside)
		if info.Events > info.Aside && info.End < read.NearZero {
			relative = append(relative, info.Path)
		}
	}
	read.WarnOfRelativeTimes(a, relative)
	if asJSON {
		return a.PrintJSON(infos)
	}
	for i, info := range infos {
		if i > 0 {
			a.Printf("\n")
		}
		showInfo(a, info)
	}
	return nil
}

func showInfo(a *ui.App, f *read.FileInfo) {
	p := a.Paint(a.Stdout)
	const indent = 13
	line := func(what, format string, args ...any) {
		width := math.MaxInt
		if a.Width() > 0 {
			width = max(a.Width()-indent, indent)
		}
		text := fmt.Sprintf(format, args...)
		lines := []string{text}
		if display.Width(text) > width {
			lines = display.Fold(text, width)
		}
		for _, text := range lines {
			a.Printf("  %s%s\n", p.Dim(fmt.Sprintf("%-11s", what)), text)
			what = ""
		}
	}
	a.Printf("%s\n", p.Head(f.Path))
	stored := "plain text, " + display.Bytes(f.FileSize)
	if f.Compression == "gzip" {
		stored = fmt.Sprintf("gzip, %s, %s of %s text", display.Plural(len(f.Members), "member"), display.Bytes(f.FileSize), display.Bytes(f.Text))
	}
	if f.Part {
		stored = "a part of it, as requested"
	}
	line("format", "%s, %s", f.Dialect, stored)
	if f.Events > 0 {
		line("time", "%s, from %s", display.Micros(float64(f.End-f.Start)), ui.Moment(f.Start))
	}
	line("records", "%s, %s, %s", display.Plural(f.Events, "event"), display.Plural(f.Counters, "sample"), display.Plural(f.Metadata, "metadata record"))
	if f.Program != "" {
		line("program", "%s", f.Program)
	}
	if f.Command != "" {
		line("command", "%s", display.Elide(strings.ReplaceAll(f.Command, ";", " "), 160))
	}
	for i, x := range f.Processes {
		what := "processes"
		if i > 0 {
			what = ""
		}
		if i == maxRows {
			line(what, "and %s more", display.Count(len(f.Processes)-i))
			break
		}
		rank := "rank " + x.Rank
		if x.Rank == "" {
			rank = "rank unknown"
		}
		host := x.Host
		if host == "" {
			host = identity.UnknownHost
		}
		line(what, "%s, pid %d on %s, %s on %s", rank, x.PID, host, display.Plural(x.Events, "event"), display.Plural(x.Lanes, "lane"))
	}
	cats := slices.SortedFunc(maps.Keys(f.Categories), func(x, y string) int {
		if d := f.Categories[y] - f.Categories[x]; d != 0 {
			return int(max(min(d, 1), -1))
		}
		return strings.Compare(x, y)
	})
	for i, cat := range cats {
		what := "categories"
		if i > 0 {
			what = ""
		}
		line(what, "%-16s %12s", cat, display.Count(f.Categories[cat]))
	}
	for i, m := range f.Missing {
		what := "missing"
		if i > 0 {
			what = ""
		}
		line(what, "%s", m)
	}
	if len(f.Missing) == 0 {
		line("missing", "nothing")
	}
}

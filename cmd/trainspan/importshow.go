package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

// showImport prints the report, on standard error if the trace goes to standard
// output: one table, or with --verbose everything known about each file.
func showImport(a *ui.App, report *torch.Report, o *importOptions, written bool) error {
	to := a.Stdout
	if o.output == "-" {
		to = a.Stderr
	}
	switch {
	case o.json:
		return ui.PrintJSON(to, struct {
			Output string `json:"output,omitempty"`
			*torch.Report
		}{o.output, report})
	case o.quiet:
		return nil
	case o.verbose:
		text := display.Paragraphs([]byte(report.String()), a.Columns(to))
		_, _ = to.Write(text) // to remembers its error
	default:
		importTable(a, to, report)
	}
	if written && o.output != "-" {
		var n int64
		for cat, k := range report.Events {
			if cat != dftracer.CatDFTracer {
				n += k
			}
		}
		a.Printf("%s written to %s\n", display.Plural(n, "event"), o.output)
	}
	return nil
}

// importTable writes one row for each file, then the positions of the ranks on
// one axis.
func importTable(a *ui.App, to *display.Writer, r *torch.Report) {
	t := &display.Table{
		Heads: []string{"<file", "rank", "steps", "events", "window", "host", "device", "comm", "exposed", "idle", "clock shifted", "remarks"},
		Empty: true,
		Drop:  []string{"remarks", "host", "comm", "events", "steps", "window"},
	}
	remarks := 0
	for _, f := range r.Files {
		var comm, exposed, idle time.Duration
		for _, d := range f.Devices {
			comm, exposed, idle = comm+d.Comm, exposed+d.ExposedComm, idle+d.Idle
		}
		n := len(f.Warnings) + len(f.Unknown)
		remarks += n
		t.Add(entryName(f.Name), countOrUnknown(f.Rank), countOrUnknown(f.Steps), display.Count(f.Events), span(f.End.Sub(f.Start)), span(f.SelfCPU),
			span(f.Device), span(comm), span(exposed), span(idle), moved(f.ClockOffset), remarksOf(n))
	}
	a.Table(to, t)
	for _, l := range r.Logs {
		_, _ = display.Fprintf(to, "%s: a compile log, %s of %s\n", l.Name, display.Plural(l.Compilations, "compilation"), display.Plural(l.Operators, "operator"))
	}
	for _, g := range r.Ranks {
		rankLines(to, g)
	}
	if s := r.Spans; s != nil {
		_, _ = display.Fprintf(to, "%s sent, down to level %s\n", display.Plural(s.Exported, "span"), s.Used)
	}
	if remarks > 0 {
		_, _ = display.Fprintf(to, "%s about damaged or unknown data: -v prints them; see "+helptopic.Profile+"\n", display.Plural(remarks, "remark"))
	}
}

// rankLines writes how certain the common axis is.
func rankLines(to *display.Writer, g *torch.RankReport) {
	if g.Note != "" {
		_, _ = display.Fprintf(to, "the ranks are not on one time axis: %s\n", g.Note)
		return
	}
	by := map[string]int{}
	var order []string
	for _, c := range g.Confidence {
		if by[c]++; by[c] == 1 {
			order = append(order, c)
		}
	}
	var parts []string
	for _, c := range order {
		parts = append(parts, fmt.Sprintf("%d %s", by[c], c))
	}
	_, _ = display.Fprintf(to, "%s on one time axis by %s in common (%s); their ends differ by at most %s\n",
		display.Plural(len(g.Ranks), "rank"), display.Plural(g.Matched, "collective"), strings.Join(parts, ", "), span(g.EndSpread))
	for i, reason := range g.Reasons {
		if reason != "" && i < len(g.Ranks) {
			_, _ = display.Fprintf(to, "  rank %d: %s\n", g.Ranks[i], reason)
		}
	}
}

// entryName returns the last part of a name, which may be an entry of an
// archive.
func entryName(name string) string {
	if _, entry, ok := strings.Cut(name, ".tar.gz:"); ok {
		name = entry
	}
	return display.Elide(filepath.Base(name), 48)
}

func countOrUnknown(n int64) string {
	if n < 0 {
		return "-"
	}
	return display.Count(n)
}

func remarksOf(n int) string {
	if n == 0 {
		return "-"
	}
	return display.Count(n)
}

func span(d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return display.Duration(int64(d))
}

func moved(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return display.Duration(int64(d))
}

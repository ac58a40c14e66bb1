package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/integrations/pytorch"
	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/layout"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/internal/visible"
)

// showImport prints the report, beside a trace on standard output on standard
// error: one table, or with --verbose everything that is known of each file.
func showImport(a *ui.App, report *pytorch.Report, o *importOptions, written bool) error {
	to := a.Stdout
	if o.output == "-" {
		to = a.Stderr
	}
	switch {
	case o.json:
		return ui.PrintJSON(to, struct {
			Output string `json:"output,omitempty"`
			*pytorch.Report
		}{o.output, report})
	case o.quiet:
		return nil
	case o.verbose:
		text := layout.Paragraphs([]byte(report.String()), a.Columns(to))
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
		a.Printf("%s written to %s\n", human.Plural(n, "event"), o.output)
	}
	return nil
}

// importTable writes one row for each file, then how the ranks lie on one axis.
func importTable(a *ui.App, to *visible.Writer, r *pytorch.Report) {
	t := &layout.Table{
		Heads: []string{"<file", "rank", "steps", "events", "window", "host", "device", "comm", "exposed", "idle", "clock moved", "remarks"},
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
		t.Add(entryName(f.Name), known(f.Rank), known(f.Steps), human.Count(f.Events), span(f.End.Sub(f.Start)), span(f.SelfCPU),
			span(f.Device), span(comm), span(exposed), span(idle), moved(f.ClockOffset), remarksOf(n))
	}
	a.Table(to, t)
	for _, l := range r.Logs {
		_, _ = visible.Fprintf(to, "%s: a compile log, %s of %s\n", l.Name, human.Plural(l.Compilations, "compilation"), human.Plural(l.Operators, "operator"))
	}
	for _, g := range r.Ranks {
		rankLines(to, g)
	}
	if s := r.Spans; s != nil {
		_, _ = visible.Fprintf(to, "%s sent, down to level %s\n", human.Plural(s.Exported, "span"), s.Used)
	}
	if remarks > 0 {
		_, _ = visible.Fprintf(to, "%s about what is damaged, or cannot be known: -v prints them; see "+see.Profile+"\n", human.Plural(remarks, "remark"))
	}
}

// rankLines says how sure the common axis is.
func rankLines(to *visible.Writer, g *pytorch.RankReport) {
	if g.Note != "" {
		_, _ = visible.Fprintf(to, "ranks are not on one axis: %s\n", g.Note)
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
	_, _ = visible.Fprintf(to, "%s on one axis by %s in common (%s); their ends differ by %s at most\n",
		human.Plural(len(g.Ranks), "rank"), human.Plural(g.Matched, "collective"), strings.Join(parts, ", "), span(g.EndSpread))
	for i, reason := range g.Reasons {
		if reason != "" && i < len(g.Ranks) {
			_, _ = visible.Fprintf(to, "  rank %d: %s\n", g.Ranks[i], reason)
		}
	}
}

// entryName is the last part of a name, which may be an entry of an archive.
func entryName(name string) string {
	if _, entry, ok := strings.Cut(name, ".tar.gz:"); ok {
		name = entry
	}
	return layout.Elide(filepath.Base(name), 48)
}

func known(n int64) string {
	if n < 0 {
		return "-"
	}
	return human.Count(n)
}

func remarksOf(n int) string {
	if n == 0 {
		return "-"
	}
	return human.Count(n)
}

func span(d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return human.Duration(int64(d))
}

func moved(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return human.Duration(int64(d))
}

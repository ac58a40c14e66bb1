package ui

import (
	"math"
	"strings"

	"github.com/trainspan/trainspan/internal/visible"
	"github.com/trainspan/trainspan/report"
)

// Screen writes the first screen of a report, or with full all its tables, for a
// terminal of so many columns; 0 is any number. The first paragraph has the color of
// what it reports.
func Screen(to *visible.Writer, p Painter, columns int, r *report.Report, full bool) {
	if columns <= 0 {
		columns = math.MaxInt
	}
	lines := report.First(r, columns)
	if full {
		lines = report.Screen(r, columns)
	}
	color := Painter.Amber
	switch v := &r.Verdict; {
	case strings.HasPrefix(v.Outcome, "FAILED"), v.Outcome == "KILLED", v.Outcome == "HUNG", v.Outcome == "OUT OF MEMORY":
		color = Painter.Bad
	case v.Diagnosis == "FINE":
		color = Painter.Good
	}
	for _, l := range lines {
		if l == "" {
			color = nil
		}
		text := visible.Own(visible.Text(l))
		if color != nil {
			text = color(p, l)
		}
		_, _ = visible.Fprintf(to, "%s\n", text) // to remembers its error
	}
}

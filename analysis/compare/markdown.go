package compare

import (
	"fmt"
	"strings"

	"github.com/trainspan/trainspan/internal/human"
	"github.com/trainspan/trainspan/internal/visible"
)

func (iv Interval) String() string {
	return fmt.Sprintf("%s (%s … %s)", human.Change(iv.Change), human.Change(iv.Low), human.Change(iv.High))
}

func (r *Result) describe() {
	by := r.Median
	what := "median step"
	if r.Kind == Slower && r.Mean.Change > 2*max(r.Median.Change, 0) || r.Kind == Faster && r.Mean.Change < 2*min(r.Median.Change, 0) {
		by, what = r.Mean, "mean step, which holds pauses and checkpoints"
	}
	switch r.Kind {
	case Slower, Faster:
		r.Sentence = fmt.Sprintf("%s is %s than %s: %s by the %s.", r.New, r.Kind, r.Base, by, what)
	case NoDifference:
		r.Sentence = fmt.Sprintf("%s takes as long as %s: %s.", r.New, r.Base, by)
	case Inconclusive:
		r.Sentence = fmt.Sprintf("It cannot be said whether %s is slower than %s: %s.", r.New, r.Base, by)
	case NotComparable:
		r.Sentence = fmt.Sprintf("%s and %s cannot be compared: %s.", r.New, r.Base, strings.Join(r.Reasons, "; "))
	}
}

// Markdown gives the result as a table for a pull request.
func (r *Result) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** %s\n", strings.ReplaceAll(string(r.Kind), "_", " "), visible.Markdown(r.Sentence))
	if r.Kind == NotComparable {
		return b.String()
	}
	b.WriteString("\n| | base | new | change (99 % interval) |\n|---|---:|---:|---:|\n")
	fmt.Fprintf(&b, "| median step | %.2f ms | %.2f ms | %s |\n", r.BaseMS, r.NewMS, r.Median)
	fmt.Fprintf(&b, "| mean step | | | %s |\n", r.Mean)
	for _, p := range r.Phases {
		sure := ""
		if !p.Sure {
			sure = ", may be chance"
		}
		fmt.Fprintf(&b, "| %s | %.2f ms | %.2f ms | %s of a step%s |\n", visible.Markdown(p.Phase), p.Base, p.New, p.Change, sure)
	}
	if r.Goodput != nil {
		fmt.Fprintf(&b, "| goodput | %s | %s | |\n", human.Percent(r.Goodput[0]), human.Percent(r.Goodput[1]))
	}
	fmt.Fprintf(&b, "| steps | %d | %d | |\n", r.Steps[0], r.Steps[1])
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\n%s\n", visible.Markdown(n))
	}
	return b.String()
}

package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/platform/display"
)

func (iv Interval) String() string {
	return fmt.Sprintf("%s (%s … %s)", display.Change(iv.Change), display.Change(iv.Low), display.Change(iv.High))
}

func (r *Result) describe() {
	by := r.Median
	what := "median step"
	if r.byMean() {
		by, what = r.Mean, "mean step, which includes pauses and checkpoints"
	}
	is, takes := "is", "takes"
	if r.NewRuns > 1 {
		is, takes = "are", "take"
	}
	switch r.Kind {
	case Slower, Faster:
		r.Sentence = fmt.Sprintf("%s %s %s than %s: %s by the %s", r.New, is, r.Kind, r.Base, by, what)
		switch r.Evidence {
		case twoRuns:
			if r.Paired {
				r.Sentence += fmt.Sprintf(", in %d pairs of alternating runs.", r.Runs)
			} else {
				r.Sentence += fmt.Sprintf(", with %d runs of one and %d of the other.", r.Runs, r.NewRuns)
			}
		case sameHosts:
			r.Sentence += ", on the same hosts."
		default:
			r.Sentence = "These runs differ: " + r.Sentence + map[string]string{otherHosts: ", on other hosts", unknownHosts: "; their hosts are not on record"}[r.Evidence] +
				". To attribute this to your change, compare two or more runs of each, or runs on the same hosts."
		}
		if text := r.below(); text != "" {
			r.Notes = append(r.Notes, text)
		}
	case NoDifference:
		r.Sentence = fmt.Sprintf("%s %s as long as %s: %s.", r.New, takes, r.Base, by)
	case Inconclusive:
		if r.BaseMS == 0 {
			r.Sentence = fmt.Sprintf("Cannot decide whether %s %s slower than %s: this needs %d steps of each.", r.New, is, r.Base, minWaves)
			return
		}
		r.Sentence = fmt.Sprintf("Cannot decide whether %s %s slower than %s: %s.", r.New, is, r.Base, by)
	case NotComparable:
		r.Sentence = fmt.Sprintf("%s and %s cannot be compared: %s.", r.New, r.Base, strings.Join(r.Reasons, "; "))
	}
}

// tellFindings adds notes with the findings about the steps of the runs if they
// differ. A run without sufficient records has no finding, which does not prove
// that it is fine.
func (r *Result) tellFindings(base, next *Run) {
	a, b := base.Finding, next.Finding
	r.BaseFinding, r.NewFinding = a, b
	tell := func(name string, f *finding.Finding) string {
		if f == nil || !f.Kind.IsOfSteps() {
			return name + ": no finding about its steps"
		}
		return name + ": " + f.Title() + ". " + strings.TrimSuffix(f.Sentence(), ".")
	}
	of := func(f *finding.Finding) string {
		if f == nil || !f.Kind.IsOfSteps() {
			return ""
		}
		return f.Name()
	}
	if of(a) == of(b) {
		return
	}
	r.Notes = append(r.Notes, tell(base.Name, a), tell(next.Name, b))
}

// below returns the reason why a slower run is not a failure.
func (r *Result) below() string {
	if r.Kind != Slower || r.fails() {
		return ""
	}
	least := fmt.Sprintf("%.3g %%", 100*r.failOver)
	if r.floor > 0 {
		least += fmt.Sprintf(" and %.3g ms of a step", r.floor)
	}
	return "not a failure: the limit is " + least
}

// phaseName returns the displayed name of a phase that was most of the time the given work, if it is not empty.
func phaseName(phase, work string) string { return cmp.Or(work, finding.Word(phase)) }

// Name returns the displayed name of the phase.
func (p *PhaseChange) Name() string { return phaseName(p.Phase, p.Work) }

// Words returns the description of a part.
func (p *Part) Words() string {
	switch p.Kind {
	case partPhase:
		name := phaseName(p.Phase, p.Work)
		if len(p.Ranks) > 0 {
			return fmt.Sprintf("%s of rank %s", name, strings.Trim(fmt.Sprint(p.Ranks), "[]"))
		}
		return name
	case partTransfer:
		if p.Group != "" {
			return "transfers of group " + p.Group
		}
		return "transfers"
	case PartInSteps:
		return "steps, not divided into phases"
	case partStartUp:
		return "start"
	case partLost:
		return "lost steps"
	case partDown:
		return "down"
	}
	return strings.ReplaceAll(p.Kind, "_", " ")
}

// Brief returns the verdict on one line, for the end of a run; empty if nothing
// is significant.
func (r *Result) Brief() string {
	by := r.Median
	if r.byMean() {
		by = r.Mean
	}
	switch r.Kind {
	case NoDifference:
		return fmt.Sprintf("with %s: no difference in step time (%s … %s)", r.Base, display.Change(r.Median.Low), display.Change(r.Median.High))
	case Slower, Faster:
		text := fmt.Sprintf("with %s: steps are %s %s (%s … %s)", r.Base, display.Percent(math.Abs(by.Change)), r.Kind, display.Change(by.Low), display.Change(by.High))
		for i := range r.Parts {
			if p := &r.Parts[i]; p.inSteps() && p.Kind != PartInSteps && 2*p.StepMS/r.StepMS >= 1 && !p.MayBeChance() {
				return text + fmt.Sprintf(": %s, %s a step", p.Words(), p.Step())
			}
		}
		return text
	}
	return ""
}

// Markdown returns the result as a table for a pull request.
func (r *Result) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** %s\n", strings.ReplaceAll(string(r.Kind), "_", " "), display.Markdown(r.Sentence))
	if r.Kind == NotComparable {
		return b.String()
	}
	if r.BaseMS > 0 {
		b.WriteString("\n| | base | new | change (98 % interval) |\n|---|---:|---:|---:|\n")
		fmt.Fprintf(&b, "| median step | %.2f ms | %.2f ms | %s |\n", r.BaseMS, r.NewMS, r.Median)
		fmt.Fprintf(&b, "| mean step | | | %s |\n", r.Mean)
	}
	for _, p := range r.Phases {
		sure := ""
		if !p.Sure {
			sure = ", may be chance"
		}
		fmt.Fprintf(&b, "| %s | %.2f ms | %.2f ms | %s of a step%s |\n", display.Markdown(p.Name()), p.Base, p.New, p.Change, sure)
	}
	if t := r.RunTime; t != nil {
		fmt.Fprintf(&b, "| run | %.1f s | %.1f s | %s |\n", t[0], t[1], display.Change(t[1]/t[0]-1))
	}
	if r.Goodput != nil {
		fmt.Fprintf(&b, "| in steps | %s | %s | |\n", display.Percent(r.Goodput[0]), display.Percent(r.Goodput[1]))
	}
	if r.BaseMS > 0 {
		fmt.Fprintf(&b, "| steps | %d | %d | |\n", r.Steps[0], r.Steps[1])
	}
	if len(r.Parts) > 1 {
		fmt.Fprintf(&b, "\n| part of the difference | of a step | of the run |\n|---|---:|---:|\n")
		for i := range r.Parts {
			p := &r.Parts[i]
			fmt.Fprintf(&b, "| %s | %s | %s |\n", display.Markdown(p.Words()), p.Step(), p.Run())
		}
	}
	if len(r.Account) > 0 {
		b.WriteString("\n| time of a rank | base | new | difference |\n|---|---:|---:|---:|\n")
		for _, c := range r.Rows(MostAccount) {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", display.Markdown(c.Name), seconds(c.Base), seconds(c.New), c.Difference())
		}
	}
	if p := r.Profile; p != nil {
		b.WriteString("\n| of a step | base | new | difference |\n|---|---:|---:|---:|\n")
		for _, list := range [...][]NamedChange{p.PartsInWords(), p.Operators, p.Kernels} {
			for _, c := range list {
				fmt.Fprintf(&b, "| %s | %.3f ms | %.3f ms | %s |\n", display.Markdown(c.Name), c.Base, c.New, c.Difference())
			}
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\n%s\n", display.Markdown(n))
	}
	return b.String()
}

// MostAccount is the number of goodput shares in tables.
const MostAccount = 8

// Step returns what a part adds to a step, empty for a part outside of steps.
func (p *Part) Step() string {
	if !p.inSteps() {
		return ""
	}
	text := signed(p.StepMS, 2) + " ms"
	if p.bounded() {
		text += fmt.Sprintf(" (%s … %s)", signed(p.LowMS, 2), signed(p.HighMS, 2))
	}
	if p.MayBeChance() {
		text += ", may be chance"
	}
	return text
}

// Run returns what a part adds to the run, empty if unknown.
func (p *Part) Run() string {
	if p.Seconds == nil {
		return ""
	}
	return signedSeconds(*p.Seconds)
}

// Difference returns the signed difference of a share of the account.
func (c *AccountChange) Difference() string { return signedSeconds(c.New - c.Base) }

func seconds(s float64) string { return display.Duration(int64(s * 1e9)) }

// signedSeconds formats a difference of times, without a sign if it is printed as 0.
func signedSeconds(s float64) string {
	text := seconds(math.Abs(s))
	if strings.Trim(text, "0. µms") == "" {
		return text
	}
	if s < 0 {
		return "-" + text
	}
	return "+" + text
}

// Of returns the change of a phase and its interval in milliseconds of a step.
func (p *PhaseChange) Of() (change, interval string) {
	ms := func(of float64) string { return signed(of*p.stepMS, 2) }
	return ms(p.Change.Change) + " ms", ms(p.Change.Low) + " … " + ms(p.Change.High) + " ms"
}

// signed formats a number with its sign, without a sign if it is printed as 0.
func signed(v float64, digits int) string {
	text := fmt.Sprintf("%+.*f", digits, v)
	if strings.Trim(text, "+-0.") == "" {
		return text[1:]
	}
	return text
}

// Difference returns the signed difference.
func (c *NamedChange) Difference() string { return signed(c.New-c.Base, 3) + " ms" }

// PartsInWords returns the parts with the names that the report of a profile shows.
func (p *ProfileChange) PartsInWords() []NamedChange {
	out := slices.Clone(p.Parts)
	for i := range out {
		for part := range profile.Part(profile.Parts) {
			if part.String() == p.Parts[i].Name {
				out[i].Name = part.Words(p.Device)
			}
		}
	}
	return out
}

package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// Completed is the outcome of a [Verdict] for a job that ended well.
const Completed = "COMPLETED"

// outcomeWords returns how the last attempt ended, in capitals.
func (r *Report) outcomeWords() string {
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].Running && (r.Outcome == nil || r.Outcome.How == job.Unfinished) {
		return "RUNNING"
	}
	switch o := r.Outcome; {
	case r.Profile != nil:
		return "PROFILE"
	case o == nil && len(r.Attempts) > 0 && r.Attempts[len(r.Attempts)-1].Ended:
		return Completed
	case o == nil:
		return "END UNKNOWN"
	default:
		return wordsOf(o)
	}
}

// wordsOf returns how something ended, in capitals.
func wordsOf(o *job.Outcome) string {
	switch {
	case o.How == job.Lost:
		return "END UNKNOWN"
	case o.How == job.Unfinished:
		return "RUNNING"
	case o.How == job.Failed && o.Status != nil && o.Rank != nil:
		return fmt.Sprintf("FAILED with status %d, rank %d", *o.Status, *o.Rank)
	case o.How == job.Failed && o.Rank != nil:
		return fmt.Sprintf("FAILED, rank %d", *o.Rank)
	case o.How == job.Failed && o.Status != nil:
		return fmt.Sprintf("FAILED with status %d", *o.Status)
	case o.How == job.Stopped:
		return "STOPPED" + strings.TrimPrefix(o.Text, "stopped")
	default:
		return strings.ToUpper(strings.ReplaceAll(string(o.How), "_", " "))
	}
}

// screenColumns and screenLines limit the first screen.
const (
	screenColumns = 80
	screenLines   = 20 // most jobs need 16
)

// first adds the first screen: the job and how it ended, the diagnosis and the next action,
// where the time went, the table that proves it, and what is not known.
func (s *screen) first(r *Report) {
	wide := s.columns
	s.columns = min(wide, screenColumns)
	defer func() { s.columns = wide }()
	v := &r.Verdict
	s.plain(r.describeJob())
	label, end, source := r.ending()
	s.labelled(label, end)
	if source != "" {
		s.labelledAt("", display.Elide(display.Text(source), s.columns-labelWidth))
	}
	for _, text := range r.InjectedSentences() {
		s.labelled("Injected", text)
	}
	if label, why := r.diagnosis(); label != "" {
		s.labelled(label, why)
	}
	for i, text := range r.machineSentences() {
		label := "Machine"
		if i > 0 {
			label = ""
		}
		s.labelledAt(label, text)
	}
	if v.Rank != nil {
		for i := range v.Rank.Stacks {
			s.labelled("Stack", sentence(r.stackSentence(&v.Rank.Stacks[i])))
		}
		for _, text := range v.Rank.Witness {
			s.labelled("Seen", sentence(text))
		}
	}
	needed := v.kind == finding.Unknown && v.Rank != nil && len(v.Next) > 0 && v.Next[0] == v.Rank.Next // the reason already contains it
	if len(v.Next) > 0 && !needed && (v.kind != finding.Fine || afterwards(r.Outcome) != "") {
		s.labelled("Next", sentence(v.Next[0]))
	}
	if r.endedBeforeSteps() {
		s.labelled("Reached", strings.TrimPrefix(r.startSentence()+"; no training step is on record", "; "))
	}
	s.time(r)
	s.details(r)
}

// labelBefore is the label of what is known of a job without a problem until it ended badly.
const labelBefore = "Before"

// diagnosis returns the diagnosis and its text as they are displayed, or "" if the way in which the job ended says
// more.
func (r *Report) diagnosis() (label, why string) {
	v := &r.Verdict
	_, end, _ := r.ending()
	switch {
	case r.endedBeforeSteps():
		return "", ""
	case end != "" && v.kind == finding.Fine:
		return labelBefore, v.Why + " No problem found."
	case end != "" && (v.kind == finding.Other || v.kind == finding.StartUp) && r.Outcome.How != job.Lost: // they do not explain a failure
		return "", ""
	}
	return v.Diagnosis, v.Why
}

// ending returns details of how the job ended, if the outcome needs any: a label, a text and, for
// an exception, the line of the program that raised it.
func (r *Report) ending() (label, text, source string) {
	if r.Outcome == nil || r.Profile != nil {
		return "", "", ""
	}
	return describeEnd(r.Outcome)
}

// describeEnd is [Report.ending] for an outcome.
func describeEnd(o *job.Outcome) (label, text, source string) {
	if o.How == job.Completed || o.How == job.Unfinished {
		return "", "", ""
	}
	if o.How != job.Failed || o.Error == "" {
		return "End", o.Sentence(0), ""
	}
	text = o.Error
	if o.Ranks > 1 {
		text = strings.TrimRight(text, ".…") + fmt.Sprintf(" (the first of %d ranks that failed)", o.Ranks)
	}
	if o.ErrorAt != "" {
		source = strings.TrimSuffix(o.ErrorAt+": "+o.ErrorCode, ": ")
	}
	return "Error", text, source
}

// endedBeforeSteps reports whether the job ended badly before a training step was recorded.
func (r *Report) endedBeforeSteps() bool {
	return r.Outcome != nil && r.Outcome.How.Bad() && r.Profile == nil && r.Goodput == nil && r.Steps.Count == 0
}

// describeJob returns the name of the job, how it ended, its size and its duration.
func (r *Report) describeJob() string {
	var parts []string
	if r.Name != "" {
		parts = append(parts, r.title())
	}
	parts = append(parts, r.describeOutcome())
	if n := len(r.Ranks); n > 0 {
		size := display.Plural(n, "rank")
		if hosts := r.hosts(); hosts > 0 {
			size += ", " + display.Plural(hosts, "host")
		}
		parts = append(parts, size)
	}
	if p := r.Profile; p != nil && r.Steps.Count > 0 {
		parts = append(parts, display.Plural(r.Steps.Count, "step"))
	}
	if r.Ledger.Wall > 0 {
		parts = append(parts, display.Duration(r.Ledger.Wall))
	}
	return strings.Join(parts, " · ")
}

// describeOutcome returns how the job ended, and in which attempt.
func (r *Report) describeOutcome() string {
	end, n := r.Verdict.Outcome, len(r.Attempts)
	if n > 1 && end == Completed {
		end += " after " + display.Plural(n-1, "restart")
	} else if n > 1 && r.Attempts[n-1].Number > 0 {
		end += " in attempt " + strconv.Itoa(r.Attempts[n-1].Number)
	}
	if !r.endedBeforeSteps() {
		return end
	} else if n < 2 {
		return end + " before the first step"
	}
	return end + ", before the first step"
}

// title returns a short name of the job: the name of the run, or else the last element of its path.
func (r *Report) title() string {
	if r.run != "" {
		return r.run
	}
	var out []string
	for _, path := range strings.Fields(r.Name) {
		out = append(out, filepath.Base(path))
	}
	const most = 2
	if n := len(out); n > most {
		out = append(out[:1], fmt.Sprintf("and %d more", n-1))
	}
	return strings.Join(out, " ")
}

func sentence(text string) string {
	if text == "" {
		return ""
	}
	return finding.Capital(strings.TrimSuffix(text, ".")) + "."
}

// shades holds the characters that draw the parts of the bar, the largest part first.
const shades = "█▓▒░-="

// time adds a bar of all time, its legend, and the parts of a step.
func (s *screen) time(r *Report) {
	list := condense(r.Shares, utf8.RuneCountInString(shades))
	label := "Rank time"
	if r.Profile != nil {
		label = "Step time"
	}
	if len(list) > 0 {
		width := min(s.columns-labelWidth, 60)
		var line strings.Builder
		var legend []string
		at, sum := 0, 0.0
		for i, shade := range []rune(shades)[:len(list)] {
			sum += list[i].Share.Share
			end := min(int(sum*float64(width)+0.5), width)
			if i == len(list)-1 {
				end = width
			}
			line.WriteString(strings.Repeat(string(shade), max(end-at, 0)))
			at = max(at, end)
			percent := strconv.Itoa(list[i].Percent)
			if percent == "0" {
				percent = "< 1"
			}
			legend = append(legend, fmt.Sprintf("%c %s %s", shade, display.Text(list[i].Name), percent))
		}
		legend[0] += " %"
		s.lines = append(s.lines, "")
		s.labelled(label, line.String())
		for _, l := range display.Join(legend, "  ", s.columns-labelWidth) {
			s.lines = append(s.lines, strings.Repeat(" ", labelWidth)+l)
		}
	}
	s.facts(r.stepFacts())
}

// fact is a labelled sentence of the first screen and of the page.
type fact struct{ Label, Text string }

// facts adds facts, without those that have no text.
func (s *screen) facts(list []fact) {
	for _, f := range list {
		s.labelled(f.Label, f.Text)
	}
}

// stepFacts describes the parts of a step, and the code and the data of the program.
func (r *Report) stepFacts() []fact {
	return []fact{{"Step", r.stepSentence()}, {"Updates", r.updateSentence()}, {"Code", r.codeSentence()}, {"Data", r.dataSentence()}}
}

// missingFacts describes the files that are missing.
func (r *Report) missingFacts() (list []fact) {
	for _, text := range r.Quality.Missing {
		list = append(list, fact{"Missing", sentence(text)})
	}
	return list
}

// runFacts describes the utilization of the devices, the cost of restarts, and the start of a run whose diagnosis is not about it.
func (r *Report) runFacts() []fact {
	list := []fact{{"MFU", r.Limits.sentence()}, {"Restart", r.disruptions()}}
	if k := r.Verdict.kind; k == finding.Fine || k != finding.StartUp && r.Profile == nil && r.startIsLong() {
		list = append(list, fact{"Start", r.startSentence()})
	}
	return list
}

// stepSentence describes the parts of a step: of the affected steps of the rank that the finding names, or
// else the mean over all steps and ranks.
func (r *Report) stepSentence() string {
	v := &r.Verdict
	if p := v.Proof; r.Profile != nil || r.Steps.Compared == 0 || p != nil && p.OfRun {
		return ""
	}
	var parts []finding.Part
	sum, head := int64(0), ""
	add := func(name string, ms float64) {
		if ms > 0 {
			parts = append(parts, finding.Part{Name: name, Time: int64(ms * 1e6)})
		}
	}
	if f := v.Finding; f != nil && len(f.Ranks) == 1 && len(f.Step) > 0 {
		parts = r.nameHostWork(f.Step, f.Ranks[0])
		if head = fmt.Sprintf(" on rank %d: ", f.Ranks[0]); f.Evidence.Affected < f.Evidence.Judged {
			head = fmt.Sprintf(" on rank %d in these %s: ", f.Ranks[0], display.Plural(f.Evidence.Affected, "step"))
		}
	} else {
		phases, waits, transfers := r.Steps.Phases, r.Steps.Wait, r.Steps.Transfer
		if t := r.Steps.typical; t != nil {
			w, c := t[partWait], t[communication]
			phases, waits, transfers = t, &w, &c
		}
		for _, p := range straggler.Phases() {
			add(r.phaseWord(p), phases[p.String()])
		}
		if len(parts) == 0 {
			return ""
		}
		if r.Steps.typical == nil { // the long steps have most of this work
			parts = r.nameHostWork(parts, -1)
		}
		if waits != nil && transfers != nil {
			add("waits", *waits)
			if r.mayWaitInCollectives() {
				add("collectives and waits", *transfers)
			} else {
				add("collectives", *transfers)
			}
		}
		slices.SortStableFunc(parts, func(a, b finding.Part) int { return cmp.Compare(b.Time, a.Time) })
		head = " in the mean: "
		if n := r.Steps.long; n > 0 {
			head = fmt.Sprintf(" in the mean, without %s: ", display.Plural(n, "long step"))
		}
	}
	for _, p := range parts {
		sum += p.Time
	}
	ms := func(ns int64) string { return display.Milliseconds(float64(ns) / 1e6) }
	unit := " ms" // parts in the unit of the sum have none
	if !strings.HasSuffix(ms(sum), unit) {
		unit = ""
	}
	const most = 3
	var text []string
	for _, p := range parts[:min(len(parts), most)] {
		if p.Time >= sum/200 {
			text = append(text, p.Name+" "+strings.TrimSuffix(ms(p.Time), unit))
		}
	}
	return ms(sum) + head + strings.Join(text, ", ")
}

// hostWork returns the work in the time of the host's code that belongs to no phase, of one rank or, if rank is
// -1, of all ranks: evaluations and custom spans between the steps, recompilations, the computation of
// programs whose spans do not tell forward from backward, as those of JAX, and the rest, which is other code.
// Each has the name of its share.
func (r *Report) hostWork(rank int) (work []finding.Part, all int64) {
	of := make(map[string]int64)
	split := slices.ContainsFunc([]straggler.Phase{straggler.Forward, straggler.Backward, straggler.Optimizer}, func(p straggler.Phase) bool { return r.Steps.Phases[p.String()] > 0 })
	for i := range r.Ledger.Ranks {
		k := &r.Ledger.Ranks[i]
		if rank >= 0 && k.Rank != rank {
			continue
		}
		for c, ns := range k.Categories {
			if c.IsCustom() || c == account.Validation || c == account.Testing {
				of[PartName(string(c))] += ns
			}
		}
		parts := r.partsInSteps(k)
		of[PartName(partRecompile)] += parts[partRecompile]
		of[PartName(string(account.OtherCode))] += parts[string(account.OtherCode)]
		if !split {
			of[string(account.Compute)] += parts[string(account.Compute)]
		}
	}
	for name, ns := range of {
		if ns > 0 {
			work, all = append(work, finding.Part{Name: name, Time: ns}), all+ns
		}
	}
	slices.SortFunc(work, func(a, b finding.Part) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name)) })
	return work, all
}

// phaseWord returns the name of a phase. The time in no phase is other code only if the phases are on record.
func (r *Report) phaseWord(p straggler.Phase) string {
	parts := r.Ledger.ProductiveParts
	if p == straggler.Host && !r.Steps.Device && parts[account.StepUnsplit] > parts[account.OtherCode]+parts[account.Compute] {
		return finding.NotSplit
	}
	return finding.Word(p.String())
}

// mostHostWork names the work that most of the time of the host's code was that belongs to no phase, as the
// screen of the report does, or "" if that is other code.
func (r *Report) mostHostWork() string {
	work, all := r.hostWork(-1)
	other := PartName(string(account.OtherCode))
	var names []string
	sum := int64(0)
	for _, w := range work {
		if float64(sum) < mostPart*float64(all) {
			names, sum = append(names, w.Name), sum+w.Time
		}
	}
	if len(names) == 0 || names[0] == other {
		if word := r.phaseWord(straggler.Host); word != other {
			return word
		}
		return ""
	}
	return strings.Join(names, ", ")
}

// nameHostWork divides the part of a step that belongs to no phase in proportion to the work that the account has
// for it, of one rank or, if rank is -1, of all.
func (r *Report) nameHostWork(parts []finding.Part, rank int) []finding.Part {
	host := r.phaseWord(straggler.Host)
	i := slices.IndexFunc(parts, func(p finding.Part) bool { return p.Name == host || p.Name == finding.Word(straggler.Host.String()) })
	if i < 0 {
		return parts
	}
	out := slices.Clone(parts)
	work, all := r.hostWork(rank)
	if all == 0 || r.Steps.Device {
		out[i].Name = host
		return out
	}
	out = slices.Delete(out, i, i+1)
	for _, w := range work {
		out = append(out, finding.Part{Name: w.Name, Time: int64(float64(parts[i].Time) * float64(w.Time) / float64(all))})
	}
	slices.SortStableFunc(out, func(a, b finding.Part) int { return cmp.Compare(b.Time, a.Time) })
	return out
}

// details adds the proof of the diagnosis, the cost of restarts, the start of a run without a
// problem, what is not known, and the second-best fix.
func (s *screen) details(r *Report) {
	d := &screen{columns: s.columns}
	v := &r.Verdict
	d.proof(v.Proof)
	d.facts(r.missingFacts())
	table := len(d.lines) + 1 // the table is never truncated
	others := ": --full"
	if s.all {
		others = " below"
	}
	d.facts(slices.Concat(r.runFacts(), r.resourceFacts(others)))
	for i, text := range v.NotKnown {
		label := "Not known"
		if i > 0 {
			label = ""
		}
		d.labelledAt(label, text)
	}
	remarks := slices.Clone(r.Quality.Remarks)
	for _, f := range r.Quality.Skipped {
		remarks = append(remarks, "left out: "+f)
	}
	if r.Quality.RanksInvented { // its remark is the first one
		d.labelled("Note", sentence(remarks[0]))
		remarks = remarks[1:]
	}
	note := ""
	doubts := slices.DeleteFunc(slices.Clone(v.Doubts), func(text string) bool { return slices.Contains(r.Quality.Missing, text) })
	switch {
	case len(doubts) > 0:
		note = sentence("confidence " + v.Confidence + ": " + strings.Join(doubts, "; "))
	case len(remarks) > 0:
		note, remarks = sentence(display.Elide(display.Text(remarks[0]), 2*(s.columns-labelWidth))), remarks[1:]
	}
	if len(remarks) > 0 && !s.all {
		note += " " + display.Plural(len(remarks), "remark") + " on the data: --full."
	}
	d.labelled("Note", note)
	if v.Rank != nil && v.Rank.Second != "" && v.Rank.Kind.IsOfSteps() {
		d.labelled("Also", v.Rank.Second)
	}
	const most = 10
	room := most
	if s.columns == screenColumns {
		room = max(screenLines-len(s.lines)-1, table)
	}
	steps := &screen{columns: s.columns}
	if st := &r.Steps; st.Compared > 0 && v.kind != finding.Fine && !s.all {
		ms := display.Milliseconds
		steps.labelled("Steps", fmt.Sprintf("%s, median %s, 99 %% below %s, longest %s (step %d)", display.Count(st.Count), ms(st.Median), ms(st.P99), ms(st.Max), st.MaxAt))
	}
	if len(d.lines)+len(steps.lines) <= room { // the least important lines
		d.lines = append(d.lines, steps.lines...)
	}
	if len(d.lines) > room && !s.all {
		d.lines = append(d.lines[:room-1], strings.Repeat(" ", labelWidth)+"… more with --full")
	}
	if len(d.lines) > 0 {
		s.lines = append(append(s.lines, ""), d.lines...)
	}
}

// proof adds the table that proves the diagnosis.
func (s *screen) proof(p *finding.Proof) {
	if p == nil {
		return
	}
	t := &display.Table{Heads: []string{"rank"}}
	late := false
	for i := range p.Rows {
		late = late || p.Rows[i].Late != ""
	}
	for i, c := range p.Columns {
		if t.Heads = append(t.Heads, c); i > 0 && i < len(p.Columns)-1 {
			t.Drop = append(t.Drop, c)
		}
	}
	if late {
		t.Heads = append(t.Heads, "<late")
	}
	for i := range p.Rows {
		row := []string{p.Rows[i].Name}
		for _, ns := range p.Rows[i].Times {
			row = append(row, p.Written(ns))
		}
		if late {
			row = append(row, p.Rows[i].Late)
		}
		t.Add(row...)
	}
	s.table(t)
}

// startSentence returns how long the start of a run took, and its largest parts.
func (r *Report) startSentence() string {
	ranks := int64(max(len(r.Ranks), 1))
	var parts []string
	losses, all := r.startParts()
	for _, l := range losses[:min(len(losses), 4)] {
		if float64(l.Time) >= worth*float64(all) {
			parts = append(parts, startName(l.Category)+" "+display.Duration(l.Time/ranks))
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %s", display.Duration(all/ranks), strings.Join(parts, ", "))
}

// notKnown returns what the records do not show.
func (r *Report) notKnown() (out []string) {
	v := r.Verdict.Rank
	// A wait in a profile names a rank, and says what it does not know about it.
	if v != nil && (v.Kind == finding.Unknown || v.Suspected != nil) && r.Verdict.kind != finding.Unknown && len(r.Ranks) > 1 && (r.Profile == nil || r.Verdict.kind != finding.Wait) {
		out = append(out, v.NotKnown())
	}
	if f := r.Verdict.Finding; f != nil {
		out = append(out, f.NotKnown...)
		if f.Kind.IsOfSteps() && v != nil && v.Coverage.Forgotten {
			out = append(out, fmt.Sprintf("what earlier steps would gain: only the last %d are compared", v.Coverage.Steps))
		}
	}
	if text := r.causeNotKnown(); text != "" {
		out = append(out, text)
	}
	if r.Profile != nil || r.Goodput == nil {
		return out
	}
	ranks := int64(max(len(r.Ranks), 1))
	parts := r.Ledger.ProductiveParts
	if ns := parts[account.StepUnsplit]; !r.measured() && ns > 0 {
		out = append(out, fmt.Sprintf("what %s of each rank's steps went to: their spans do not divide them", display.Duration(ns/ranks)))
	}
	if ns := r.Ledger.Unmatched; float64(ns) >= 0.02*float64(r.Ledger.Categories.Sum()) {
		out = append(out, fmt.Sprintf("how much of %s in collectives of each rank is waiting: not all members are on record", display.Duration(ns/ranks)))
	}
	if r.Verdict.kind == finding.Fine && !r.Steps.Device {
		out = append(out, "whether kernels are efficient: no times of devices are on record")
	}
	return out
}

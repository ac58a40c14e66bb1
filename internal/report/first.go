package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/profile"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// notable is the share of the time from which on a loss of the ledger is the diagnosis,
// where nothing was found in the steps.
const notable = 0.10

// words of a diagnosis, by kind of finding.
var diagnoses = map[straggler.Kind]string{
	straggler.SlowRanks: "SLOW RANK", straggler.Imbalance: "IMBALANCE", straggler.InputSlow: "INPUT", straggler.SlowTransfer: "COMMUNICATION",
	straggler.Drift: "DRIFT", straggler.Hang: "HANG",
}

// The diagnoses that are no finding of package straggler.
const (
	diagnosisFine    = "FINE"
	diagnosisUnknown = "UNKNOWN"
	diagnosisOther   = "OTHER"
)

// diagnosisOf is the diagnosis that a loss belongs to.
func diagnosisOf(c account.Category) string {
	switch c {
	case account.Init, account.Warmup, account.CheckpointLoad:
		return "START-UP"
	case account.CheckpointSave:
		return "CHECKPOINTS"
	case account.LostWork:
		return "LOST WORK"
	case account.Downtime, account.Stall, account.Unobserved, account.Absent:
		return "DOWN"
	case account.DataWait:
		return "INPUT"
	case account.Wait:
		return "WAIT"
	case account.Validation, account.Testing:
		return "EVALUATION"
	}
	if c.IsStartUp() {
		return "START-UP"
	}
	return diagnosisOther
}

// outcomeWords are how the last attempt ended, in capitals.
func (r *Report) outcomeWords() string {
	if n := len(r.Attempts); n > 0 && r.Attempts[n-1].Running && (r.Outcome == nil || r.Outcome.How == job.Unfinished) {
		return "RUNNING"
	}
	switch o := r.Outcome; {
	case r.Profile != nil:
		return "PROFILE"
	case o == nil && len(r.Attempts) > 0 && r.Attempts[len(r.Attempts)-1].Ended:
		return "COMPLETED"
	case o == nil || o.How == job.Lost:
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

// diagnose finds the one thing that costs most, and says why in one sentence.
func (r *Report) diagnose() (diagnosis, why string) {
	v := r.Verdict.Rank
	if v != nil {
		if word := diagnoses[v.Kind]; word != "" {
			if word == "SLOW RANK" && len(v.Ranks) > 1 {
				word = "SLOW RANKS"
			}
			return word, v.Sentence
		}
	}
	if p := r.Profile; p != nil {
		why = strings.Join(p.sentence(), " ")
		if p.Steps == 0 {
			return diagnosisUnknown, why
		}
		return p.diagnosis(), why
	}
	if r.Ledger.Wall == 0 {
		return diagnosisUnknown, "The records hold no time."
	}
	if r.Goodput == nil {
		return diagnosisUnknown, fmt.Sprintf("How much of %s on %s trained the model is unknown: no training step is on record.", display.Duration(r.Ledger.Wall), display.Plural(len(r.Ranks), "rank"))
	}
	ranks := int64(max(len(r.Ranks), 1))
	groups := make(map[string]float64)
	for _, l := range r.Losses {
		groups[diagnosisOf(l.Category)] += l.Share
	}
	for name, share := range groups {
		if share > max(notable, groups[diagnosis]) || share == groups[diagnosis] && share > notable && name < diagnosis {
			diagnosis = name
		}
	}
	if diagnosis != "" {
		var of []string
		var time int64
		for _, l := range r.Losses {
			if diagnosisOf(l.Category) == diagnosis {
				time += l.Time
				if len(of) < 3 && l.Share >= worth {
					of = append(of, fmt.Sprintf("%s %s", r.words(l.Category), display.Duration(l.Time/ranks)))
				}
			}
		}
		return diagnosis, fmt.Sprintf("%s of the time, %s%s: %s.", display.Percent(groups[diagnosis]), display.Duration(time/ranks), perRank(len(r.Ranks)), strings.Join(of, ", "))
	}
	if v != nil && v.Kind == straggler.Unknown && (len(r.Ranks) > 1 || r.Ledger.Missing != nil) {
		return diagnosisUnknown, v.Sentence
	}
	why = fmt.Sprintf("%s of %s trained the model.", display.Percent(*r.Goodput), display.Duration(r.Ledger.Wall))
	if v != nil && v.Kind == straggler.Fine {
		why += " " + v.Sentence
	}
	return diagnosisFine, why
}

// action is what to do about the diagnosis, and what it would bring.
func (r *Report) action() string {
	v := &r.Verdict
	switch {
	case v.Rank != nil && diagnoses[v.Rank.Kind] != "":
		return v.Rank.Next
	case v.Diagnosis == diagnosisFine, v.Diagnosis == diagnosisUnknown, r.Profile != nil:
		return ""
	}
	for _, l := range r.Losses {
		if diagnosisOf(l.Category) == v.Diagnosis {
			return fmt.Sprintf("%s (at most %s of the time)", r.lossAction(&l), display.Percent(l.Share))
		}
	}
	return ""
}

// diagnosis is the largest part of a profile besides computing.
func (p *Profile) diagnosis() string {
	word, most := diagnosisFine, notable
	idle := diagnosisOther // of a host it is not known what it does outside of operators
	if p.Device {
		idle = "IDLE DEVICE"
	}
	for part, name := range [...]string{profile.Communication: "COMMUNICATION", profile.Copies: "COPIES", profile.Input: "INPUT", profile.Idle: idle} {
		if share := p.share(profile.Part(part)); name != "" && share > most {
			word, most = name, share
		}
	}
	return word
}

// first adds the first screen: how it ended and what is wrong, why, what to do, where the
// time went, and at most ten lines more.
func (s *screen) first(r *Report) {
	v := &r.Verdict
	s.labelled("", strings.Join([]string{v.Outcome, v.Diagnosis, r.describeJob()}, " · "))
	s.lines = append(s.lines, "")
	s.labelled("End", r.endSentence())
	s.labelled("Why", v.Why)
	if v.Rank != nil {
		for _, text := range v.Rank.Witness {
			s.labelled("Seen", sentence(text))
		}
	}
	if len(v.Next) > 0 && (v.Diagnosis != diagnosisFine || afterwards(r.Outcome) != "") {
		s.labelled("Next", sentence(v.Next[0]))
	}
	s.time(r)
	s.details(r)
}

// endSentence says how the job ended where the word of the outcome does not say it all.
func (r *Report) endSentence() string {
	if o := r.Outcome; o != nil && r.Profile == nil && o.How != job.Completed && o.How != job.Unfinished {
		return o.Sentence(0)
	}
	return ""
}

// describeJob names the job and says how large it is.
func (r *Report) describeJob() string {
	var parts []string
	if n := len(r.Ranks); n > 0 {
		parts = append(parts, display.Plural(n, "rank"))
	}
	if n := len(r.Attempts); n > 1 {
		parts = append(parts, display.Plural(n, "attempt"))
	}
	if r.Ledger.Wall > 0 {
		parts = append(parts, display.Duration(r.Ledger.Wall))
	}
	if r.Name != "" {
		parts = append(parts, r.Name)
	}
	return strings.Join(parts, ", ")
}

func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}

// shades draw the parts of the bar, the first what trained.
const shades = "█▓▒░"

// time adds one bar for all of the time, and what its shades are.
func (s *screen) time(r *Report) {
	type part struct {
		name  string
		share float64
	}
	var parts []part
	switch p := r.Profile; {
	case p != nil && p.Steps > 0:
		for k := range profile.Part(profile.Parts) {
			parts = append(parts, part{p.partWords(k), p.share(k)})
		}
		slices.SortStableFunc(parts[1:], func(a, b part) int { return cmp.Compare(b.share, a.share) })
	case p != nil || r.Ledger.Wall == 0 || r.Goodput == nil:
		return
	default:
		parts = append(parts, part{"trained", *r.Goodput})
		for _, l := range r.Losses {
			parts = append(parts, part{r.words(l.Category), l.Share})
		}
	}
	if n := utf8.RuneCountInString(shades); len(parts) > n {
		rest := part{name: display.Plural(len(parts)-n+1, "other")}
		for _, p := range parts[n-1:] {
			rest.share += p.share
		}
		parts = append(parts[:n-1], rest)
	}
	width := s.columns - labelWidth
	var line strings.Builder
	var legend []string
	at, sum := 0, 0.0
	for i, shade := range []rune(shades)[:len(parts)] {
		sum += parts[i].share
		end := min(int(sum*float64(width)+0.5), width)
		line.WriteString(strings.Repeat(string(shade), max(end-at, 0)))
		at = max(at, end)
		if parts[i].share > 0 || i == 0 {
			legend = append(legend, fmt.Sprintf("%c %s %s", shade, display.Text(parts[i].name), display.Percent(parts[i].share)))
		}
	}
	s.lines = append(s.lines, "")
	s.labelled("Time", line.String())
	for _, l := range display.Join(legend, "   ", width) {
		s.lines = append(s.lines, strings.Repeat(" ", labelWidth)+l)
	}
}

// details adds at most ten lines: the ranks that differ most, steps, what restarts cost, the
// next best repair, and what makes the answer less certain.
func (s *screen) details(r *Report) {
	const most = 10
	d := &screen{columns: s.columns}
	v := &r.Verdict
	if v.Rank != nil && len(v.Rank.Ranks) > 0 && v.Rank.Kind != straggler.Hang {
		d.firstRanks(r)
	}
	if st := &r.Steps; st.Compared > 0 {
		ms := func(v float64) string { return display.Duration(int64(v * 1e6)) }
		d.labelled("Steps", fmt.Sprintf("%s, median %s, 99 %% below %s, longest %s (step %d)", display.Count(st.Count), ms(st.Median), ms(st.P99), ms(st.Max), st.MaxAt))
	}
	d.limits(r.Limits)
	d.labelled("Lost", r.disruptions())
	if v.Rank != nil && v.Rank.Kind == straggler.Unknown && v.Diagnosis != diagnosisUnknown && len(r.Ranks) > 1 && r.Profile == nil {
		d.labelled("Note", v.Rank.Sentence)
	}
	remarks := slices.Clone(r.Quality.Remarks)
	for _, f := range r.Quality.Skipped {
		remarks = append(remarks, "left out: "+f)
	}
	if r.Quality.RanksInvented { // the first remark
		d.labelled("Note", sentence(remarks[0]))
		remarks = remarks[1:]
	}
	note := ""
	switch {
	case len(v.Doubts) > 0:
		note = sentence("confidence " + v.Confidence + ": " + strings.Join(v.Doubts, "; "))
	case len(remarks) > 0:
		note, remarks = sentence(display.Elide(display.Text(remarks[0]), 2*(s.columns-labelWidth))), remarks[1:]
	}
	if len(remarks) > 0 {
		note += " " + display.Plural(len(remarks), "remark") + " on the data: --full."
	}
	d.labelled("Note", note)
	if v.Rank != nil && v.Rank.Second != "" && diagnoses[v.Rank.Kind] != "" {
		d.labelled("Also", v.Rank.Second)
	}
	if len(d.lines) > most {
		d.lines = append(d.lines[:most-1], strings.Repeat(" ", labelWidth)+"… more with --full")
	}
	if len(d.lines) > 0 {
		s.lines = append(append(s.lines, ""), d.lines...)
	}
}

// firstRanks adds the ranks that are latest and the usual one of the others.
func (s *screen) firstRanks(r *Report) {
	list := r.compared()
	if len(list) < 2 {
		return
	}
	t := &display.Table{Heads: []string{"<Ranks", "own work", "excess", "wait", "<host"}, Drop: []string{"host"}}
	worst := min(max(len(r.Verdict.Rank.Ranks), 1), 3)
	for i, k := range list {
		if i < worst || i == max(len(list)/2, worst) {
			t.Add(k.cells("      ")...)
		}
	}
	s.table(t)
}

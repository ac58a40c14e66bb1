package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/machine"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

// advice is something to do, and the place that it is about. What gains more comes first: gains is the
// largest share of the time that it may save, or more than 1 for what comes before all losses.
type advice struct {
	text  string
	gains float64
	at    place
}

const (
	aboutEnd       = 2   // how the run ended badly
	aboutDiagnosis = 1.5 // the diagnosis
)

// next returns at most four actions, the one that gains most first, and the place that each is
// about.
func (r *Report) next() (out []string, at []place) {
	after := afterwards(r.Outcome)
	if r.endedBeforeSteps() {
		if after != "" && r.Outcome.Error == "" { // else the error is sufficient
			return []string{after}, []place{placeStarts}
		}
		return nil, nil
	}
	var list []advice
	add := func(text string, gains float64, at place) {
		if text != "" {
			list = append(list, advice{text, gains, at})
		}
	}
	v, failed := &r.Verdict, after != ""
	if r.Profile == nil {
		add(after, aboutEnd, placeStarts)
	}
	about := r.adviceOnDiagnosis()
	if !failed || v.kind != finding.StartUp {
		add(about, aboutDiagnosis, r.placeOfWhy())
	}
	if of := v.Rank; of != nil && of.Next != about && r.adviceOnMachine() == "" && !r.lacksCPU() && (of.Kind != finding.Unknown || len(r.Ranks) > 1) {
		add(of.Next, v.RankCost, placeOfFinding(of))
	}
	if r.Profile != nil {
		for i, text := range r.Profile.next() {
			add(text, 1/float64(i+2), placeTime)
		}
	} else {
		if r.Goodput == nil && r.Ledger.Wall > 0 && !failed { // a run that ended badly may not have reached a step
			add(r.adviceOnRecording(), 1, placeData)
		}
		for i := range r.Losses {
			if l := &r.Losses[i]; r.worthAdvice(l, failed) {
				if text := r.adviceOnLoss(l); !strings.HasPrefix(about, text) {
					add(text, l.Share, placeOfLoss(l.Category))
				}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b advice) int { return cmp.Compare(b.gains, a.gains) })
	const most = 4
	for _, a := range list[:min(len(list), most)] {
		out, at = append(out, a.text), append(at, a.at)
	}
	return out, at
}

// worthAdvice reports whether a loss is worth an action of its own.
func (r *Report) worthAdvice(l *Loss, failed bool) bool {
	switch {
	case l.Share < worth:
		return false
	case l.Category == account.Other && r.Goodput == nil:
		return false // this time may be training
	case l.Category == account.DataWait || l.Category == account.Other:
		return l.Share >= notable && !(l.Category == account.DataWait && r.lacksCPU()) // small amounts of both are normal
	case partOf(l.Category) == partStart:
		return !failed && r.startMatters() // each run has a start, and the start of a failed one is not what to look at
	}
	return true
}

// adviceOnDiagnosis returns what to do about the diagnosis, and the largest possible gain, or "".
func (r *Report) adviceOnDiagnosis() string {
	v := &r.Verdict
	switch {
	case r.lacksCPU():
		return "make the loading of a sample cheaper (smaller or preprocessed files), or give the job more processors"
	case v.kind.IsOfSteps() && v.Finding == v.ofRanks():
		return r.adviceOnRanks()
	case v.kind == finding.Wait && r.Profile != nil && v.Proof != nil:
		return fmt.Sprintf("profile rank %s again, and look at the clocks and the load of its device then", v.Proof.Named().Name)
	case v.kind == finding.Unknown && v.Rank != nil && v.Rank.Kind == finding.Unknown && v.Why == v.Rank.Sentence:
		return v.Rank.Next
	case v.Finding == nil, r.Profile != nil:
		return ""
	case v.kind == finding.StartUp && len(v.Finding.Ranks) == 1:
		return fmt.Sprintf("see why rank %d is the last to start: the others wait for it", v.Finding.Ranks[0])
	}
	for i := range r.Shares {
		if s := &r.Shares[i]; kindOfPart(s.Part) == v.kind {
			if text, most := r.adviceOnShare(s); text != "" {
				return fmt.Sprintf("%s (at most %s of the run)", text, display.Duration(most))
			}
		}
	}
	return ""
}

// adviceOnRanks returns what to do about a finding about ranks or steps.
func (r *Report) adviceOnRanks() string {
	if text := r.adviceOnMachine(); text != "" {
		return text
	}
	p := r.Verdict.Proof
	switch {
	case p == nil || !p.OfRun:
		return r.Verdict.Rank.Next
	case 10*p.Rest().Times[0] < p.Named().Times[0]:
		return fmt.Sprintf("distribute “%s” among the ranks, or let the others continue while rank %s does it", p.Columns[0], p.Named().Name)
	}
	return fmt.Sprintf("compare what rank %s does in “%s” with another rank", p.Named().Name, p.Columns[0])
}

// adviceOnMachine returns what to do about the machine, or "" if it is not related to the
// diagnosis.
func (r *Report) adviceOnMachine() string {
	m, v := r.Verdict.Machine, r.Verdict.Rank
	if m == nil || v == nil {
		return ""
	}
	if len(m.Causes) > 0 {
		c := &m.Causes[0]
		crowded := slices.ContainsFunc(m.Overloaded, func(o machine.Overload) bool {
			return o.Host == c.Host && (c.Cores == 0 || c.Cores >= o.Cores) // else the rank is limited to fewer processors
		})
		if c.Cause != machine.CauseProcessor || !crowded {
			return causeAction(c)
		}
	}
	switch v.Kind {
	case finding.SlowRanks, finding.Imbalance, finding.Drift:
		if len(m.Overloaded) > 0 && m.Overloaded[0].Limit {
			return "raise the processor limit of the control group before looking for anything else"
		} else if len(m.Overloaded) > 0 {
			return "run fewer processes and threads at once, or use more processors, before looking for anything else"
		}
	}
	return ""
}

// adviceOnShare returns what to do about a share of the time, and the most that it gains: the share, or if the
// finding is about one part, the loss of one rank or of each waiting rank.
func (r *Report) adviceOnShare(s *Share) (text string, most int64) {
	f, ranks := r.Verdict.Finding, int64(max(len(r.Ranks), 1))
	most = s.Time / ranks
	switch {
	case s.Name == messagesName && f.Cause != "":
		text = fmt.Sprintf("move work from %s to the others, or use more micro-batches", f.Cause)
	case s.Name == messagesName:
		text = "balance the work of the stages, or use more micro-batches"
	case s.Part == partWait && s.Rank != nil:
		text = fmt.Sprintf("see what rank %d does while the others wait for it", *s.Rank)
	case s.Part == partWait:
		text = "see which ranks come last in the table of ranks: --full"
	case s.Part == string(account.Communication):
		text = "overlap collectives with the backward pass, or send fewer and larger messages"
	case s.Part == partRecompile:
		text = "pad or bucket what changes its shape, or compile with dynamic=True; TORCH_LOGS=recompiles lists each cause"
	case s.Part == string(account.OtherCode) && f.Pattern == finding.SingleSteps:
		text = "see what the program does in these steps: add spans there, or profile one of them"
	case s.Part == string(account.OtherCode):
		text = "see what the program does between the spans of a step: add spans there, or profile it"
	default:
		list := r.Losses
		if s.Part == partStart {
			list, _ = r.startParts()
		}
		for i := range list {
			if l := &list[i]; text == "" && (s.Part == partStart || partOf(l.Category) == s.Part) {
				text, most = r.adviceOnLoss(l), l.Time/ranks
			}
		}
	}
	if len(f.Parts) == 1 && f.Kind != finding.StartUp {
		most = f.Lost
	}
	return text, most
}

// adviceOnRecording returns how to record steps if there are none.
func (r *Report) adviceOnRecording() string {
	if r.imported != "" {
		return fmt.Sprintf("record the training steps: %s, and %s has the lines for it", r.imported, helptopic.Recipes)
	}
	return "record the training steps: a span for each iteration, or the loop over the data loader"
}

// youngFrom is the shortest run, in nanoseconds, for which the report cites Young's rule: a
// failure in a shorter run does not give a failure rate.
const youngFrom = int64(10 * time.Minute)

// adviceOnLoss returns the action that reduces a loss, or "".
func (r *Report) adviceOnLoss(l *Loss) string {
	text := actions[l.Category]
	if l.Category == account.LostWork {
		if f := r.figure(account.FigureYoung); f > 0 && r.Ledger.Wall >= youngFrom {
			text += fmt.Sprintf(" (Young's rule suggests every %s)", display.Duration(int64(f*1e9)))
		}
	}
	if l.Category == account.Unobserved && slices.ContainsFunc(r.Ledger.Disruptions, func(d account.Disruption) bool { return d.Unrecorded > 0 }) {
		return "" // between attempts: nothing can recover it
	}
	if l.Category == account.Downtime && !slices.ContainsFunc(r.Ledger.Disruptions, func(d account.Disruption) bool { return !d.Proper }) {
		text = "start the next attempt sooner: each one before it ended as planned"
	}
	if l.Category.IsCustom() {
		text = "look into the spans " + PartName(string(l.Category))
	}
	return text
}

// afterwards returns the action for a run that ended badly, or "".
func afterwards(o *job.Outcome) string {
	if o == nil {
		return ""
	}
	of := "the command"
	if o.Rank != nil {
		of = fmt.Sprintf("rank %d", *o.Rank)
	}
	switch o.How {
	case job.Failed:
		if text := afterDeviceOOM(o.Error); text != "" {
			return text
		}
		return "read what " + of + " printed last in the output of the job"
	case job.OutOfMemory:
		return "give the job more memory, or find what uses it on the node of " + of
	case job.Killed:
		return "find out in the log of the node what ended " + of
	}
	return ""
}

// actions holds the action that reduces each loss.
var actions = map[account.Category]string{
	account.LostWork:           "save checkpoints more often",
	account.Warmup:             "cache what is compiled in the first step of an attempt",
	account.StartupInterpreter: "keep Python and its packages on a local disk: files on a shared one are slow to open",
	account.StartupImports:     "import less before the training, from a local disk",
	account.StartupRendezvous:  "start all ranks together: the first ones wait for the last",
	account.StartupDevice:      "load device libraries lazily, and from a local disk",
	account.StartupModel:       "build the model on its device, and read its weights in parallel",
	account.StartupFirstBatch:  "start the workers of the data loader earlier, and keep the index of its files",
	account.StartupCompile:     "cache what is compiled before the first step",
	account.Init:               "see which initialization takes longest in the table of slow spans, and cache what it builds",
	account.CheckpointLoad:     "load checkpoints from faster storage, or in parallel",
	account.CheckpointSave:     "save checkpoints asynchronously, or less often",
	account.DataWait:           "give the data loader more workers or prefetch more",
	account.Validation:         "validate less often or on fewer batches",
	account.Testing:            "test less often or on fewer batches",
	account.Stall:              "find what the last step waited for before the attempt ended",
	account.Wait:               "see what the last rank does between steps: the others wait for it",
	account.Downtime:           "read the end of the log of the attempt that stopped, and restart sooner",
	account.Unobserved:         "find out when the job really ended: its last attempt has no proper end",
	account.Absent:             "start all ranks together and end them together",
	account.Other:              "add a span around what happens before and between the training steps",
}

package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// OwnCode is the time of a step between two observed calls, which is spent in the code of
// the program itself. It is measured in a sample of the steps.
type OwnCode struct {
	Rank   int     `json:"rank"`
	From   string  `json:"from"`    // for example "train.py:41"
	After  string  `json:"after"`   // the call at From, for example "optimizer.step"
	To     string  `json:"to"`      // for example "train.py:35"
	Before string  `json:"before"`  // the call at To, for example "next batch"
	Time   float64 `json:"ms"`      // mean per step
	Step   float64 `json:"step_ms"` // mean length of the sampled steps
	Steps  int     `json:"steps"`   // the number of sampled steps
}

// Dataset is the method that reads the samples of a data loader.
type Dataset struct {
	Method  string `json:"method"`  // for example "Corpus.__getitem__"
	At      string `json:"at"`      // for example "data.py:12"
	Workers int    `json:"workers"` // number of loader workers, 0 if the training process loads the data
}

const (
	// maxOwnCode limits Report.Code.
	maxOwnCode = 64
	// leastLooked is the smallest number of sampled steps for codeSentence.
	leastLooked = 3
)

// ownCode sets Code and Dataset from the facts of the processes of the last attempt.
func (r *Report) ownCode(j *job.Job) {
	last := 0
	for _, p := range j.Processes {
		last = max(last, p.Attempt)
	}
	for _, p := range j.Processes {
		if p.Attempt != last {
			continue
		}
		var said struct {
			Steps int     `json:"steps"`
			Step  float64 `json:"step_ms"`
			Gaps  []OwnCode
		}
		if text := p.Facts[job.FactCode]; text != "" && json.Unmarshal([]byte(text), &said) == nil && len(said.Gaps) > 0 && said.Steps > 0 {
			g := said.Gaps[0] // the longest
			g.Rank, g.Step, g.Steps = p.Rank, said.Step, said.Steps
			r.Code = append(r.Code, g)
		}
		var data Dataset
		if text := p.Facts[job.FactDataset]; text != "" && json.Unmarshal([]byte(text), &data) == nil && data.Method != "" && (r.Dataset == nil || r.isNamed(p.Rank)) {
			r.Dataset = &data
		}
	}
	slices.SortStableFunc(r.Code, func(a, b OwnCode) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Rank, b.Rank)) })
	r.Code = r.Code[:min(len(r.Code), maxOwnCode)]
}

// isNamed reports whether the finding is about a rank.
func (r *Report) isNamed(rank int) bool {
	v := r.Verdict.Rank
	return v != nil && slices.Contains(v.Ranks, rank)
}

// codeSentence describes the lines between which the code of the program takes a notable part
// of the step: of a rank that the finding names, or else of the rank where it takes longest. It
// returns "" if there are none, or if the time is more than twice the median step, because the
// sampled steps are then not typical.
func (r *Report) codeSentence() string {
	var c *OwnCode
	for i := range r.Code {
		if g := &r.Code[i]; g.Steps >= leastLooked && (c == nil || r.isNamed(g.Rank) && !r.isNamed(c.Rank)) {
			c = g
		}
	}
	if c == nil || c.Time < notable*c.Step || r.Steps.Compared == 0 || c.Time > 2*r.Steps.Median || r.Ledger.ProductiveParts[account.OtherCode] == 0 && !r.Steps.Device {
		return ""
	}
	whose := ""
	if len(r.Ranks) > 1 {
		whose = fmt.Sprintf(" of rank %d", c.Rank)
	}
	return fmt.Sprintf("%s of the %s of each step%s are your code between %s (%s) and %s (%s)",
		display.Milliseconds(c.Time), display.Milliseconds(c.Step), whose, c.From, c.After, c.To, c.Before)
}

// dataSentence describes the method that reads the samples, if data loading takes a notable part
// of the time or is the cause of the finding. Otherwise it returns "".
func (r *Report) dataSentence() string {
	d := r.Dataset
	if d == nil {
		return ""
	}
	v := r.Verdict.Rank
	cause := v != nil && v.Kind.IsOfSteps() && (v.Kind == finding.InputSlow || v.Cause == straggler.Input.String())
	data := slices.ContainsFunc(r.Shares, func(s Share) bool { return s.Part == string(account.DataWait) && s.Share >= notable })
	if !cause && !data && r.Verdict.kind != finding.InputSlow {
		return ""
	}
	where := "in the process of the training"
	if d.Workers > 0 {
		where = "in " + display.Plural(d.Workers, "worker")
	}
	return fmt.Sprintf("samples are read by %s (%s), %s", d.Method, d.At, where)
}

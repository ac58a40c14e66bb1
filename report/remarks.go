package report

import (
	"fmt"
	"strings"

	"github.com/trainspan/trainspan/analysis/goodput"
	"github.com/trainspan/trainspan/internal/human"
)

// maxRemarks bounds the list: a job of a thousand ranks has thousands of flags.
const maxRemarks = 40

// remarks are the flags of the ledger in words, those alike together.
func remarks(led *goodput.Report) []string {
	var order []goodput.FlagKind
	of := make(map[goodput.FlagKind][]goodput.Flag)
	for _, f := range led.Flags {
		if of[f.Kind] == nil {
			order = append(order, f.Kind)
		}
		of[f.Kind] = append(of[f.Kind], f)
	}
	var out []string
	for _, k := range order {
		list := of[k]
		n := len(list)
		for _, f := range list {
			n += f.Count
		}
		text := strings.ReplaceAll(string(k), "_", " ")
		if t, ok := flagWords[k]; ok {
			text = t
		}
		f := &list[0]
		where := fmt.Sprintf("rank %d", f.Rank)
		if f.Attempt > 0 {
			where += fmt.Sprintf(", attempt %d", f.Attempt)
		}
		if n > 1 {
			where += fmt.Sprintf(" and %d more", n-1)
		}
		out = append(out, text+" ("+where+")")
	}
	return out[:min(len(out), maxRemarks)]
}

// unlikely says what of the records cannot be.
func (q *Quality) unlikely() (out []string) {
	if q.Aside > 0 {
		out = append(out, human.Plural(int(q.Aside), "record")+" set aside: more than 30 days from the other times of the file, or ending before the begin")
	}
	if q.BadNumbers > 0 {
		out = append(out, human.Plural(q.BadNumbers, "number")+" of ranks, attempts or the world size left out: below 0, or from 1,048,576 on")
	}
	if q.Disagree > 0 {
		out = append(out, q.DisagreeOn+" said in two ways by records and names of files, "+human.Plural(q.Disagree, "time")+": a record in the trace counts first, the file's name last")
	}
	if q.Relative > 0 {
		out = append(out, human.Plural(q.Relative, "clock")+" with times that are relative to something that the files do not say")
	}
	return out
}

var flagWords = map[goodput.FlagKind]string{
	goodput.NoEnd:           "no proper end was recorded",
	goodput.NoHeartbeat:     "stopped without saying goodbye (killed?): its last record is taken for its end",
	goodput.ClockSkew:       "an attempt begins before the last activity of the one before",
	goodput.LongIteration:   "a step took more than ten times the usual time",
	goodput.MissingRank:     "ranks reported nothing",
	goodput.SpansDropped:    "spans were dropped while recording",
	goodput.TwoWriters:      "several processes say they are the same rank and attempt",
	goodput.MissingEnds:     "spans without an end were closed by what followed",
	goodput.WarmupUnknown:   "warm-up unknown: no usual time to compare the first step with",
	goodput.Provisional:     "the usual time of a step comes from fewer than three steps",
	goodput.LostWorkUnknown: "lost work unknown: no record says with which step an attempt went on",
	goodput.ResumeInferred:  "the step that an attempt resumed from is a guess",
	goodput.NoIterations:    "no training step was recorded",
	goodput.LocalSteps:      "steps are counted from 0 in each attempt",
}

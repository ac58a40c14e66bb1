package report

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// Injected is a delay that was put into the job on purpose, with trainspan run --inject.
type Injected struct {
	Text   string `json:"text"`     // for example "rank 2, data 50 ms from step 100"
	Delays int64  `json:"delays"`   // how many times the delay was made
	Time   int64  `json:"delay_ns"` // the sum of all delays
}

// injected adds the delays that the starts of the job requested, and those that its processes
// report as made.
func (r *Report) injected(j *job.Job) {
	of := func(text string) *Injected {
		i := slices.IndexFunc(r.Injected, func(d Injected) bool { return d.Text == text })
		if i < 0 {
			i = len(r.Injected)
			r.Injected = append(r.Injected, Injected{Text: text})
		}
		return &r.Injected[i]
	}
	for _, s := range j.Starts {
		for _, text := range s.Injected {
			of(text)
		}
	}
	for _, p := range slices.Concat(j.Processes, j.Helpers) {
		var made []struct {
			Text   string  `json:"text"`
			Delays int64   `json:"delays"`
			MS     float64 `json:"ms"`
		}
		if text := p.Facts[job.FactInjected]; text == "" || json.Unmarshal([]byte(text), &made) != nil {
			continue
		}
		for _, m := range made {
			d := of(m.Text)
			d.Delays += m.Delays
			d.Time += int64(m.MS * 1e6)
		}
	}
}

// sentence describes the delay and how often it was made.
func (d *Injected) sentence() string {
	if d.Delays == 0 {
		return d.Text + ": not injected; the job has no such rank, phase or step"
	}
	return fmt.Sprintf("%s (%s, %s)", d.Text, display.Plural(int(d.Delays), "time"), display.Duration(d.Time))
}

// InjectedSentences returns the descriptions of the delays, for the page and the first screen.
func (r *Report) InjectedSentences() (all []string) {
	for i := range r.Injected {
		all = append(all, r.Injected[i].sentence())
	}
	return all
}

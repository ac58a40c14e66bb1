package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// TestFactsOfTheClient checks that the facts that the Python client records are on the first screen, on the
// page and in a digest.
func TestFactsOfTheClient(t *testing.T) {
	const (
		code     = `{"steps": 4, "step_ms": 37.2, "gaps": [{"after": "optimizer.step", "from": "train.py:41", "before": "next batch", "to": "train.py:35", "ms": 32.1}]}`
		injected = `[{"text": "rank 1, data 50 ms", "delays": 3, "ms": 150.5}]`
		data     = `{"method": "Corpus.__getitem__", "at": "data.py:12", "workers": 2}`
		said     = "32.1 ms of the 37.2 ms of each step of rank 1 are your code between"
	)
	for name, c := range map[string]struct {
		told          map[string]string
		starts        []string
		median        float64
		want, without []string
	}{
		"all": {
			told: map[string]string{job.FactCode: code, job.FactInjected: injected, job.FactDataset: data}, starts: []string{"rank 1, data 50 ms", "rank 7, code 1 s"}, median: 37,
			want: []string{"Injected rank 1, data 50 ms (3 times, 150 ms)", "Injected rank 7, code 1 s: not injected", said + " train.py:41 (optimizer.step) and train.py:35 (next batch)"},
		},
		"nothing":            {median: 37, without: []string{"Injected", "your code", "samples are read"}},
		"other steps":        {told: map[string]string{job.FactCode: code}, median: 10, without: []string{"your code"}},
		"a step or two":      {told: map[string]string{job.FactCode: strings.Replace(code, `"steps": 4`, `"steps": 2`, 1)}, median: 37, without: []string{"your code"}},
		"a small part":       {told: map[string]string{job.FactCode: strings.Replace(code, "32.1", "3.1", 1)}, median: 37, without: []string{"your code"}},
		"no JSON":            {told: map[string]string{job.FactCode: "x", job.FactInjected: "[", job.FactDataset: "{", job.FactMissing: "["}, median: 37, without: []string{"Injected", "your code", "not recorded"}},
		"not recorded":       {told: map[string]string{job.FactMissing: `["functions of torch.optim (AttributeError: step)"]`}, median: 37, want: []string{"Not recorded: functions of torch.optim (AttributeError: step)"}},
		"data is not slow":   {told: map[string]string{job.FactDataset: data}, median: 37, without: []string{"samples are read"}},
		"gaps of no program": {told: map[string]string{job.FactCode: `{"steps": 4, "step_ms": 37.2, "gaps": []}`}, median: 37, without: []string{"your code"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a := simjob.Attempt{Ranks: 2, Steps: 60, Slow: 1, Extra: [4]float64{0, 0, 0, 20}}
			if _, err := a.Write(dir); err != nil {
				t.Fatal(err)
			}
			state, err := report.Load(nil, dir)
			if err != nil {
				t.Fatal(err)
			}
			j := state.Jobs()[0]
			for _, p := range j.Job.Processes {
				if p.Rank == 1 {
					p.Facts = c.told
					kept, err := p.AppendBinary(nil)
					if err != nil {
						t.Fatal(err)
					}
					q := new(job.Process)
					if err := q.UnmarshalBinary(kept); err != nil {
						t.Fatal(err)
					}
					p.Facts = q.Facts
				}
			}
			j.Job.Starts = []*rundir.Run{{Injected: c.starts, Started: time.Unix(1, 0), Seen: time.Unix(2, 0)}}
			r := report.Build(j)
			r.Steps.Median = c.median
			r.Ledger.ProductiveParts[account.OtherCode] = 1 // the job has no such time
			screen := strings.Join(strings.Fields(strings.Join(r.First(200), "\n")), " ")
			var page bytes.Buffer
			if err := report.HTML(&page, r, ""); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(screen, want) {
					t.Errorf("the screen does not have %q:\n%s", want, screen)
				}
				if strings.HasPrefix(want, "Injected") && !strings.Contains(page.String(), strings.TrimPrefix(want, "Injected ")) {
					t.Errorf("the page has no %q", want)
				}
			}
			for _, text := range c.without {
				if strings.Contains(screen, text) {
					t.Errorf("the screen has %q, want it absent:\n%s", text, screen)
				}
			}
		})
	}
}

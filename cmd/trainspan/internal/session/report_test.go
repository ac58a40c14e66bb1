//go:build unix

package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/launch"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// TestRunIsComparedWithTheEarlierOne checks that a completed run is compared
// with the latest completed earlier run of its name.
func TestRunIsComparedWithTheEarlierOne(t *testing.T) {
	for name, c := range map[string]struct {
		runs []simjob.Attempt // oldest first; one with a Tag has injected delays
		want string           // the beginning of the line; empty if nothing is compared
	}{
		"the first":              {[]simjob.Attempt{{}}, ""},
		"a slower one":           {[]simjob.Attempt{{}, {Scale: 1.2}}, "with job.1: steps are "},
		"after one that failed":  {[]simjob.Attempt{{}, {Scale: 1.2, Killed: true}, {}}, "with job.1: no difference in step time "},
		"one that did not end":   {[]simjob.Attempt{{}, {Scale: 1.2, Killed: true}}, ""},
		"with other ranks":       {[]simjob.Attempt{{}, {Ranks: 3}}, ""},
		"with injected delays":   {[]simjob.Attempt{{}, {Scale: 1.2, Tag: "injected"}}, ""},
		"after injected delays":  {[]simjob.Attempt{{}, {Scale: 1.2, Tag: "injected"}, {}}, "with job.1: no difference in step time "},
		"too short to be judged": {[]simjob.Attempt{{}, {Steps: 4}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var runs []*report.Job // latest first, as they are read
			for i, a := range c.runs {
				if a.Ranks == 0 {
					a.Ranks = 2
				}
				if a.Steps == 0 {
					a.Steps = 120
				}
				a.Seed = uint64(i)
				dir := t.TempDir()
				if _, err := a.Write(dir); err != nil {
					t.Fatal(err)
				}
				state, err := report.Load(nil, dir)
				if err != nil {
					t.Fatal(err)
				}
				j := state.Jobs()[0]
				if a.Tag != "" {
					j.Job.Processes[0].Facts = map[string]string{job.FactInjected: `[{"text": "rank 0, data 8 ms", "delays": 120, "ms": 960}]`}
				}
				j.Job.Label = fmt.Sprintf("job.%d", i+1)
				runs = append([]*report.Job{j}, runs...)
			}
			r := report.Build(runs[0])
			before := withEarlier(r, runs[0], runs[1:])
			got := ""
			if before != nil {
				got = before.Brief()
			}
			if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("%s: got %q, want %q", r.Verdict.Outcome, got, c.want)
			}
			// The lines fit on a terminal.
			var out strings.Builder
			s := &Session{start: &start{record: &record{out: display.NewWriter(&out)}}}
			s.where.Dir = "files"
			s.summary(launch.Terminal{Columns: 60}, r, before, "", nil)
			for line := range strings.Lines(out.String()) {
				if n := display.Width(strings.TrimSuffix(line, "\n")); n > 60 {
					t.Errorf("%q has %d columns, want at most 60", line, n)
				}
			}
		})
	}
}

// TestEarlierRuns checks that runs with other session tags are ordered by time
// too.
func TestEarlierRuns(t *testing.T) {
	run := func(name string, at ...int64) *report.Job {
		j := &report.Job{Name: name, Job: &job.Job{}}
		for _, start := range at {
			j.Job.Processes = append(j.Job.Processes, &job.Process{Start: start})
		}
		return j
	}
	mine := run("mine", 70, 72)
	got := ""
	for _, j := range earlier([]*report.Job{run("a", 10, 80), run("b", 50), mine, run("later", 71), run("empty"), run("c", 60)}, mine) {
		got += j.Name + " "
	}
	if want := "c b a "; got != want {
		t.Errorf("earlier() = %q, want %q", got, want)
	}
}

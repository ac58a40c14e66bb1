package report_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

var (
	toPart = regexp.MustCompile(`class="to" href="#([^"]+)"`)
	partID = regexp.MustCompile(`id="([^"]+)"`)
)

// TestLinks checks that each sentence of the verdict and each action links to an existing part
// of the page.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	a := simjob.Attempt{Ranks: 4, Steps: 80, Save: 20, Killed: true, Slow: 2, Extra: [4]float64{12}}
	end, err := a.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	a.Number, a.First, a.Start, a.Killed = 1, 60, end.Add(2*time.Second), false
	if _, err := a.Write(dir); err != nil {
		t.Fatal(err)
	}
	state, err := report.Load(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	j := state.Jobs()[0]
	rank := 0
	ended := end
	j.Job.Starts = append(j.Job.Starts, &rundir.Run{
		Host: "node-a0", Rank: &rank, State: rundir.Ended, Started: end.Add(-4 * time.Second), Seen: end, Ended: &ended, User: 6, System: 2, MaxRSS: 3e9,
		GPUs: []rundir.GPU{{Index: "0", Busy: 61, Memory: 5e9, MemoryTotal: 8e9}}, Evidence: []string{"memory grows 1.0 GB a minute"},
	})
	var out bytes.Buffer
	if err := report.HTML(&out, report.Build(j), ""); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	ids := make(map[string]bool)
	for _, m := range partID.FindAllStringSubmatch(page, -1) {
		ids[m[1]] = true
	}
	links := toPart.FindAllStringSubmatch(page, -1)
	seen := make(map[string]bool)
	for _, m := range links {
		if seen[m[1]] = true; !ids[m[1]] {
			t.Errorf("a sentence leads to #%s, which does not exist", m[1])
		}
	}
	for _, want := range []string{"h-heat", "lost", "time", "data-behind"} {
		if !seen[want] {
			t.Errorf("no sentence leads to #%s; the links are %v", want, links)
		}
	}
	for _, want := range []string{"node-a0, rank 0", "3.0 GB", "0: 61 % busy, 5.0 GB of 8.0 GB", "memory grows"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q about resources", want)
		}
	}
}

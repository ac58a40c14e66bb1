//go:build unix

package session

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/jobmetrics"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// attempt writes the files of one start of a job and returns their folder.
func attempt(t *testing.T, job string, n int, a simjob.Attempt, run rundir.Run) string {
	t.Helper()
	dir := filepath.Join(job, fmt.Sprintf("attempt-%d", n+1), fmt.Sprintf("host-%d", n+1))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file, _, err := rundir.CreateFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	run.Name, run.Session, run.Attempt, run.Job, run.Start = filepath.Base(job), a.Tag, n, "4711", "start" // the job of simjob
	run.Started, run.Seen = a.Start, a.Start.Add(time.Minute)
	if err := file.Write(&run); err != nil {
		t.Fatal(err)
	}
	if a.Ranks > 0 {
		if a.Number = n; a.Steps == 0 {
			a.Steps = 20
		}
		if _, err := a.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestRunOfThisStart checks that the report and the metrics are of the run of
// this start, whichever other runs its folder has: those of earlier starts,
// also with another session tag and more ranks.
func TestRunOfThisStart(t *testing.T) {
	failed, ok := 1, 0
	morning := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		earlier simjob.Attempt
		status  *int
		now     simjob.Attempt
		want    string // the tag and the number of ranks of the report, empty for none
		runID   string
		shared  bool // both starts have the same folder
	}{
		"nothing recorded after a failure": {simjob.Attempt{Ranks: 2, Tag: "train"}, &failed, simjob.Attempt{Tag: "train"}, "", "", false},
		"nothing recorded after a success": {simjob.Attempt{Ranks: 2, Tag: "train"}, &ok, simjob.Attempt{Tag: "train"}, "", "", false},
		"the same tag":                     {simjob.Attempt{Ranks: 2, Tag: "train"}, &ok, simjob.Attempt{Ranks: 1, Tag: "train"}, "train 1", "train.2", false},
		"another tag":                      {simjob.Attempt{Ranks: 2, Tag: "first"}, &failed, simjob.Attempt{Ranks: 2, Tag: "second"}, "second 2", "second.2", false},
		"one folder, nothing recorded":     {simjob.Attempt{Ranks: 2, Tag: "first"}, &failed, simjob.Attempt{Tag: "second"}, "first 2", "", true},
		"one folder, another tag":          {simjob.Attempt{Ranks: 2, Tag: "first"}, &failed, simjob.Attempt{Ranks: 1, Tag: "second"}, "second 1", "", true},
		"another tag with fewer ranks":     {simjob.Attempt{Ranks: 3, Tag: "first"}, &failed, simjob.Attempt{Ranks: 1, Tag: "second"}, "second 1", "second.2", false},
	} {
		t.Run(name, func(t *testing.T) {
			job := filepath.Join(t.TempDir(), "train")
			c.earlier.Start, c.now.Start = morning, morning.Add(time.Hour)
			first := attempt(t, job, 0, c.earlier, rundir.Run{State: rundir.Ended, EndedBy: rundir.ByExit, ExitStatus: c.status})
			dir := attempt(t, job, 1, c.now, rundir.Run{State: rundir.Running})
			s := &Session{start: &start{record: &record{out: display.NewWriter(io.Discard)}, where: rundir.Place{Job: job, Dir: dir, Attempt: 1}}}
			if s.run.Started = c.now.Start; c.shared {
				if err := os.Rename(first, filepath.Join(dir, "first")); err != nil {
					t.Fatal(err)
				}
				s.where.Job = dir
			}
			r, _, _, err := s.read()
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if r != nil {
				got = fmt.Sprint(r.SessionTag, " ", len(r.Ranks))
			}
			if got != c.want || s.runID != c.runID {
				t.Errorf("the report is of %q, run %q, want %q, %q", got, s.runID, c.want, c.runID)
			}

			server, err := jobmetrics.Serve(t.Context(), "127.0.0.1:0", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close(t.Context()) //nolint:errcheck // the test is over
			m := &jobMetrics{start: s.start, server: server}
			if err := m.read(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL(), http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			page, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if ranks := strings.Count(string(page), "\ntraining_ranks{"); ranks != c.now.Ranks {
				t.Errorf("metrics of %d ranks, want %d:\n%s", ranks, c.now.Ranks, page)
			}
		})
	}
}

// TestEndThatWasNotSeen checks that a command whose start was not reported is
// not recorded as one that could not be started.
func TestEndThatWasNotSeen(t *testing.T) {
	s := &Session{start: &start{record: &record{out: display.NewWriter(io.Discard)}}}
	s.outcome(nil)
	if s.run.State != rundir.Ended || s.run.EndedBy != rundir.ByUnknown {
		t.Errorf("%s by %s, want %s by %s", s.run.State, s.run.EndedBy, rundir.Ended, rundir.ByUnknown)
	}
}

package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// TestRuns checks which starts with the same name are attempts of one run.
func TestRuns(t *testing.T) {
	const dead, well = `"ended_by":"signal","signal":"SIGKILL"`, `"ended_by":"exit","exit_status":0`
	type begun struct {
		job, script, end string
		first            int    // step
		load             string // the status of a load, "none" without one
	}
	const together = "two at the same time" // others start an hour apart
	for _, c := range []struct {
		name string
		in   []begun
		want string // the attempts of each run, the latest first
	}{
		{"killed, and it goes on", []begun{{"a", "t.py", dead, 0, "none"}, {"b", "t.py", well, 7, "none"}}, "[[1 2]]"},
		{"failed, and it loads a checkpoint", []begun{{"a", "t.py", `"ended_by":"exit","exit_status":1`, 0, "none"}, {"b", "t.py", well, 0, ""}}, "[[1 2]]"},
		{"failed, and its load fails", []begun{{"a", "t.py", `"ended_by":"exit","exit_status":1`, 0, "none"}, {"b", "t.py", well, 0, "ERROR"}}, "[[2] [1]]"},
		{"again after a success", []begun{{"a", "t.py", well, 0, "none"}, {"b", "t.py", well, 0, "none"}}, "[[2] [1]]"},
		{"further after a success", []begun{{"a", "t.py", well, 0, "none"}, {"b", "t.py", well, 10, "none"}}, "[[2] [1]]"},
		{"killed, and from the start", []begun{{"a", "t.py", dead, 0, "none"}, {"b", "t.py", well, 0, "none"}}, "[[2] [1]]"},
		{"another command", []begun{{"a", "t.py", dead, 0, "none"}, {"b", "other.py", well, 7, "none"}}, "[[2] [1]]"},
		{"a launcher says so", []begun{{"a", "t.py", well, 0, "none"}, {"a", "t.py", well, 0, "none"}}, "[[1 2]]"},
		{"nobody says", []begun{{"", "t.py", well, 0, "none"}, {"", "t.py", well, 0, "none"}}, "[[1 2]]"},
		{together, []begun{{"a", "t.py", dead, 0, "none"}, {"b", "t.py", well, 0, "none"}}, "[[2] [1]]"},
		{"three of two runs", []begun{{"a", "t.py", dead, 0, "none"}, {"b", "t.py", well, 7, "none"}, {"c", "t.py", dead, 0, "none"}}, "[[3] [1 2]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for n, b := range c.in {
				at := time.Unix(1_700_000_000, 0).UTC().Add(time.Duration(n) * time.Hour)
				if c.name == together {
					at = time.Unix(1_700_000_000, 0).UTC().Add(time.Duration(n) * time.Second)
				}
				w, err := dftracer.Create(filepath.Join(dir, fmt.Sprintf("trace%d.pfw.gz", n)), &dftracer.Options{
					Start: at, Process: dftracer.Process{PID: 100 + n, Attempt: &n, SessionTag: "job", JobID: b.job},
				})
				if err != nil {
					t.Fatal(err)
				}
				if b.load != "none" {
					key := dftracer.NewKey("checkpoint", "restart")
					w.WriteComplete(&key, dftracer.Span{TS: at.UnixMicro(), Dur: 100_000}, dftracer.String("otel.status_code", b.load))
				}
				key := dftracer.NewKey("pipeline", "train.iteration")
				for i := range 10 {
					w.WriteComplete(&key, dftracer.Span{TS: at.Add(time.Duration(i+1) * time.Second).UnixMicro(), Dur: 900_000}, dftracer.Int("step", int64(b.first+i)))
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				text := fmt.Sprintf(`{"version":1,"state":"ended","session_tag":"job","job":%q,"program":"python","script":%q,"started":%q,"seen":%q,%s}`,
					b.job, b.script, at.Format(time.RFC3339Nano), at.Add(12*time.Second).Format(time.RFC3339Nano), b.end)
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("run.run%d.json", n+2)), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var got [][]int
			for _, j := range collect(t, dir).Jobs() {
				var list []int
				for _, p := range j.Job.Processes {
					list = append(list, p.Attempt)
				}
				got = append(got, list)
				if len(j.Ledger.Report(account.Query{}).Attempts) != len(list) {
					t.Errorf("the attempts of the ledger differ from %v", list)
				}
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}

// TestStartsOfOneRun checks that concurrent starts on the nodes of one job are one attempt,
// and that a program that runs before the training program is not an attempt.
func TestStartsOfOneRun(t *testing.T) {
	base := time.Unix(1_700_000_000, 0).UTC()
	type wrote struct {
		job, host            string
		attempt, rank, world int // rank -1 is unknown
		at, steps            int // seconds after base; 0 steps are one save of a checkpoint
	}
	for _, c := range []struct {
		name string
		in   []wrote
		want string // ranks of the attempts of each run
	}{
		{"torchrun over two nodes without an id", []wrote{{"x", "a", 0, 0, 4, 0, 9}, {"x", "a", 0, 1, 4, 0, 9}, {"y", "b", 1, 2, 4, 1, 9}, {"y", "b", 1, 3, 4, 1, 9}}, "[map[1:[0 1 2 3]]]"},
		{"its restart", []wrote{{"x", "a", 0, 0, 2, 0, 9}, {"y", "b", 1, 1, 2, 1, 9}, {"x", "a", 2, 0, 2, 60, 9}, {"y", "b", 3, 1, 2, 61, 9}}, "[map[1:[0 1] 3:[0 1]]]"},
		{"two worlds at once", []wrote{{"x", "a", 0, 0, 1, 0, 9}, {"y", "b", 1, 0, 1, 1, 9}}, "[map[2:[0]] map[1:[0]]]"},
		{"worlds of other sizes", []wrote{{"x", "a", 0, 0, 4, 0, 9}, {"y", "b", 1, 1, 3, 1, 9}}, "[map[2:[1]] map[1:[0]]]"},
		{"one host", []wrote{{"x", "a", 0, 0, 4, 0, 9}, {"y", "a", 1, 1, 4, 1, 9}}, "[map[2:[1]] map[1:[0]]]"},
		{"one after the other", []wrote{{"x", "a", 0, 0, 2, 0, 9}, {"y", "b", 1, 1, 2, 60, 9}}, "[map[2:[1]] map[1:[0]]]"},
		{"two users, one name", []wrote{{"x", "a", 0, -1, 0, 0, 9}, {"y", "a", 0, -1, 0, 1, 9}}, "[map[1:[0]] map[1:[0]]]"},
		{"two users, with ranks", []wrote{{"x", "a", 0, 0, 2, 0, 9}, {"x", "a", 0, 1, 2, 0, 9}, {"y", "b", 0, 0, 2, 1, 9}, {"y", "b", 0, 1, 2, 1, 9}}, "[map[1:[0 1]] map[1:[0 1]]]"},
		{"two by hand at once", []wrote{{"x", "a", 0, -1, 0, 1, 9}, {"y", "a", 1, -1, 0, 0, 9}}, "[map[2:[0]] map[1:[0]]]"},
		{"prep; train", []wrote{{"x", "a", 0, -1, 0, 0, 0}, {"x", "a", 0, -1, 0, 2, 9}}, "[map[1:[0]]]"},
		{"train; test", []wrote{{"x", "a", 0, -1, 0, 0, 9}, {"x", "a", 0, -1, 0, 20, 0}}, "[map[1:[0] 2:[0]]]"},
		{"a rank that failed as it began", []wrote{{"x", "a", 0, 0, 1, 0, 0}, {"x", "a", 0, 0, 1, 2, 9}}, "[map[1:[0] 2:[0]]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for n, p := range c.in {
				at := base.Add(time.Duration(p.at) * time.Second)
				o := &dftracer.Options{Start: at, Process: dftracer.Process{PID: 100 + n, Host: p.host, Attempt: &p.attempt, SessionTag: "job", JobID: p.job}}
				if p.rank >= 0 {
					o.Process.Rank = &p.rank
				}
				w, err := dftracer.Create(filepath.Join(dir, fmt.Sprintf("trace%d.pfw.gz", n)), o)
				if err != nil {
					t.Fatal(err)
				}
				if p.world > 0 {
					tracefile.WriteCustom(w, "world_size", fmt.Sprint(p.world))
				}
				save, key := dftracer.NewKey("checkpoint", "capture"), dftracer.NewKey("pipeline", "train.iteration")
				if p.steps == 0 {
					w.WriteComplete(&save, dftracer.Span{TS: at.UnixMicro(), Dur: 100_000})
				}
				for i := range p.steps {
					w.WriteComplete(&key, dftracer.Span{TS: at.Add(time.Duration(i) * time.Second).UnixMicro(), Dur: 900_000}, dftracer.Int("step", int64(i)))
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				text := fmt.Sprintf(`{"version":1,"state":"ended","session_tag":"job","job":%q,"attempt":%d,"start":"%[1]s/%[2]d","program":"python","host":%[3]q,"started":%[4]q,"seen":%[5]q,"ended_by":"exit","exit_status":0}`,
					p.job, p.attempt, p.host, base.Add(time.Duration(p.attempt)*time.Second).Format(time.RFC3339Nano), at.Add(12*time.Second).Format(time.RFC3339Nano))
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("run.run%d.json", 2*p.attempt+2+int(p.job[0]-'x'))), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var got []map[int][]int
			for _, j := range collect(t, dir).Jobs() {
				ranks := make(map[int][]int)
				for _, p := range j.Job.Processes {
					ranks[p.Attempt] = append(ranks[p.Attempt], p.Rank)
				}
				got = append(got, ranks)
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}

// TestSilentStarts checks that a start without records is an attempt of its run, and that its
// time is downtime.
func TestSilentStarts(t *testing.T) {
	base := time.Unix(1_700_000_000, 0).UTC()
	type begun struct {
		job, key string
		end      string
		first    int // step, -1 for nothing recorded
	}
	const failed, well = `"ended_by":"exit","exit_status":1`, `"ended_by":"exit","exit_status":0`
	for _, c := range []struct {
		name string
		in   []begun // an hour apart, 12 s long, 10 s of steps
		want string  // number of each attempt, the silent ones with an end; hours of wall and downtime in seconds
	}{
		{"between, counted by a launcher", []begun{{"7", "7.0", failed, 0}, {"7", "7.0", failed, -1}, {"7", "7.0", well, 0}}, "[[1 2:failed: status 1 3] 7209.9 7190.1]"},
		{"first", []begun{{"7", "7.0", failed, -1}, {"7", "7.0", well, 0}}, "[[1:failed: status 1 2] 3609.9 3600.0]"},
		{"last", []begun{{"7", "7.0", failed, 0}, {"7", "7.0", failed, -1}}, "[[1 2:failed: status 1] 3612.0 3602.1]"},
		{"between two that go on, by hand", []begun{{"a", "", failed, 0}, {"b", "", failed, -1}, {"c", "", well, 10}}, "[[1 2:failed: status 1 3] 7209.9 7190.1]"},
		{"between two runs", []begun{{"a", "", failed, 0}, {"b", "", failed, -1}, {"c", "", well, 0}}, "[[3] 9.9 0.0][[1] 9.9 0.0]"},
		{"last, by hand", []begun{{"a", "", failed, 0}, {"b", "", failed, -1}}, "[[1] 9.9 0.0]"},
		{"ended well", []begun{{"7", "7.0", failed, 0}, {"7", "7.0", well, -1}, {"7", "7.0", well, 0}}, "[[1 3] 7209.9 7190.1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for n, b := range c.in {
				at := base.Add(time.Duration(n) * time.Hour)
				text := fmt.Sprintf(`{"version":1,"state":"ended","session_tag":"job","job":%q,"run":%q,"start":%q,"attempt":%d,"program":"python","started":%q,"seen":%q,%s}`,
					b.job, b.key, fmt.Sprint(b.key, "/", n), n, at.Format(time.RFC3339Nano), at.Add(12*time.Second).Format(time.RFC3339Nano), b.end)
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("run.run%d.json", n+2)), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if b.first < 0 {
					continue
				}
				w, err := dftracer.Create(filepath.Join(dir, fmt.Sprintf("trace%d.pfw.gz", n)), &dftracer.Options{Start: at, Process: dftracer.Process{PID: 100 + n, Attempt: &n, SessionTag: "job", JobID: b.job}})
				if err != nil {
					t.Fatal(err)
				}
				app, key := dftracer.NewKey("ai_root", "ai_root"), dftracer.NewKey("pipeline", "train.iteration")
				w.WriteComplete(&app, dftracer.Span{TS: at.UnixMicro(), Dur: 9_900_000})
				for i := range 10 {
					w.WriteComplete(&key, dftracer.Span{TS: at.Add(time.Duration(i) * time.Second).UnixMicro(), Dur: 900_000}, dftracer.Int("step", int64(b.first+i)))
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
			}
			got := ""
			for _, j := range collect(t, dir).Jobs() {
				r := report.Build(j)
				var list []string
				for _, a := range r.Attempts {
					text := fmt.Sprint(a.Number)
					if a.Silent {
						text += ":" + a.Outcome.Text
					}
					list = append(list, text)
				}
				got += fmt.Sprintf("[%v %.1f %.1f]", list, float64(r.Ledger.Wall)/1e9, float64(r.Ledger.Categories[account.Downtime])/1e9)
				if sum := r.Ledger.Categories.Sum(); sum != r.Ledger.Wall*int64(len(r.Ranks)) {
					t.Errorf("the categories sum to %d ns, want %d as the ranks times wall", sum, r.Ledger.Wall*int64(len(r.Ranks)))
				}
				accounts, err := job.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				all, err := account.Collect(accounts)
				if err != nil {
					t.Fatal(err)
				}
				same := func(a account.Account) bool {
					return a.Job.Label == j.Job.Label && a.Ledger.Report(account.Query{}).Wall == r.Ledger.Wall
				}
				if !slices.ContainsFunc(all, same) {
					t.Errorf("%s: no report has the same ledger", j.Job.Label)
				}
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

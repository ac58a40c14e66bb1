package report_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/report"
)

// The end of a killed rank is a range if its trace has a flush interval, and known if
// trainspan run waited for the process.
func TestKilledRank(t *testing.T) {
	const start, sec = int64(1_795_890_000), int64(1e9)
	for name, tt := range map[string]struct {
		flush   bool
		command int   // process id in run.json
		latest  int64 // of the first attempt, milliseconds after its last record; 0 for the last record
		want    string
	}{
		"foreign trace":    {false, 8, 0, "6 steps repeated, 2.0 s down; 2.6 s in all."},
		"flush interval":   {true, 8, 500, "6 to 11 steps repeated, 1.5 to 2.0 s down; 2.6 s in all: up to 500 ms before a kill are not on record."},
		"known exit":       {true, 7, 800, "6 to 14 steps repeated, 1.2 s down; 2.6 s in all: up to 800 ms before a kill are not on record."},
		"known, no record": {false, 7, 800, "6 to 14 steps repeated, 1.2 s down; 2.6 s in all: up to 800 ms before a kill are not on record."},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for n := range 2 {
				at := start*1e6 + int64(n)*3e6 // the first attempt lasts one second
				pid := 7 + 10*n
				var b strings.Builder
				b.WriteString("[\n")
				line := func(format string, args ...any) {
					fmt.Fprintf(&b, `{"cat":"dftracer","pid":%d,"tid":%d,`+format+"}\n", append([]any{pid, pid}, args...)...)
				}
				line(`"id":1,"name":"HH","ph":"M","args":{"hhash":"6882804a826580cd","name":"h","value":"6882804a826580cd"}`)
				line(`"id":2,"name":"start","ts":%d,"dur":0,"ph":"X","args":{"hhash":"6882804a826580cd","level":1,"p_idx":-1,"version":"2.0.0","attempt":%d,"job_id":"j","session_tag":"s"}`, at, n)
				if tt.flush {
					line(`"id":3,"name":"CM","ph":"M","args":{"hhash":"6882804a826580cd","name":"flush_interval_us","value":"500000"}`)
				}
				line(`"id":4,"name":"CM","ph":"M","args":{"hhash":"6882804a826580cd","name":"span.begin","value":"train","begin_id":5,"begin_cat":"pipeline","begin_ts":%d,"level":1,"p_idx":-1,"train_iterations_start":%d}`, at, 4*n)
				for i := range int64(10) {
					fmt.Fprintf(&b, `{"id":%d,"name":"train.iteration","cat":"pipeline","pid":%d,"tid":%d,"ts":%d,"dur":100000,"ph":"X","args":{"hhash":"6882804a826580cd","level":2,"p_idx":5,"step":%d}}`+"\n",
						10+i, pid, pid, at+i*100_000, int64(4*n)+i)
				}
				if n == 1 {
					line(`"id":30,"name":"end","ts":%d,"dur":0,"ph":"X","args":{"hhash":"6882804a826580cd","level":1,"p_idx":-1,"num_events":20}`, at+1_000_000)
				}
				from, ended := time.UnixMicro(at-1000), time.UnixMicro(at+1_800_000)
				r := rundir.Run{Version: rundir.Version, Name: "s", Session: "s", Job: "j", Attempt: n, Program: "p", Host: "h", CommandPID: tt.command + 10*n,
					State: rundir.Ended, Started: from, Seen: ended, Ended: &ended, EndedBy: rundir.BySignal, Signal: "SIGKILL"}
				text, err := json.Marshal(&r)
				folder := filepath.Join(dir, fmt.Sprintf("attempt-%d", n))
				if err == nil {
					err = os.Mkdir(folder, 0o755)
				}
				if err == nil {
					err = os.WriteFile(filepath.Join(folder, rundir.FileName), text, 0o600)
				}
				if err == nil {
					err = os.WriteFile(filepath.Join(folder, "trace.pfw"), []byte(b.String()), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			state, err := report.Load(nil, dir)
			if err != nil {
				t.Fatal(err)
			}
			jobs := state.Jobs()
			if len(jobs) != 1 {
				t.Fatalf("%d jobs, want 1", len(jobs))
			}
			r := report.Build(jobs[0])
			if !strings.Contains(r.Verdict.Sentence, tt.want) {
				t.Errorf("sentence %q, want one with %q", r.Verdict.Sentence, tt.want)
			}
			a := r.Attempts[0]
			if got := max(a.Latest-a.Stop, 0) / 1e6; got != tt.latest {
				t.Errorf("it lived for up to %d ms after its last record, want %d", got, tt.latest)
			}
			if got, want := r.Ledger.Categories[account.Unobserved]+r.Ledger.Categories[account.Downtime], 2*sec; got != want || r.Ledger.Categories.Sum() != r.Ledger.Wall {
				t.Errorf("unobserved and down are %d ns, want %d; %v of %d", got, want, r.Ledger.Categories, r.Ledger.Wall)
			}
		})
	}
}

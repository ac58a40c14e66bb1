package job_test

import (
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
)

func TestLatest(t *testing.T) {
	at := func(ms int64) time.Time { return time.Unix(1e9, ms*1e6) }
	start := func(pid int, ended int64, by string) *rundir.Run {
		end := at(ended)
		return &rundir.Run{Job: "j", Host: "h", CommandPID: pid, State: rundir.Ended, EndedBy: by, Started: at(-1000), Seen: end, Ended: &end}
	}
	change := func(s *rundir.Run, f func(*rundir.Run)) *rundir.Run { f(s); return s }
	for name, tt := range map[string]struct {
		flush  int64
		ended  bool
		starts []*rundir.Run
		want   int64 // milliseconds after the last record
		exact  bool
	}{
		"nothing is known":                   {0, false, nil, 0, true},
		"its flush interval":                 {500, false, nil, 500, false},
		"it ended in good order":             {500, true, nil, 0, true},
		"a save that ended after it":         {500, true, nil, -100, true},
		"the end of its launcher":            {500, false, []*rundir.Run{start(8, 200, rundir.ByExit)}, 200, false},
		"a launcher that went on":            {500, false, []*rundir.Run{start(8, 9000, rundir.ByExit)}, 500, false},
		"it is the command":                  {500, false, []*rundir.Run{start(7, 300, rundir.BySignal)}, 300, true},
		"the command, which was silent":      {0, false, []*rundir.Run{start(7, 3000, rundir.BySignal)}, 3000, true},
		"nobody saw how the command ended":   {500, false, []*rundir.Run{start(7, 300, rundir.ByUnknown)}, 500, false},
		"a start on another host":            {500, false, []*rundir.Run{change(start(7, 300, rundir.BySignal), func(s *rundir.Run) { s.Host = "other" })}, 500, false},
		"a start of another job":             {500, false, []*rundir.Run{change(start(7, 300, rundir.BySignal), func(s *rundir.Run) { s.Job = "other" })}, 500, false},
		"a start that was over before":       {500, false, []*rundir.Run{start(7, -10, rundir.BySignal)}, 500, false},
		"a start that came after the record": {500, false, []*rundir.Run{change(start(7, 300, rundir.BySignal), func(s *rundir.Run) { s.Started = at(100) })}, 500, false},
		"a start that goes on":               {500, false, []*rundir.Run{change(start(7, 300, ""), func(s *rundir.Run) { s.State, s.Ended = rundir.Running, nil })}, 500, false},
	} {
		t.Run(name, func(t *testing.T) {
			last := at(0).UnixNano()
			p := &job.Process{PID: 7, Host: "h", JobID: "j", LastSeen: last, End: job.NoEnd, Flush: tt.flush * 1e6}
			if tt.ended {
				p.End = last + tt.want*1e6
			}
			j := &job.Job{Starts: tt.starts}
			got, exact := j.Latest(p)
			if (got-last)/1e6 != tt.want || exact != tt.exact {
				t.Errorf("Latest() = %d ms after the last record, %t, want %d ms, %t", (got-last)/1e6, exact, tt.want, tt.exact)
			}
		})
	}
}

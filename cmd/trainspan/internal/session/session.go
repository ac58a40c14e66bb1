//go:build unix

package session

import (
	"fmt"
	"sync"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/launch"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/resources"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// Session is the telemetry of one start of a command.
type Session struct {
	*start
	otlp     *otlpSide
	python   *pythonSide
	profiles *profiles
	usage    *usage
	metrics  *jobMetrics
	hangs    *hangs
	cgroup   *resources.Cgroup
	kills    oomKills
	beating  sync.WaitGroup
	stopBeat chan struct{}
	runID    string // id in trainspan runs; empty if the user named the folder of the files
}

// open makes the directory and starts the parts that must exist before the
// command. A part that does not start is omitted and reported; without a
// directory no part starts.
func open(set Settings, out *display.Writer) (*Session, launch.Ready, error) {
	begun, err := begin(set, out)
	if err != nil {
		return nil, launch.Ready{}, fmt.Errorf("cannot create a directory for its files: %w", err)
	}
	s := &Session{start: begun, stopBeat: make(chan struct{})}
	ready := s.environment()
	if set.Profile != "" {
		s.profiles = newProfiles(begun)
	}
	if set.OTLP || set.Forward != "" {
		s.try("the OTLP receiver", func() (err error) { s.otlp, err = startOTLP(begun, &ready); return err })
	}
	s.try("the client for Python", func() (err error) { s.python, err = startPython(begun, &ready); return err })
	s.try("the metrics of the job", func() (err error) { s.metrics, err = startMetrics(begun); return err })
	s.write()
	return s, ready, nil
}

// beat is the interval at which run.json records that the command is running.
// Its whole contents are updated after this time, then after twice as long and
// so on up to slowest, because each update is a new file, and a large job has a
// thousand of them on one file system.
const (
	beat    = 5 * time.Second
	slowest = 5 * time.Minute
)

// started starts the parts that need the command's processes.
func (s *Session) started(m *launch.Started) {
	s.mu.Lock()
	s.run.CommandPID, s.run.Started, s.run.Seen = m.PID, m.At, m.At
	s.mu.Unlock()
	s.cgroup = resources.FindCgroup("/proc", "/sys", m.PID)
	s.kills = oomKills{first: s.cgroup.OOMKills()}
	s.kills.last = s.kills.first
	if !s.set.NoUsage {
		s.try("the sampling of resources", func() error { s.usage = startUsage(s.start, m.PID, s.cgroup); return nil })
	}
	s.python.started(m.PID)
	s.hangs = startHangs(s.start, s.python)
	if s.profiles != nil {
		s.profiles.start()
	}
	s.write()
	s.beating.Go(func() {
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		next, pause, printed := beat, beat, 0
		for {
			select {
			case <-s.stopBeat:
				return
			case now := <-ticker.C:
				kills := s.cgroup.OOMKills()
				s.mu.Lock()
				s.kills.note(kills, now)
				s.run.Seen = now
				more := len(s.run.Problems) > printed
				printed = len(s.run.Problems)
				s.mu.Unlock()
				if next -= beat; next > 0 && !more {
					s.alive(now)
					continue
				}
				s.write()
				pause = min(2*pause, slowest)
				next = pause
			}
		}
	})
}

// write updates run.json with the state of the parts.
func (s *Session) write() {
	s.record.write(func(r *rundir.Run) {
		s.usage.describe(r)
		s.otlp.describe(r)
		s.python.describe(r)
	})
}

//go:build unix

package session

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/launch"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/resources"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/rundir"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/internal/visible"
)

// Session is the telemetry of one start of a command.
type Session struct {
	set   Settings
	out   io.Writer // for the person at the terminal
	log   *slog.Logger
	began time.Time

	where rundir.Place
	dir   string // absolute
	token string
	ranks config.Ranks
	job   string // of the processes of a launcher that gives none, empty for none

	mu   sync.Mutex // of what follows
	run  rundir.Run
	file *rundir.File

	otlp     *otlpSide
	python   *pythonSide
	profiles *profiles
	before   map[string]fs.FileInfo // files of the profiler that were there already
	usage    *resources.Sampler
	node     *resources.Node
	counters *dftracer.Writer
	cgroup   *resources.Cgroup
	oomAt    int64 // kills before the command
	beating  sync.WaitGroup
	stopBeat chan struct{}
	said     int // problems that were said
}

// open makes the directory and starts what has to be there before the command.
// What does not start is left out and said; without a directory nothing is.
func open(set Settings, out io.Writer) (*Session, launch.Ready, error) {
	s := &Session{set: set, out: out, began: time.Now(), stopBeat: make(chan struct{})}
	s.log = slog.New(problemHandler{s})
	if err := s.place(); err != nil {
		return nil, launch.Ready{}, fmt.Errorf("%w: %w", errNoDir, err)
	}
	ready := s.environment()
	if set.Profile != "" {
		s.before = filesIn(string(set.Profile))
	}
	if set.OTLP || set.Forward != "" {
		s.try("the OTLP receiver", func() error { return s.startOTLP(&ready) })
	}
	s.try("the client for Python", func() error { return s.startPython(&ready) })
	s.write()
	return s, ready, nil
}

// try runs a part of the start. A part that fails, or panics, is left out.
func (s *Session) try(what string, f func() error) {
	defer func() {
		if p := recover(); p != nil {
			s.problem("%s: panicked: %v; see "+see.Run, what, p)
		}
	}()
	if err := f(); err != nil {
		s.problem("%s: %v; see "+see.Run, what, err)
	}
}

// maxProblems bounds the list in run.json.
const maxProblems = 50

// problem notes what went wrong with telemetry, once each. Before the command has
// started it is said at once; later the terminal is the command's, and it is said
// at the end.
func (s *Session) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.mu.Lock()
	known := slices.Contains(s.run.Problems, text) || len(s.run.Problems) >= maxProblems
	if !known {
		s.run.Problems = append(s.run.Problems, text)
	}
	early := s.run.CommandPID == 0
	if early {
		s.said = len(s.run.Problems)
	}
	s.mu.Unlock()
	if !known && early {
		s.say("%s", text)
	}
}

// say writes a line for the person at the terminal.
func (s *Session) say(format string, args ...any) {
	_, _ = visible.Fprintf(s.out, "trainspan: "+format+"\n", args...) // nobody is left to tell
}

// problemHandler makes problems of what libraries log.
type problemHandler struct{ s *Session }

func (problemHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (h problemHandler) WithAttrs([]slog.Attr) slog.Handler         { return h }
func (h problemHandler) WithGroup(string) slog.Handler              { return h }

func (h problemHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(", %s: %v", a.Key, a.Value)
		return true
	})
	h.s.problem("%s", text)
	return nil
}

// beat is how often run.json says that the command lives. All that is in it is brought up
// to date after so long, then after twice as long and so on to slowest: each time is a new
// file, and a large job has a thousand of them on one file system.
const (
	beat    = 5 * time.Second
	slowest = 5 * time.Minute
)

// started begins what needs the command's processes.
func (s *Session) started(m *launch.Started) {
	s.mu.Lock()
	s.run.CommandPID, s.run.Started, s.run.Seen = m.PID, m.At, m.At
	s.mu.Unlock()
	s.cgroup = resources.FindCgroup("/proc", "/sys", m.PID)
	s.oomAt = s.cgroup.OOMKills()
	if !s.set.NoUsage {
		s.try("the sampling of resources", func() error { return s.startUsage(m.PID) })
	}
	if s.set.Profile != "" {
		s.try("the import of profiles", s.startProfiles)
	}
	s.write()
	s.beating.Go(func() {
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		next, pause, said := beat, beat, 0
		for {
			select {
			case <-s.stopBeat:
				return
			case now := <-ticker.C:
				s.mu.Lock()
				s.run.Seen = now
				more := len(s.run.Problems) > said
				said = len(s.run.Problems)
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

// startUsage samples the resources of the command's processes.
func (s *Session) startUsage(pid int) error {
	own := resources.Member{Command: pid, Base: s.set.PID, Exclude: unix.Getpid()}
	visible := os.Getenv("CUDA_VISIBLE_DEVICES")
	gpus := resources.FindGPUs(visible, s.ranks.LocalRank.Or(-1))
	if gpus != nil {
		own.GPUs = gpus.Only
	}
	if s.ranks.LocalRank.IsSet() || s.ranks.Rank.IsSet() { // others may be here
		for _, in := range []string{sharedMemory, os.TempDir()} {
			node, err := resources.Meet(in, fmt.Sprintf("%s/%d", s.dirOfJob(), s.where.Attempt), own)
			if err == nil {
				s.node = node
				break
			}
		}
	}
	s.usage = resources.Start(resources.Options{Member: own, Node: s.node, Open: s.openCounters, Cgroup: s.cgroup, Sampled: gpus})
	return nil
}

// dirOfJob is the folder of the job by its whole path, as all on this node know it.
func (s *Session) dirOfJob() string {
	dir, err := filepath.Abs(s.where.Job)
	if err != nil {
		return s.where.Job
	}
	return dir
}

// openCounters makes the trace of resources.
func (s *Session) openCounters() *dftracer.Writer {
	tag, attempt := s.tag(), s.where.Attempt
	w, err := dftracer.Create(filepath.Join(s.dir, "resources.pfw.gz"), &dftracer.Options{
		Process: dftracer.Process{PID: s.set.PID, Exec: s.set.Command.Program, Command: s.set.Command.Program},
		Attempt: &attempt, SessionTag: tag, JobID: s.run.Job,
		OnError: func(err error) { s.problem("resources: %v; see "+see.File, err) },
	})
	if err != nil {
		s.problem("resources: %v; see "+see.File, err) // what they are evidence of is known all the same
		w = nil
	}
	s.counters = w
	return w
}

// alive notes in run.json that the command lives.
func (s *Session) alive(now time.Time) {
	s.mu.Lock()
	err := s.file.Beat(now)
	s.mu.Unlock()
	if err != nil {
		s.problem("run.json: %v; see "+see.File, err)
	}
}

// write brings run.json up to date.
func (s *Session) write() {
	s.mu.Lock()
	s.describe()
	err := s.file.Write(&s.run)
	s.mu.Unlock()
	if err != nil {
		s.problem("run.json: %v; see "+see.File, err)
	}
}

// maxProcesses bounds the list in run.json.
const maxProcesses = 256

// describe notes what the parts know. The lock is held.
func (s *Session) describe() {
	if s.usage != nil {
		list, more := s.usage.Processes()
		slices.SortFunc(list, func(a, b resources.Process) int { return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.PID, b.PID)) })
		s.run.Processes = s.run.Processes[:0]
		for i := range list[:min(len(list), maxProcesses)] {
			p := &list[i]
			s.run.Processes = append(s.run.Processes, rundir.Process{PID: p.PID, Parent: p.Parent, Program: p.Program, First: p.First, Seen: p.Seen})
		}
		s.run.MoreProcesses = more + max(len(list)-maxProcesses, 0)
		s.run.Evidence, s.run.GPUs = s.usage.Evidence(), s.usage.GPUs()
	}
	s.otlp.describe(&s.run)
	s.python.describe(&s.run)
}

//go:build unix

package session

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/launch"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/environ"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/platform/proc"
	"github.com/trainspan/trainspan/internal/platform/redact"
	"github.com/trainspan/trainspan/internal/tracefile/pytext"
	"golang.org/x/sys/unix"
)

// Serve runs the telemetry process: it communicates with trainspan run over two
// pipes and returns when the files are complete. Problems and the text of the
// report go there, because the terminal belongs to the command.
func Serve(in io.Reader, to io.Writer) {
	line := launch.NewLine(to)
	out := display.NewWriter(terminal{line})
	out.ASCII = display.PlainLocale(os.LookupEnv)
	hear(line)
	messages := make(chan launch.Message)
	go func() {
		defer close(messages)
		decoder := json.NewDecoder(bufio.NewReader(in))
		for {
			var m launch.Message
			if decoder.Decode(&m) != nil {
				return
			}
			if m.Asked != 0 {
				go func() {
					awaitSignals()
					_ = line.Send(&launch.Message{Answered: m.Asked})
				}()
				continue
			}
			messages <- m
		}
	}()
	first := <-messages
	var set Settings
	if err := json.Unmarshal(first.Settings, &set); err != nil {
		return // trainspan run ended at once
	}
	s, ready, err := open(set, out)
	if err != nil {
		(&record{out: out}).say("no telemetry: %v; the command runs without it; see "+helptopic.Run, err)
		unrecorded(line, messages)
		return
	}
	_ = line.Send(&launch.Message{Ready: &ready}) // if it is gone, the messages end
	var pid int
	for m := range messages {
		switch {
		case m.Started != nil:
			pid = m.Started.PID
			s.started(m.Started)
		case m.Got != 0:
			s.asked(m.Got, time.Now())
		case m.Exited != nil:
			s.finish(m.Exited, sync.OnceFunc(func() { _ = line.Send(&launch.Message{Reported: true}) }))
			return
		}
	}
	if pid > 0 {
		// trainspan run was killed. The command continues, and so does this process.
		waitFor(pid)
	}
	s.finish(nil, func() {})
}

// awaitSignals waits 50 ms for signals that were sent before. It waits for a
// CPU ten times, as each process that passes a signal on does, because on a
// busy machine both take longer.
func awaitSignals() {
	for range 10 {
		time.Sleep(5 * time.Millisecond)
	}
}

// terminal is the terminal of trainspan run.
type terminal struct{ line *launch.Line }

func (t terminal) Write(p []byte) (int, error) {
	return len(p), t.line.Send(&launch.Message{Say: launch.Bytes(p)})
}

// unrecorded replaces a session if nothing can be recorded: programs can still
// import the client, and signals are still reported.
func unrecorded(line *launch.Line, messages <-chan launch.Message) {
	ready, remove := Alone()
	defer remove()
	_ = line.Send(&launch.Message{Ready: ready}) // if it is gone, the messages end
	pid := 0
	for m := range messages {
		switch {
		case m.Started != nil:
			pid = m.Started.PID
		case m.Exited != nil:
			return
		}
	}
	if pid > 0 {
		waitFor(pid)
	}
}

// Alone returns additions to the environment of an unrecorded command, so that
// a program finds the client that it imports, and a function to call when the
// command has ended.
func Alone() (*launch.Ready, func()) {
	client, ready := &pythonSide{owner: os.Getppid()}, launch.Ready{Env: map[string]launch.Bytes{environ.Torch: "0"}}
	if _, err := client.client(&ready); err != nil {
		ready.Env = nil // the program has the client elsewhere, or fails
	}
	return &ready, client.remove
}

// hear reports every signal of this process to trainspan run, and does not
// react to it: this process ends after the command.
func hear(line *launch.Line) {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, launch.Passed()...)
	signal.Ignore(syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTOU)
	go func() {
		for s := range signals {
			_ = line.Send(&launch.Message{Signal: s.(syscall.Signal)})
		}
	}()
}

// waitFor waits for the end of a process that is not a child.
func waitFor(pid int) {
	if fd, err := pidfd(pid); err == nil {
		defer unix.Close(fd) //nolint:errcheck // only waited for
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1) //nolint:gosec // a file number
			if err != unix.EINTR {                                                       //nolint:errorlint // Poll returns the bare number
				return
			}
		}
	}
	for proc.Alive(pid, 0) {
		time.Sleep(200 * time.Millisecond)
	}
}

// asked records the first signal that asks the command to end. Later signals
// are ignored: they may be a kill of all processes of this machine.
func (s *Session) asked(sig syscall.Signal, at time.Time) {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
	default:
		return
	}
	s.mu.Lock()
	first := s.run.StoppedAt == nil
	if first {
		s.run.Stopped, s.run.StoppedAt = unix.SignalName(sig), &at
	}
	s.mu.Unlock()
	if first {
		s.write()
	}
}

// The time to complete the files, for each part and for all. With the last metrics and
// the report it is less than the minute that the launcher waits.
const (
	closing    = 20 * time.Second
	closingAll = 40 * time.Second
)

// finish completes the files and reports. It calls reported when it has nothing
// more to print or write, except for a page that takes long. A nil message
// means that the command's end was not observed.
func (s *Session) finish(m *launch.Exited, reported func()) {
	s.outcome(m)
	close(s.stopBeat)
	s.beating.Wait()
	s.hangs.close()
	all, cancel := context.WithTimeout(context.Background(), closingAll)
	defer cancel()
	end := func(part string, complete func(context.Context) error) {
		s.try(part, func() error {
			ctx, cancel := context.WithTimeout(all, closing)
			defer cancel()
			return complete(ctx)
		})
	}
	if s.usage != nil {
		end("the sampling of resources", s.usage.close)
	}
	if s.otlp != nil {
		end("the OTLP receiver", s.otlp.close)
	}
	if s.python != nil {
		end("the rings of Python processes", s.python.close)
		if s.python.other != "" {
			s.problem("the program's environment has another version of the client (%s); the client of this command was used: install both from one wheel; see "+helptopic.Python, s.python.other)
		}
		if missing := s.python.missing(s.where.Dir); missing != "" {
			s.lack("%s", missing)
		}
		if s.python.unserved() {
			s.problem("outputs.prometheus.address has no effect on this job: it is for programs in Go or with one-logger's callbacks, which count their own steps; trainspan run --metrics ADDRESS serves the metrics of any job; see " + helptopic.Metrics)
		}
		if lost := s.python.unsent(); lost != "" {
			s.problem("%s; see "+helptopic.Delivery, lost)
		}
	}
	if s.profiles != nil {
		end("the import of profiles", s.profiles.close)
	}
	s.write()
	if s.metrics != nil { // when all files are complete
		s.try("the metrics of the job", s.metrics.close)
	}
	if m != nil && m.Failed == "" && !s.set.Quiet {
		s.report(m.Terminal, reported)
	}
	s.write()
	reported()
}

// outcome records how the command ended.
func (s *Session) outcome(m *launch.Exited) {
	kills := s.cgroup.OOMKills()
	s.mu.Lock()
	defer s.mu.Unlock()
	r, now := &s.run, time.Now()
	r.State = rundir.Ended
	if m == nil {
		r.Seen, r.Ended, r.EndedBy = now, &now, rundir.ByUnknown
		return
	}
	r.Seen, r.Ended = m.At, &m.At
	if m.Failed != "" {
		r.EndedBy = rundir.ByNotStarting
		r.Problems = append(r.Problems, m.Failed)
		return
	}
	st := &m.Status
	r.User, r.System, r.MaxRSS = st.User.Seconds(), st.System.Seconds(), st.MaxRSS
	s.kills.note(kills, m.At)
	r.OOMKills = s.kills.last - s.kills.first
	if st.Signal != 0 {
		r.EndedBy, r.Signal, r.CoreDumped = rundir.BySignal, unix.SignalName(st.Signal), st.Core
	} else {
		code := st.Code
		r.EndedBy, r.ExitStatus = rundir.ByExit, &code
	}
	if file := identity.ErrorFile(os.LookupEnv); file != "" && st.ExitCode() != 0 {
		r.Error = elasticError(file, r.Started)
	}
	if s.set.Missing != "" && st.ExitCode() == 2 { // Python's own status for it
		r.Error = "can't open file '" + s.set.Missing + "': No such file or directory"
	}
	if s.kills.explain(m.At) && (st.Signal != 0 || st.Code != 0) {
		r.EndedBy = rundir.ByMemory
	}
}

// oomKills counts the processes that were killed for lack of memory in the
// control group. The group may contain other jobs, such as a login session.
type oomKills struct {
	first, last int64 // before the command, and now; negative if unknown
	at          time.Time
}

// killedWithin is the longest time between a kill and the end of the command
// that it explains. Other ranks wait for a killed one until a timeout: 10
// minutes with NCCL.
const killedWithin = 15 * time.Minute

func (k *oomKills) note(n int64, now time.Time) {
	if k.first >= 0 && n > k.last {
		k.last, k.at = n, now
	}
}

// explain reports whether a kill may have ended a command at a time.
func (k *oomKills) explain(at time.Time) bool {
	return k.last > k.first && at.Sub(k.at) <= killedWithin
}

// maxElastic is the maximum number of bytes that are read from an error file.
const maxElastic = 1 << 20

// elasticError returns the line of the exception that a worker of torchelastic
// wrote to the file path, or "" if the file is missing or older than began, the
// time of the start.
func elasticError(path string, began time.Time) string {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxElastic || info.ModTime().Before(began.Truncate(time.Second)) {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var file, inner struct {
		Message json.RawMessage `json:"message"`
	}
	var message string
	if json.Unmarshal(text, &file) != nil {
		return ""
	}
	if json.Unmarshal(file.Message, &inner) == nil {
		file = inner
	}
	if json.Unmarshal(file.Message, &message) != nil {
		return ""
	}
	return redact.Text(pytext.ExceptionLine(message))
}

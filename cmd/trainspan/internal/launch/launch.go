//go:build unix

package launch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

// Options describe the command and how to run it.
type Options struct {
	Path string   // of the program
	Args []string // its arguments, including the program's name
	Env  []string // its environment, before the telemetry process adds to it

	// Helper is the command line of the telemetry process, including its program.
	// If it is empty, the command runs without one.
	Helper []string
	// Alone, if not nil, returns additions to the command's environment without a
	// telemetry process, and a function that is called when the command has ended.
	Alone func() (*Ready, func())
	// Settings are sent to the telemetry process as the first message.
	Settings any

	// Note is called with messages for the user at the terminal; Out gets the text
	// of the telemetry process.
	Note func(format string, args ...any)
	Out  io.Writer
	// Terminal describes the terminal of Out. It is called when the command has
	// ended, because a window may change its size meanwhile. Nil means no terminal.
	Terminal func() Terminal

	// Prepare is the maximum time of the telemetry process before the command
	// starts, Finish that after the end of the command. 0 means 30 s for Prepare
	// and 60 s for Finish.
	Prepare, Finish time.Duration
}

// Defaults of Options.
const (
	defaultPrepare = 30 * time.Second // it is ready in 0.1 s unless the node is very busy
	defaultFinish  = time.Minute
)

// echo is the time after the end of the command in which a signal counts as the
// one that ended it.
const echo = time.Second

// launcher is one run of a command.
type launcher struct {
	o        Options
	ready    chan *Ready
	reported chan struct{} // closed when the telemetry process has sent everything
	done     chan struct{} // closed when the telemetry process ends or closes its pipe
	to       *Line
	pipe     *os.File // for to
	relay    *relay
	exits    chan exit
	clean    func() // called after the command
	dir      string // of the files, may be empty
}

type exit struct {
	pid    int
	status Status
}

// Run runs the command and returns the exit status for this process. It handles
// the signals of this process until it returns and waits for all its children:
// the caller must not start any. Nothing that happens to the telemetry process
// affects the command or the status.
func Run(o Options) int {
	if o.Prepare == 0 {
		o.Prepare = defaultPrepare
	}
	if o.Finish == 0 {
		o.Finish = defaultFinish
	}
	l := &launcher{o: o, ready: make(chan *Ready, 1), reported: make(chan struct{}), done: make(chan struct{}), exits: make(chan exit, 16), clean: func() {}}
	l.relay = newRelay(l.done, func(n int) { l.send(&Message{Asked: n}) })
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, Passed()...)
	defer signal.Stop(signals)
	adopt()
	helper := l.startHelper()
	env := l.environment(signals)
	defer func() { l.clean() }()

	attr := &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}}
	pid, err := syscall.ForkExec(o.Path, o.Args, attr)
	if err == syscall.ENOEXEC { //nolint:errorlint // ForkExec returns the bare number
		if path, args, ok := Script(o.Path, o.Args); ok {
			pid, err = syscall.ForkExec(path, args, attr)
		}
	}
	if err != nil {
		o.Note("%s: %s", o.Args[0], reason(err))
		l.send(&Message{Exited: &Exited{At: time.Now(), Failed: err.Error(), Status: Status{Code: statusOf(err)}}})
		l.hangUp()
		go l.reap()
		l.waitForHelper(helper, signals)
		return statusOf(err)
	}
	l.send(&Message{Started: &Started{PID: pid, At: time.Now()}})
	go l.reap()
	for _, s := range l.relay.pending {
		l.send(&Message{Got: s})
		_ = syscall.Kill(pid, s) // it may have ended
	}
	status := l.wait(pid, &helper, signals)
	ended := &Exited{Status: status, At: time.Now()}
	if o.Terminal != nil {
		ended.Terminal = o.Terminal()
	}
	l.send(&Message{Exited: ended})
	l.hangUp()
	l.waitForHelper(helper, signals)
	return status.ExitCode()
}

// reason returns why an existing program does not start.
func reason(err error) string {
	if err == syscall.ENOENT { //nolint:errorlint // ForkExec returns the bare number
		return "its interpreter or loader does not exist"
	}
	return err.Error()
}

func statusOf(err error) int {
	if err == syscall.ENOENT { //nolint:errorlint // ForkExec returns the bare number
		return StatusNotFound
	}
	return StatusNotExecutable
}

// startHelper starts the telemetry process and returns its process id, or 0 if
// no process was started.
func (l *launcher) startHelper() int {
	if len(l.o.Helper) == 0 {
		close(l.done)
		return 0
	}
	pid, err := l.helper()
	if err != nil {
		l.o.Note("no telemetry: cannot start its process: %v; the command runs without it; see "+helptopic.Run, err)
		close(l.done)
		return 0
	}
	return pid
}

func (l *launcher) helper() (pid int, err error) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer theirs.Close() //nolint:errcheck // the child has it
	from, into, err := os.Pipe()
	if err != nil {
		_ = ours.Close()
		return 0, err
	}
	defer into.Close() //nolint:errcheck // the child has it
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		defer null.Close() //nolint:errcheck // the child has it
		path, failed := os.Executable()
		if err = failed; err == nil {
			pid, err = syscall.ForkExec(path, l.o.Helper, &syscall.ProcAttr{
				Env: os.Environ(), Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), theirs.Fd(), into.Fd()},
			})
		}
	}
	if err != nil {
		_, _ = ours.Close(), from.Close()
		return 0, err
	}
	go l.listen(from)
	settings, err := json.Marshal(l.o.Settings)
	if err != nil {
		settings = nil
	}
	l.pipe, l.to = ours, NewLine(ours)
	l.send(&Message{Settings: settings})
	return pid, nil
}

func (l *launcher) send(m *Message) {
	if l.to != nil {
		_ = l.to.Send(m) // if the process is gone, listen detects it
	}
}

// hangUp closes the pipe to the telemetry process.
func (l *launcher) hangUp() {
	if l.pipe != nil {
		_ = l.pipe.Close()
	}
}

// listen reads the messages of the telemetry process.
func (l *launcher) listen(from *os.File) {
	defer close(l.done)
	defer from.Close() //nolint:errcheck // only read
	lines := json.NewDecoder(bufio.NewReader(from))
	for {
		var m Message
		if lines.Decode(&m) != nil {
			return
		}
		if m.Ready != nil {
			select {
			case l.ready <- m.Ready:
			default:
			}
		}
		if m.Say != "" {
			_, _ = display.Fprintf(l.o.Out, "%s", display.Own(m.Say)) // an error cannot be reported
		}
		if m.Reported {
			close(l.reported)
		}
		if m.Signal != 0 || m.Answered != 0 {
			m.at = time.Now()
			select {
			case l.relay.messages <- m:
			default: // no request is waiting
			}
		}
	}
}

// environment waits for the telemetry process and returns the variables of the
// command. It stores signals that arrive meanwhile.
func (l *launcher) environment(signals <-chan os.Signal) []string {
	timeout := time.NewTimer(l.o.Prepare)
	defer timeout.Stop()
	for {
		select {
		case s := <-signals:
			l.relay.pending = append(l.relay.pending, s.(syscall.Signal))
		case r := <-l.ready:
			l.dir = string(r.Dir)
			return withVariables(l.o.Env, r)
		case <-l.done:
			select {
			case r := <-l.ready: // it sent Ready and died
				l.dir = string(r.Dir)
				return withVariables(l.o.Env, r)
			default:
			}
			return l.alone()
		case <-timeout.C:
			l.o.Note("no telemetry: its process was not ready within %v; the command runs without it; see "+helptopic.Run, l.o.Prepare)
			l.hangUp()
			l.to, l.pipe = nil, nil
			nobody := make(chan struct{}) // receives signals from now on
			close(nobody)
			l.relay.noReceiver = nobody
			return l.alone()
		}
	}
}

// alone returns the environment of a command without a telemetry process.
func (l *launcher) alone() []string {
	if l.o.Alone == nil {
		return l.o.Env
	}
	r, clean := l.o.Alone()
	l.clean = clean
	return withVariables(l.o.Env, r)
}

// withVariables returns env with the variables of r in place of those with the
// same names.
func withVariables(env []string, r *Ready) []string {
	gone := make(map[string]bool, len(r.Unset))
	for _, name := range r.Unset {
		gone[name] = true
	}
	out := make([]string, 0, len(env)+len(r.Env))
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if _, replaced := r.Env[name]; !replaced && !gone[name] {
			out = append(out, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		out = append(out, name+"="+string(r.Env[name]))
	}
	return out
}

// reap waits for every child, existing or future: the command, the telemetry
// process, and orphans.
func (l *launcher) reap() {
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		pid, err := syscall.Wait4(-1, &ws, 0, &ru)
		switch err { //nolint:errorlint // Wait4 returns the bare number
		case nil:
			l.exits <- exit{pid, newStatus(ws, &ru)}
		case syscall.EINTR:
		default:
			close(l.exits)
			return
		}
	}
}

// wait passes signals on until the command ends.
func (l *launcher) wait(pid int, helper *int, signals <-chan os.Signal) Status {
	for {
		select {
		case s := <-signals:
			sig := s.(syscall.Signal)
			l.send(&Message{Got: sig})
			if !l.relay.reached(sig, pid) {
				_ = syscall.Kill(pid, sig) // it may have ended
			}
		case e, ok := <-l.exits:
			switch {
			case !ok: // impossible: the command is a child
				return Status{Code: 1}
			case e.pid == pid:
				return e.status
			case e.pid == *helper:
				l.o.Note("the telemetry process ended early (%s); the command continues without it%s", e.status.describe(), l.later())
				*helper = 0
			}
		}
	}
}

// later returns a text that explains how to import the records that the
// telemetry process has not written to traces.
func (l *launcher) later() string {
	if l.dir == "" {
		return ""
	}
	return "; when the command has ended, import the records of its Python processes and the received OTLP spans with: trainspan trace import " + l.dir
}

func (s *Status) describe() string {
	if s.Signal != 0 {
		return fmt.Sprintf("signal %d, %v", int(s.Signal), s.Signal)
	}
	return fmt.Sprintf("status %d", s.Code)
}

// waitForHelper waits until the telemetry process has completed its files and
// reported. The process could continue alone, except below process 1, whose end
// kills all processes. A signal ends the waiting, not the process.
func (l *launcher) waitForHelper(helper int, signals <-chan os.Signal) {
	timeout := time.NewTimer(l.o.Finish)
	defer timeout.Stop()
	ended, reported, exits := time.Now(), l.reported, l.exits
	if os.Getpid() == 1 {
		reported = nil
	}
	var telemetryGone chan struct{}
	if helper == 0 {
		exits, telemetryGone = nil, l.done
	}
	for {
		select {
		case <-reported:
			return
		case <-telemetryGone:
			return
		case e, ok := <-exits:
			if ok && e.pid == helper && e.status.Signal != 0 {
				l.o.Note("the telemetry process ended early (%s)%s", e.status.describe(), l.later())
			}
			if !ok || e.pid == helper {
				exits, telemetryGone = nil, l.done // its last messages may still be on the way
			}
		case <-signals:
			if time.Since(ended) < echo {
				continue // the signal that ended the command
			}
			l.o.Note("interrupted: the files of this run are completed in the background")
			return
		case <-timeout.C:
			l.o.Note("the files of this run are still being completed in the background")
			return
		}
	}
}

//go:build unix

package launch

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// passed lists the signals that are passed on: all signals that a launcher or a
// user may send to a job, except those of job control, which the terminal sends
// to the whole process group.
var passed = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGXCPU, syscall.SIGIO, sigPwr,
}

// sigMinRT and sigMaxRT are the real-time signals that programs may use.
const (
	sigPwr   = syscall.Signal(30)
	sigMinRT = syscall.Signal(35)
	sigMaxRT = syscall.Signal(64)
)

// Passed returns the signals that are passed on, without those that this
// process was started to ignore: the command ignores them as well, as under
// nohup.
func Passed() []os.Signal {
	var list []os.Signal
	add := func(s syscall.Signal) {
		if !signal.Ignored(s) {
			list = append(list, s)
		}
	}
	for _, s := range passed {
		add(s)
	}
	for s := sigMinRT; s <= sigMaxRT; s++ {
		add(s)
	}
	return list
}

const (
	// answering is the maximum time in which the telemetry process reports whether
	// it received a signal too, on a busy machine.
	answering = 3 * time.Second
	// heardBefore is the maximum age of its report: it may receive a signal before
	// the launcher. Older reports are about signals that were merged, see together.
	heardBefore = time.Second
	// together is the time in which its report also covers further signals of the
	// same kind, because the system merges simultaneous signals.
	together = 100 * time.Millisecond
)

// relay passes signals on to the command, each once. A signal to the whole
// process group, such as that of Ctrl-C, has reached the command already. The
// telemetry process is in the same group and reports each signal that it gets.
type relay struct {
	ask        func(number int)
	messages   chan Message    // Signal or Answered, in order
	noReceiver <-chan struct{} // closed when no more reports come
	recent     map[syscall.Signal]word
	asked      int
	pending    []syscall.Signal // received before the start of the command
}

// word is a report that a signal was sent to the group.
type word struct {
	at   time.Time
	used bool
}

func (w *word) holds() bool {
	if w.used {
		return time.Since(w.at) < together
	}
	return time.Since(w.at) < heardBefore
}

func newRelay(noReceiver <-chan struct{}, ask func(int)) *relay {
	return &relay{ask: ask, messages: make(chan Message, 64), noReceiver: noReceiver, recent: make(map[syscall.Signal]word)}
}

// reached reports whether the command with that process id has received the
// signal directly.
func (r *relay) reached(s syscall.Signal, pid int) bool {
	if group, err := syscall.Getpgid(pid); err != nil || group != syscall.Getpgrp() {
		return false // the command moved to another group
	}
	r.asked++
	r.ask(r.asked)
	timeout := time.NewTimer(answering)
	defer timeout.Stop()
	for {
		if w, ok := r.recent[s]; ok && w.holds() {
			r.recent[s] = word{time.Now(), true}
			return true
		}
		select {
		case m := <-r.messages:
			switch {
			case m.Signal != 0:
				r.recent[m.Signal] = word{at: m.at}
			case m.Answered == r.asked:
				return false
			}
		case <-r.noReceiver:
			return fromTerminal(s)
		case <-timeout.C:
			return false
		}
	}
}

// fromTerminal guesses whether a signal came from the keyboard: only the
// terminal's foreground group gets such signals.
func fromTerminal(s syscall.Signal) bool {
	if s != syscall.SIGINT && s != syscall.SIGQUIT {
		return false
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer tty.Close() //nolint:errcheck // only asked
	group, err := foreground(tty)
	return err == nil && group == syscall.Getpgrp()
}

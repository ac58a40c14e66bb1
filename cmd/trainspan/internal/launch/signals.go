//go:build unix

package launch

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// passed are the signals that are passed on: all that a launcher or a person may
// send to a job and that have no part in job control, which is the terminal's
// affair and reaches the whole process group.
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

// Passed lists the signals that are passed on. Those that this process was
// started to ignore are not among them: the command ignores them as well, as
// under nohup.
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

// hearing is how long the telemetry process is given to say that it got a
// signal too, and heardBefore how old such a word may be.
const (
	hearing     = 250 * time.Millisecond
	heardBefore = time.Second
)

// relay passes signals on to the command, each once. A signal that went to the
// whole process group, as that of Ctrl-C does, has reached the command already.
// The telemetry process is in the same group and tells of each that it gets.
type relay struct {
	heard   chan syscall.Signal
	deaf    <-chan struct{} // closed when nobody tells any more
	lately  map[syscall.Signal]time.Time
	pending []syscall.Signal // from before the command was there
}

func newRelay(deaf <-chan struct{}) *relay {
	return &relay{heard: make(chan syscall.Signal, 64), deaf: deaf, lately: make(map[syscall.Signal]time.Time)}
}

// reached reports whether the command with that number has got the signal without us.
func (r *relay) reached(s syscall.Signal, pid int) bool {
	if group, err := syscall.Getpgid(pid); err != nil || group != syscall.Getpgrp() {
		return false // it moved to a group of its own
	}
	timeout := time.NewTimer(hearing)
	defer timeout.Stop()
	for {
		if at, ok := r.lately[s]; ok {
			delete(r.lately, s)
			if time.Since(at) < heardBefore {
				return true
			}
		}
		select {
		case other := <-r.heard:
			r.lately[other] = time.Now()
		case <-r.deaf:
			return fromTerminal(s)
		case <-timeout.C:
			return false
		}
	}
}

// fromTerminal guesses whether a signal came from the keyboard: nobody but the
// terminal's foreground group gets such.
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

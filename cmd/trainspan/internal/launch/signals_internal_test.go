//go:build unix

package launch

import (
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestOldReportOfASignal checks that a report of a signal to the group that was merged with
// another one does not keep a later signal from the command.
func TestOldReportOfASignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *relay
		report := Message{Signal: syscall.SIGUSR1}
		r = newRelay(make(chan struct{}), func(n int) { r.messages <- Message{Answered: n} })
		reached := func() bool { return r.reached(syscall.SIGUSR1, os.Getpid()) }
		for range 2 { // the second one is merged with the first
			report.at = time.Now()
			r.messages <- report
			if !reached() {
				t.Fatal("a signal to the group has not reached the command, want it reached")
			}
		}
		time.Sleep(2 * time.Second)
		if reached() {
			t.Error("a signal to the launcher alone counts as reached, want it passed on")
		}
	})
}

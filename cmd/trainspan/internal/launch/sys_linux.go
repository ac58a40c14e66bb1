package launch

import (
	"os"

	"golang.org/x/sys/unix"
)

// foreground returns the process group that a terminal sends its signals to.
func foreground(tty *os.File) (int, error) { return unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP) }

// adopt makes orphans of the command children of this process, so that it can
// reap them and knows whose they are. Process 1 of a container has them anyway.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } // old kernels: they go to process 1

package launch

import (
	"os"

	"golang.org/x/sys/unix"
)

// foreground returns the foreground process group of a terminal.
func foreground(tty *os.File) (int, error) { return unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP) }

// adopt makes orphans of the command children of this process, so that it can
// reap and identify them. Process 1 of a container gets them anyway.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } // on old kernels they become children of process 1

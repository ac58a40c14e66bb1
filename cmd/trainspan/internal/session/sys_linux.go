package session

import "golang.org/x/sys/unix"

func pidfd(pid int) (int, error) { return unix.PidfdOpen(pid, 0) }

package python

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// alive reports whether a process still runs: one of that number that was
// started then, in clock ticks since boot, and is no zombie. Where that cannot be
// found out, as without a free file descriptor, it does: what it records from
// then on would be lost.
func alive(pid int64, ticks uint64) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	_, rest, ok := bytes.Cut(text, []byte(") "))
	if at := bytes.LastIndex(text, []byte(") ")); ok && at >= 0 {
		rest = text[at+2:]
	}
	fields := bytes.Fields(rest) // from the third on
	if len(fields) < 20 {
		return false
	}
	if fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return false
	}
	started, err := strconv.ParseUint(string(fields[19]), 10, 64)
	return err == nil && (ticks == 0 || started == ticks)
}

//go:build unix

package servers

import (
	"os"
	"runtime"
	"syscall"
)

// mostMemory returns the largest resident size of an ended program, in bytes.
func mostMemory(s *os.ProcessState) int64 {
	r, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return int64(r.Maxrss)
	}
	return int64(r.Maxrss) << 10
}

//go:build unix

package ring

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Supported is true if ring buffers can be read on this system.
const Supported = true

// openFile opens a regular file that is not a link.
func openFile(path string, write bool) (*os.File, error) {
	mode := unix.O_RDONLY
	if write {
		mode = unix.O_RDWR
	}
	f, err := os.OpenFile(path, mode|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, fmt.Errorf("ring: %s is not a file", path)
	}
	return f, nil
}

// mapFile maps a part of a file, read-only or shared with the writer for
// reading and writing.
func mapFile(f *os.File, at int64, size int, write bool) ([]byte, error) {
	prot := unix.PROT_READ
	if write {
		prot |= unix.PROT_WRITE
	}
	return unix.Mmap(int(f.Fd()), at, size, prot, unix.MAP_SHARED)
}

func unmap(b []byte) {
	if b != nil {
		_ = unix.Munmap(b)
	}
}

//go:build unix

package fswrite

import (
	"os"
	"runtime"
	"syscall"
)

const (
	noFollow = syscall.O_NOFOLLOW
	nonBlock = syscall.O_NONBLOCK
)

// identity identifies a file.
type identity struct {
	dev, ino uint64
	size     int64
	links    uint64 // hard links; 0 means that the file was deleted
}

func (a *identity) equal(b *identity) bool { return a.dev == b.dev && a.ino == b.ino }

func identify(f *os.File) (id identity, err error) {
	var st syscall.Stat_t
	for {
		err = syscall.Fstat(int(f.Fd()), &st)
		if err != syscall.EINTR {
			break
		}
	}
	runtime.KeepAlive(f)
	return identityOf(&st), err
}

// identifyName returns the identity of the file with a name. It does not follow
// links.
func identifyName(path string) (id identity, err error) {
	var st syscall.Stat_t
	err = syscall.Lstat(path, &st)
	return identityOf(&st), err
}

func identityOf(st *syscall.Stat_t) identity {
	return identity{uint64(st.Dev), st.Ino, st.Size, uint64(st.Nlink)} //nolint:unconvert // types differ between systems
}

// keepOwner gives a file the owner and the group of another one.
func keepOwner(f *os.File, of os.FileInfo) error {
	st, ok := of.Sys().(*syscall.Stat_t)
	now, err := f.Stat()
	if err != nil || !ok {
		return err
	}
	if mine, ok := now.Sys().(*syscall.Stat_t); ok && mine.Uid == st.Uid && mine.Gid == st.Gid {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}

// owned reports whether a file belongs to this user.
func owned(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

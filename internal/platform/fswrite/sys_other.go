//go:build !unix

package fswrite

import "os"

const noFollow, nonBlock = 0, 0

// identity identifies a file.
type identity struct {
	info  os.FileInfo
	size  int64
	links uint64 // hard links; always 1, because open files cannot be deleted on this system
}

func (a *identity) equal(b *identity) bool {
	return a.info != nil && b.info != nil && os.SameFile(a.info, b.info)
}

func identify(f *os.File) (identity, error) {
	info, err := f.Stat()
	return identityOf(info, err)
}

func identifyName(path string) (identity, error) {
	info, err := os.Lstat(path)
	return identityOf(info, err)
}

func identityOf(info os.FileInfo, err error) (identity, error) {
	if err != nil {
		return identity{}, err
	}
	return identity{info, info.Size(), 1}, nil
}

// keepOwner does nothing: on this system a file's owner comes from its folder.
func keepOwner(*os.File, os.FileInfo) error { return nil }

// owned always returns true: this system does not tell.
func owned(os.FileInfo) bool { return true }

//go:build !unix

package fswrite

import "os"

const noFollow, nonBlock = 0, 0

// identity tells files apart.
type identity struct {
	info  os.FileInfo
	size  int64
	links uint64 // names; open files cannot be deleted here
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

// keepOwner does nothing: the owner of a file is that of its folder here.
func keepOwner(*os.File, os.FileInfo) error { return nil }

// owned cannot be asked here.
func owned(os.FileInfo) bool { return true }

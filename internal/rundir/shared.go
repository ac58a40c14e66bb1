package rundir

import (
	"io/fs"
	"os"

	"github.com/trainspan/trainspan/internal/outfile"
)

// shared is what a rank of a large job does on the file system that all share: each call
// is one that a server of metadata answers, and a test counts them.
var shared = calls{
	mkdirAll: os.MkdirAll, list: os.ReadDir, read: os.ReadFile, create: outfile.Create,
	tempDir: outfile.TempDir, publish: outfile.PublishDir, replace: outfile.Write, patch: outfile.Patch,
}

type calls struct {
	mkdirAll func(dir string, mode fs.FileMode) error
	list     func(dir string) ([]fs.DirEntry, error)
	read     func(path string) ([]byte, error)
	create   func(path string, mode fs.FileMode) (*os.File, error)
	tempDir  func(parent, prefix string) (string, error)
	publish  func(from, to string) error
	replace  func(path string, text []byte, mode fs.FileMode, ours outfile.Proof) (outfile.Proof, error)
	patch    func(path string, at int64, text []byte, ours outfile.Proof) error
}

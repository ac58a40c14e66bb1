package rundir

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// Root is the folder of all jobs, in the working directory.
const Root = "trainspan-runs"

// Wanted describes the start of a job that a directory is for.
type Wanted struct {
	// Dir is the directory itself. Empty means HOST-PID in the folder of the
	// attempt.
	Dir string
	// Name is the name of the job.
	Name string
	// Attempt is the number of the start; a negative number takes the next one, or
	// the one that Start belongs to.
	Attempt int
	// Least is the lowest number that is taken if Attempt is negative: the
	// launcher's count.
	Least int
	// Start is what all processes of one start share and no other start has, on any
	// node. If it is empty, each process is a separate start.
	Start string
	// Member identifies one of these processes, if Start may be shared by several
	// successive starts: a member that is already in an attempt begins another one.
	// Empty joins any.
	Member string
	// Host and PID distinguish the processes of a start.
	Host string
	PID  int
}

// Place is an existing directory.
type Place struct {
	Dir     string
	Job     string // the folder of all starts of the job; Dir if that is set
	Attempt int    // counts from zero; negative if Dir is set and nothing else has it
}

// Make makes the directory. Concurrent calls are safe, on this node or, with a
// shared file system, on another one.
func (w Wanted) Make() (Place, error) {
	if w.Dir != "" {
		if err := shared.mkdirAll(w.Dir, 0o755); err != nil {
			return Place{}, err
		}
		return Place{Dir: w.Dir, Job: w.Dir, Attempt: w.Attempt}, nil
	}
	p, err := w.makeBelow(Root)
	if errors.Is(err, fs.ErrPermission) {
		if own, err := w.makeBelow(ownRoot()); err == nil {
			return own, nil
		}
	}
	return p, err
}

// ownRoot returns the folder of a user who may not write to Root because it
// belongs to another user.
func ownRoot() string { return fmt.Sprintf("%s-%d", Root, os.Getuid()) }

// Roots returns the existing folders of jobs: [Root], and that of this user
// alone.
func Roots() []string {
	if info, err := os.Stat(ownRoot()); err == nil && info.IsDir() {
		return []string{Root, ownRoot()}
	}
	return []string{Root}
}

// makeBelow makes the directory below a root.
func (w Wanted) makeBelow(root string) (Place, error) {
	p := Place{Job: filepath.Join(root, Clean(w.Name)), Attempt: w.Attempt}
	if err := shared.mkdirAll(p.Job, 0o755); err != nil {
		return Place{}, err
	}
	if p.Attempt < 0 {
		n, err := w.claim(p.Job)
		if err != nil {
			return Place{}, err
		}
		p.Attempt = n
	}
	p.Dir = filepath.Join(attemptDir(p.Job, p.Attempt), w.leaf())
	return p, shared.mkdirAll(p.Dir, 0o755)
}

// leaf returns the name of the directory in the attempt's folder.
func (w Wanted) leaf() string { return fmt.Sprintf("%s-%d", Clean(w.Host), w.PID) }

// attemptDir returns the folder of attempt n, which counts from 0. Folders
// count from 1, like ids of runs and reports.
func attemptDir(job string, n int) string { return filepath.Join(job, attemptPrefix+strconv.Itoa(n+1)) }

const attemptPrefix = "attempt-"

// Clean converts a text to the name of a folder.
func Clean(text string) string { return cmp.Or(fswrite.SafeName(text, maxName), "training") }

// maxName is the length in bytes of a folder's name, which leaves room for
// additions. File systems allow 255.
const maxName = 200

// startFile holds the Start of an attempt, in its folder.
const startFile = ".start"

// claim determines the number of the attempt and makes its folder. The folder
// appears under its number with everything by which others identify it, so that
// they need not wait for its creator. Of all concurrent claims of one number
// one succeeds. A program that is killed here leaves a hidden folder that is
// never read.
//
// A process that is not the first looks for the others before it creates
// anything. A listing may be outdated on a network file system: then new
// folders are noticed when the number is taken.
func (w Wanted) claim(job string) (int, error) {
	known, err := shared.list(job)
	if err != nil {
		return 0, err
	}
	taken := make(map[int]bool)
	for _, e := range known {
		if n, err := strconv.Atoi(strings.TrimPrefix(e.Name(), attemptPrefix)); err == nil {
			taken[n-1] = true
		}
	}
	if w.Start != "" {
		for _, n := range slices.Sorted(maps.Keys(taken)) {
			if dir := attemptDir(job, n); n >= w.Least && startOf(dir) == w.Start {
				if err := w.join(dir); !errors.Is(err, fs.ErrExist) {
					return n, err
				}
			}
		}
	}
	tmp, err := shared.tempDir(job, startFile+"-")
	if err != nil {
		return 0, err
	}
	// What is left there was not published.
	defer fswrite.RemoveDir(tmp, func(path string) bool { return strings.HasPrefix(filepath.Base(path), startFile) }) //nolint:errcheck // and hinders nobody
	mine := filepath.Join(tmp, "attempt")
	if err := w.fill(mine); err != nil {
		return 0, err
	}
	return fswrite.NextFree(w.Least, func(n int) error {
		if taken[n] {
			return fs.ErrExist
		}
		dir := attemptDir(job, n)
		err := shared.publish(mine, dir)
		if errors.Is(err, fs.ErrExist) && w.Start != "" && startOf(dir) == w.Start {
			return w.join(dir)
		}
		return err
	})
}

// join takes the place of the member in an attempt. The error matches
// fs.ErrExist if it is taken.
func (w Wanted) join(dir string) error {
	if w.Member == "" {
		return nil
	}
	f, err := shared.create(filepath.Join(dir, startFile+"."+Clean(w.Member)), 0o644)
	if err != nil {
		return err
	}
	return f.Close() // it is empty
}

// fill creates the contents of an attempt's folder.
func (w Wanted) fill(dir string) error {
	if err := shared.mkdirAll(filepath.Join(dir, w.leaf()), 0o755); err != nil || w.Start == "" {
		return err
	}
	if err := w.join(dir); err != nil { // no other process is there yet
		return err
	}
	_, err := shared.replace(filepath.Join(dir, startFile), []byte(w.Start+"\n"), 0o644, nil)
	return err
}

// startOf returns the Start of an attempt's folder, or "".
func startOf(dir string) string {
	text, err := shared.read(filepath.Join(dir, startFile))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSuffix(text, []byte("\n")))
}

// shared holds the calls that a rank of a large job makes on the shared file
// system, which a metadata server answers; a test counts them.
var shared = calls{
	mkdirAll: os.MkdirAll, list: os.ReadDir, read: os.ReadFile, create: fswrite.Create,
	tempDir: fswrite.TempDir, publish: fswrite.PublishDir, replace: fswrite.Write, patch: fswrite.Patch,
}

type calls struct {
	mkdirAll func(dir string, mode fs.FileMode) error
	list     func(dir string) ([]fs.DirEntry, error)
	read     func(path string) ([]byte, error)
	create   func(path string, mode fs.FileMode) (*os.File, error)
	tempDir  func(parent, prefix string) (string, error)
	publish  func(from, to string) error
	replace  func(path string, text []byte, mode fs.FileMode, ours fswrite.Proof) (fswrite.Proof, error)
	patch    func(path string, at int64, text []byte, ours fswrite.Proof) error
}

package rundir

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// Root is the folder of all jobs, in the working directory.
const Root = "trainspan-runs"

// Wanted says which start of which job a directory is for.
type Wanted struct {
	// Dir is the directory itself. Empty is HOST-PID in the folder of the
	// attempt.
	Dir string
	// Name names the job.
	Name string
	// Attempt is the number of the start; negative takes the next one, or the
	// one that Start belongs to.
	Attempt int
	// Start is what all processes of one start have in common and no other start
	// has, on whatever node. Empty is nothing: then each is a start of its own.
	Start string
	// Member is which of these processes it is, where Start may be that of several
	// starts one after the other: a member that is in an attempt already begins
	// another one. Empty joins any.
	Member string
	// Host and PID tell the processes of a start apart.
	Host string
	PID  int
}

// Place is a directory that exists.
type Place struct {
	Dir     string
	Job     string // the folder of all starts of the job; Dir where one was given
	Attempt int    // counts from zero; negative where a directory was given and nothing says it
}

// Make makes the directory. It is safe against others who do the same at the
// same time, on this node or, with a shared file system, on another one.
func (w Wanted) Make() (Place, error) {
	if w.Dir != "" {
		if err := os.MkdirAll(w.Dir, 0o755); err != nil {
			return Place{}, err
		}
		return Place{Dir: w.Dir, Job: w.Dir, Attempt: w.Attempt}, nil
	}
	p := Place{Job: filepath.Join(Root, Clean(w.Name)), Attempt: w.Attempt}
	if err := os.MkdirAll(p.Job, 0o755); err != nil {
		return Place{}, err
	}
	if p.Attempt < 0 {
		n, err := w.claim(p.Job)
		if err != nil {
			return Place{}, err
		}
		p.Attempt = n
	}
	p.Dir = filepath.Join(attemptDir(p.Job, p.Attempt), fmt.Sprintf("%s-%d", Clean(w.Host), w.PID))
	return p, os.MkdirAll(p.Dir, 0o755)
}

func attemptDir(job string, n int) string { return filepath.Join(job, fmt.Sprintf("attempt-%d", n)) }

// Clean makes a text the name of a folder.
func Clean(text string) string {
	name := strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>|{}`, r) {
			return '_'
		}
		return r
	}, text)
	return cmp.Or(strings.Trim(cut(name), ". "), "training")
}

// maxName is the length in bytes of the name of a folder, which leaves room for
// what is added to it. File systems end at 255.
const maxName = 200

// cut shortens a text at the end of a character.
func cut(text string) string {
	if len(text) <= maxName {
		return text
	}
	n := maxName
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// startFile holds the Start of an attempt, in its folder.
const startFile = ".start"

// maxAttempts bounds the search for a number.
const maxAttempts = 1 << 20

// claim finds the number of the attempt: making a folder succeeds for one only.
// Whoever made it writes there what the others can know it by.
func (w Wanted) claim(job string) (int, error) {
	for n := range maxAttempts {
		dir := attemptDir(job, n)
		err := os.Mkdir(dir, 0o755)
		switch {
		case err == nil && w.Start == "":
			return n, nil
		case err == nil:
			if err := writeWhole(filepath.Join(dir, startFile), []byte(w.Start+"\n")); err != nil || w.join(dir) {
				return n, err
			}
		case !errors.Is(err, os.ErrExist):
			return 0, err
		case w.Start != "" && startOf(dir) == w.Start && w.join(dir):
			return n, nil
		}
	}
	return 0, fmt.Errorf("%s has %d attempts already", job, maxAttempts)
}

// join takes the place of the member in an attempt, and reports false when it is
// taken.
func (w Wanted) join(dir string) bool {
	if w.Member == "" {
		return true
	}
	f, err := os.OpenFile(filepath.Join(dir, startFile+"."+Clean(w.Member)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		_ = f.Close() // it holds nothing
	}
	return !errors.Is(err, os.ErrExist)
}

// Patience with a folder that somebody has just made.
const (
	justMade  = 10 * time.Second
	waitStart = 2 * time.Second
)

// startOf reads whose attempt a folder is. Its maker may be about to write it.
func startOf(dir string) string {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		// In this order, because whoever has a start writes it before anything
		// else: what is seen in the folder before no start can be read was put
		// there by one without.
		entries, listed := os.ReadDir(dir)
		text, err := os.ReadFile(filepath.Join(dir, startFile))
		if err == nil {
			return string(bytes.TrimSuffix(text, []byte("\n")))
		}
		if listed != nil || len(entries) > 0 && !onlyTemporary(entries) {
			return ""
		}
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) > justMade || time.Since(began) > waitStart {
			return ""
		}
	}
}

func onlyTemporary(entries []os.DirEntry) bool {
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), startFile) {
			return false
		}
	}
	return true
}

// writeWhole writes a file so that others see all of it or nothing.
func writeWhole(path string, text []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(text)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

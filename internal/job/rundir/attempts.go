package rundir

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Attempt is the folder of one start of a job on all nodes.
type Attempt struct {
	Job    string // name of the folder of the job
	Number int    // counts from 1, as reports do
	Dir    string
	Began  time.Time
	// Running reports whether a command of it was alive a moment ago. It is false for
	// programs that record themselves: only trainspan run keeps a run.json up to date.
	Running bool
}

// ID names the run that begins with the attempt.
func (a *Attempt) ID() string { return a.Job + "." + strconv.Itoa(a.Number) }

// alive is how old the last sign of life of a running command may be.
const alive = 30 * time.Second

// Attempts returns the attempts below roots: running ones first, and of these and of all
// others the latest first. It reads no telemetry.
func Attempts(now time.Time, roots ...string) []Attempt {
	var out []Attempt
	for _, root := range roots {
		dirs, _ := filepath.Glob(filepath.Join(root, "*", attemptPrefix+"*")) // the pattern is valid
		for _, dir := range dirs {
			number, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), attemptPrefix))
			info, statErr := os.Stat(dir)
			if err != nil || statErr != nil || !info.IsDir() {
				continue
			}
			a := Attempt{Job: filepath.Base(filepath.Dir(dir)), Number: number, Dir: dir, Began: info.ModTime()}
			for i, r := range All(dir) {
				if i == 0 || r.Started.Before(a.Began) {
					a.Began, a.Number = r.Started, r.Attempt+1
				}
				a.Running = a.Running || r.State == Running && now.Sub(r.Seen) < alive
			}
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b Attempt) int {
		if a.Running != b.Running {
			if a.Running {
				return -1
			}
			return 1
		}
		return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(b.Number, a.Number), cmp.Compare(a.Dir, b.Dir))
	})
	return out
}

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
	Job    string // name of the job's folder
	Number int    // counts from 1, as in reports
	Dir    string
	Began  time.Time
	// Running reports whether a command of it was alive recently. It is false for
	// programs that record themselves, because only trainspan run updates a
	// run.json.
	Running bool
}

// ID returns the id of the run that begins with the attempt.
func (a *Attempt) ID() string { return a.Job + "." + strconv.Itoa(a.Number) }

// alive is how old the last heartbeat of a running command may be.
const alive = 30 * time.Second

// Attempts returns the attempts below roots: running ones first, and both
// groups latest first. It reads no telemetry.
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

// Clash reports whether attempts in different folders below some paths have the
// same id. It reads no telemetry.
func Clash(paths ...string) bool {
	folder := make(map[string]string) // by id
	for _, l := range Find(paths...) {
		id, attempt := l.Run.ID(), filepath.Dir(l.Dir) // all ranks of an attempt are in one folder
		if !strings.HasPrefix(filepath.Base(attempt), attemptPrefix) {
			attempt = l.Dir // of trainspan run --dir
		}
		if other, ok := folder[id]; ok && other != attempt {
			return true
		}
		folder[id] = attempt
	}
	return false
}

// Select returns paths below root with every run that began at since or later,
// of a job whose name wanted accepts, and whether anything below root is left
// out. It reads no telemetry. An attempt is left out only if run.json files
// prove that it belongs to no such run.
func Select(root string, since time.Time, wanted func(job string) bool) (paths []string, less bool) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return []string{root}, false // errors are reported when it is read
	}
	for _, e := range entries {
		inside, some := SelectAttempts(filepath.Join(root, e.Name()), since, func(job string) bool { return wanted(e.Name()) || wanted(job) })
		paths, less = append(paths, inside...), less || some
	}
	if !less {
		return []string{root}, false
	}
	return paths, true
}

// SelectAttempts is like [Select] for the folder of one job.
func SelectAttempts(dir string, since time.Time, wanted func(job string) bool) (paths []string, less bool) {
	dirs, _ := filepath.Glob(filepath.Join(dir, attemptPrefix+"*"))
	drop := leaveOut(dirs, since, wanted)
	if len(drop) == 0 {
		return []string{dir}, false
	}
	inside, _ := os.ReadDir(dir)
	for _, f := range inside {
		if path := filepath.Join(dir, f.Name()); !drop[path] && (len(drop) < len(dirs) || f.IsDir()) {
			paths = append(paths, path)
		}
	}
	return paths, true
}

// leaveOut returns which attempts of a job belong to no run that began at since
// or later.
func leaveOut(dirs []string, since time.Time, wanted func(job string) bool) map[string]bool {
	type attempt struct {
		dir        string
		starts     []*Run
		began, end time.Time
	}
	var list []attempt
	for _, dir := range dirs {
		a := attempt{dir: dir, starts: All(dir)}
		for i, s := range a.starts {
			if end := s.Started.Add(s.Took()); i == 0 || end.After(a.end) {
				a.end = end
			}
			if s.Job == "" {
				return nil // only its records show its run
			}
			a.began = s.Started // the latest start comes first
		}
		if len(a.starts) == 0 {
			return nil
		}
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b attempt) int { return b.began.Compare(a.began) })
	out := make(map[string]bool)
	mine := func(s *Run) bool { return wanted(Clean(cmp.Or(s.Session, s.Name))) }
	var kept []*Run                      // of attempts that are kept
	oldest, before := time.Time{}, false // before: of earlier runs
	for i := range list {
		a := &list[i]
		follows := func(s *Run) bool { // whether a kept attempt may belong to the same run
			return s.ExitStatus == nil || *s.ExitStatus != 0 || slices.ContainsFunc(kept, s.Continues)
		}
		before = before || a.end.Before(since) && (len(kept) == 0 || a.end.Before(oldest) && !slices.ContainsFunc(a.starts, follows))
		if before || !slices.ContainsFunc(a.starts, mine) {
			out[a.dir] = true
		} else {
			kept, oldest = append(kept, a.starts...), a.began
		}
	}
	return out
}

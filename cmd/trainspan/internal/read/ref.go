package read

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/report"
)

// Ref is the target of an argument of a reading command: a run below
// trainspan-runs, or files.
type Ref struct {
	Run   string   // id of the run, as in trainspan runs; empty for files
	Paths []string // folders of attempts, or the argument itself
	// Open is the folder of the latest start of the job, until its records show
	// whether it continues an earlier run; then it is empty.
	Open string
}

// Name returns the name for messages and reports.
func (r *Ref) Name() string { return cmp.Or(r.Run, strings.Join(r.Paths, " ")) }

// Latest refers to the newest run. Runs that are still running take precedence.
const Latest = "latest"

// Resolve returns the targets of a command's arguments. It is the only place
// with these rules:
//
//	(empty), latest     the newest run, running ones first
//	train               the newest run of the job train
//	train.3             the run with attempt 3 of it
//	latest~1, train~1   the run before the newest
//	anything else       a file, a folder or a pattern
//
// A file or folder with the name of a run takes precedence.
func Resolve(ctx context.Context, args []string) ([]Ref, error) {
	if len(args) == 0 {
		args = []string{Latest}
	}
	var out []Ref
	for _, arg := range args {
		r, err := resolve(ctx, arg)
		if err != nil {
			return nil, err
		}
		out = append(out, *r)
	}
	return out, nil
}

// Newest returns the folder of the newest start below trainspan-runs, running
// ones first, or "". It reads no records.
func Newest() string {
	if all := rundir.Attempts(time.Now(), rundir.Roots()...); len(all) > 0 {
		return all[0].Dir
	}
	return ""
}

// ResolvePaths is Resolve for commands that treat several arguments as one.
func ResolvePaths(ctx context.Context, args []string) ([]string, error) {
	refs, err := Resolve(ctx, args)
	var out []string
	for i := range refs {
		out = append(out, refs[i].Paths...)
	}
	return out, err
}

func resolve(ctx context.Context, arg string) (*Ref, error) {
	if _, err := os.Lstat(arg); err == nil || strings.ContainsAny(arg, "*?["+string(filepath.Separator)) {
		return &Ref{Paths: []string{arg}}, nil // errors are reported when the file is read
	}
	all := rundir.Attempts(time.Now(), rundir.Roots()...)
	stem, back := arg, 0
	if at := strings.LastIndexByte(arg, '~'); at >= 0 {
		n, err := strconv.Atoi(arg[at+1:])
		if err != nil || n < 0 {
			return nil, unknown(arg, all)
		}
		stem, back = arg[:at], n
	}
	var mine []rundir.Attempt // candidates for the reference
	for _, a := range all {
		if stem == Latest || stem == a.Job || back == 0 && stem == a.ID() {
			mine = append(mine, a)
		}
	}
	seen := make(map[string]bool)
	for i := range mine {
		r, err := runOf(ctx, &mine[i], all)
		if err != nil {
			return nil, err
		}
		if seen[r.Run] {
			continue
		}
		if seen[r.Run] = true; len(seen) > back {
			return r, nil
		}
	}
	if back == 0 {
		if r := elsewhere(ctx, stem); r != nil {
			return r, ctx.Err()
		}
	}
	return nil, unknown(arg, all)
}

// elsewhere finds a run by its id if its records are below a root but not in
// the folder of an attempt, as with trainspan run --dir. It reads all records
// there.
func elsewhere(ctx context.Context, id string) *Ref {
	roots := slices.DeleteFunc(rundir.Roots(), func(dir string) bool { _, err := os.Stat(dir); return err != nil })
	if len(roots) == 0 {
		return nil
	}
	set, err := job.Open(roots...)
	if err != nil {
		return nil
	}
	set.Stop = ctx.Err
	jobs, err := set.Read(func(*job.Process) job.Sink { return job.Sinks{} })
	if err != nil {
		return nil
	}
	var latest *job.Job
	for i, j := range jobs {
		if i == 0 || newer(j, latest) {
			latest = j
		}
	}
	for _, j := range jobs {
		if j.Label != id && (id != Latest || j != latest) {
			continue
		}
		r := &Ref{Run: j.Label}
		for _, p := range slices.Concat(j.Processes, j.Helpers) {
			r.Paths = append(r.Paths, p.Sources...)
		}
		for _, s := range rundir.Find(roots...) {
			if slices.ContainsFunc(j.Starts, func(o *rundir.Run) bool {
				return o.Host == s.Run.Host && o.PID == s.Run.PID && o.Started.Equal(s.Run.Started)
			}) {
				r.Paths = append(r.Paths, s.Path)
			}
		}
		return r
	}
	return nil
}

// newer reports whether a run takes precedence over another as the latest one.
func newer(j, other *job.Job) bool {
	running := func(j *job.Job) bool {
		return slices.ContainsFunc(j.Starts, func(s *rundir.Run) bool { return s.State == rundir.Running && time.Since(s.Seen) < report.Alive })
	}
	begin := func(j *job.Job) (first int64) {
		for i, p := range j.Processes {
			if i == 0 || p.Start < first {
				first = p.Start
			}
		}
		return first
	}
	if running(j) != running(other) {
		return running(j)
	}
	return begin(j) > begin(other)
}

// runOf returns the run of an attempt. The attempts of a run follow from their
// records; see docs/guide/run.md.
func runOf(ctx context.Context, a *rundir.Attempt, all []rundir.Attempt) (*Ref, error) {
	alone := &Ref{Run: a.ID(), Paths: []string{a.Dir}}
	dir := filepath.Dir(a.Dir)
	var siblings []rundir.Attempt
	for _, o := range all {
		if filepath.Dir(o.Dir) == dir {
			siblings = append(siblings, o)
		}
	}
	if len(siblings) < 2 {
		return alone, nil
	}
	set, err := job.Open(dir)
	if err != nil {
		alone.Open = openStart(siblings, nil)
		return alone, nil //nolint:nilerr // nothing was recorded: each start is a run
	}
	set.Stop = ctx.Err
	jobs, err := set.Read(func(*job.Process) job.Sink { return job.Sinks{} })
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		alone.Open = openStart(siblings, nil)
		return alone, nil //nolint:nilerr // the command that reads the files reports the error
	}
	open := openStart(siblings, jobs)
	alone.Open = open
	for _, j := range jobs {
		numbers := make(map[int]bool)
		for _, p := range j.Processes {
			numbers[p.Attempt] = true
		}
		for _, s := range j.Starts {
			numbers[s.Attempt+1] = true
		}
		if !numbers[a.Number] {
			continue
		}
		r := &Ref{Open: open}
		first := a.Number
		for _, o := range siblings {
			if numbers[o.Number] {
				r.Paths, first = append(r.Paths, o.Dir), min(first, o.Number)
			}
		}
		slices.Sort(r.Paths)
		r.Run = a.Job + "." + strconv.Itoa(first)
		return r, nil
	}
	return alone, nil
}

// openStart returns the folder of the latest start if none of its processes has
// recorded a step or the load of a checkpoint.
func openStart(starts []rundir.Attempt, jobs []*job.Job) string {
	latest := slices.MaxFunc(starts, func(a, b rundir.Attempt) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Number, b.Number))
	})
	inside := func(path string) bool { return below(path, latest.Dir) }
	for _, j := range jobs {
		for _, p := range j.Processes {
			if s := &p.Steps; (s.GoesOn || s.Count > 0) && slices.ContainsFunc(p.Sources, inside) {
				return ""
			}
		}
	}
	return latest.Dir
}

// below reports whether a file is in a folder, or in a folder of it.
func below(path, dir string) bool { return strings.HasPrefix(path, dir+string(filepath.Separator)) }

// unknown returns the error for a word that is neither a path nor a run.
func unknown(arg string, all []rundir.Attempt) error {
	if len(all) == 0 {
		if arg == Latest {
			return ui.Usage("%s has no run; record one with trainspan run -- COMMAND, or name files", rundir.Root)
		}
		return ui.Usage("%s: there is no such file or run; check the name", arg)
	}
	type candidate struct {
		id    string
		edits int
	}
	var near []candidate
	for i := range all {
		if n := levenshtein.ComputeDistance(arg, all[i].ID()); n <= max(len(arg)/2, 2) {
			near = append(near, candidate{all[i].ID(), n})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.edits, b.edits) })
	var ids []string
	for _, c := range near[:min(len(near), 3)] {
		ids = append(ids, c.id)
	}
	hint := ""
	if len(ids) > 0 {
		hint = "did you mean " + strings.Join(ids, ", ") + "? "
	}
	return ui.Usage("%s: there is no such file or run; %strainspan runs lists all runs", arg, hint)
}

// Complete completes an argument to runs and, as the shell does, to files.
func Complete(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	if strings.ContainsRune(word, filepath.Separator) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var out []string
	for _, a := range rundir.Attempts(time.Now(), rundir.Roots()...) {
		if id := a.ID(); strings.HasPrefix(id, word) {
			out = append(out, id)
		}
	}
	if word != "" && strings.HasPrefix(Latest, word) {
		out = append(out, Latest)
	}
	return out, cobra.ShellCompDirectiveDefault
}

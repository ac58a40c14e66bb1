package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/dataset"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/report"
)

// convertedRun is the JSON of a conversion to Parquet about one run.
type convertedRun struct {
	Output  string `json:"output"`
	Run     string `json:"run"`
	Events  int64  `json:"events"`
	Ledger  int64  `json:"ledger_rows"`
	Folders int    `json:"folders"`
	Bytes   int64  `json:"bytes"`
}

// convertParquet writes the jobs in some files to a data set.
func convertParquet(ctx context.Context, a *ui.App, args, files []string, o *convertOptions) error {
	lake, err := openDataset(o.output, o.force)
	if err != nil {
		return err
	}
	if o.run != "" && !o.part {
		if err := lake.check(runLabel(o.run)); err != nil {
			return err
		}
	}
	if err := o.filter.Prepare(ctx, files); err != nil {
		return err
	}
	spin := a.StartSpinner("convert")
	defer func() { spin.Finish() }()
	var times read.TimeJudge
	var set *job.Set
	var rows *dataset.Builder
	var accounts []account.Account
	var steps *stepTable
	discard := func() {
		if steps != nil {
			steps.close()
		}
	}
	defer discard()
	for first := true; first || times.Again; first = false {
		discard()
		if set, err = openSet(ctx, args); err != nil {
			return err
		}
		times.Reading()
		rows, steps = dataset.New(0, ""), newStepTable()
		if accounts, err = collectRows(ctx, set, rows, steps, &times, o); err != nil {
			return err
		}
	}
	var jobs []*job.Job
	for _, acc := range accounts {
		jobs = append(jobs, acc.Job)
	}
	dropForeign(set, files)
	judgeSet(a, set, jobs)
	read.WarnOfTimes(a, &times)
	if o.part {
		judgeAttempts(a, jobs)
	}
	out, err := lake.write(ctx, rows, steps, accounts, o)
	spin.Finish()
	spin = nil
	if err != nil {
		return err
	}
	return printRuns(a, out, o)
}

// printRuns prints what was written.
func printRuns(a *ui.App, out []convertedRun, o *convertOptions) error {
	if o.json {
		return a.PrintJSON(out)
	}
	for _, c := range out {
		a.Printf("%s: run=%s, %s, %s of the ledger, %s in %s\n",
			c.Output, c.Run, display.Plural(c.Events, "event"), display.Plural(c.Ledger, "row"), display.Bytes(c.Bytes), display.Plural(c.Folders, "folder"))
	}
	return nil
}

// digestsIn returns the digests among the arguments, and whether there are
// other files with events.
func digestsIn(args []string) (digests []string, traces bool) {
	found, _ := fsread.Walk(args...) // expand reports its errors
	for _, f := range found {
		if kind, _ := fsread.KindOf(f.Path); kind == fsread.Digest {
			digests = append(digests, f.Path)
		} else {
			traces = traces || kind == fsread.Trace
		}
	}
	return digests, traces
}

// convertDigests writes the accounts of a job from its digests, beside the
// events of its parts.
func convertDigests(ctx context.Context, a *ui.App, digests []string, o *convertOptions) error {
	l, err := openDataset(o.output, o.force)
	if err != nil {
		return err
	}
	state, err := report.Load(ctx.Err, digests...)
	if err != nil {
		return unreadable(ctx, digests, err)
	}
	judgeJobs(a, digests, state.Skipped(), state.Processes())
	out, err := l.writeLedgers(ctx, state.Jobs(), o)
	if err != nil {
		return err
	}
	return printRuns(a, out, o)
}

// judgeAttempts reports processes whose attempt was inferred from this part
// alone.
func judgeAttempts(a *ui.App, jobs []*job.Job) {
	for _, j := range jobs {
		for _, p := range j.Processes {
			if !p.AttemptKnown {
				a.Note("%s: no record has the number of its attempt; it counts as attempt %d, according to this part alone", strings.Join(p.Sources, ", "), p.Attempt)
				return
			}
		}
	}
}

// openSet opens the files of the arguments: the JSON lines in folders count in the ledger
// as they do in a report, and run.json separates the runs.
func openSet(ctx context.Context, args []string) (*job.Set, error) {
	set, err := job.Open(args...)
	if err != nil {
		return nil, unreadable(ctx, args, err)
	}
	return set, nil
}

// collectRows reads a set once, for the accounts of each job and for the
// filtered events.
func collectRows(ctx context.Context, set *job.Set, rows *dataset.Builder, steps *stepTable, times *read.TimeJudge, o *convertOptions) ([]account.Account, error) {
	var mu sync.Mutex
	var failed error
	set.Stop = func() error {
		mu.Lock()
		defer mu.Unlock()
		return errors.Join(failed, ctx.Err())
	}
	q := &o.filter
	all := q.All()
	judges := make(map[string]*read.FileJudge)
	set.Events = func(p *job.Process) func(*dftracer.Event) {
		to := rows.Process(p)
		var path string
		var judge *read.FileJudge
		return func(ev *dftracer.Event) {
			if now := p.Sources[len(p.Sources)-1]; now != path {
				mu.Lock()
				if judge, path = judges[now], now; judge == nil {
					judge = times.Judge(now)
					judges[now] = judge
				}
				mu.Unlock()
			}
			if !all && !q.Has(path, ev) || !judge.Counts(ev) {
				return
			}
			if err := to.Add(ev); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = err
			}
		}
	}
	if o.part || !all { // without accounts
		jobs, err := set.Read(steps.open)
		accounts := make([]account.Account, len(jobs))
		for i, j := range jobs {
			accounts[i].Job = j
		}
		for path, judge := range judges {
			times.End(path, judge)
		}
		return accounts, cmp.Or(set.Stop(), err)
	}
	spill := extsort.NewBlocks(largeJob/2, "")
	ranks := fromjob.New(spill)
	accounts, err := account.Collect(set, steps.reader, ranks.Reader)
	err = cmp.Or(err, spill.Err())
	for i := range accounts {
		if c := fromjob.Corrections(ranks.Attempts(accounts[i].Job)); len(c) > 0 {
			accounts[i].Rebuild(c)
		}
	}
	for path, judge := range judges {
		times.End(path, judge)
	}
	if stopped := set.Stop(); stopped != nil {
		return nil, stopped
	}
	return accounts, err
}

// dropForeign removes files that are only beside the named ones.
func dropForeign(set *job.Set, named []string) {
	set.Skipped = slices.DeleteFunc(set.Skipped, func(f *job.FileError) bool { return isForeign(f, named) })
}

// isForeign reports whether a file belongs to no job, and was not named.
func isForeign(f *job.FileError, named []string) bool {
	return rundir.IsRun(f.Path) || errors.Is(f, job.ErrForeign) && !slices.Contains(named, f.Path)
}

// judgeSet reports the defects of the files.
func judgeSet(a *ui.App, set *job.Set, jobs []*job.Job) {
	var procs []*job.Process
	for _, j := range jobs {
		procs = append(append(procs, j.Processes...), j.Helpers...)
	}
	read.WarnOfDamage(a, set.Skipped, procs)
}

// judgeJobs is judgeSet for the files of a report: a file with the name of a
// trace should be one.
func judgeJobs(a *ui.App, named []string, skipped []*job.FileError, procs []*job.Process) {
	read.WarnOfDamage(a, slices.DeleteFunc(slices.Clone(skipped), func(f *job.FileError) bool {
		kind, _ := fsread.KindOf(f.Path) // the report itself reports profiles
		return (isForeign(f, named) || kind.Profiler()) && !fsread.NamedTrace(f.Path)
	}), procs)
}

// runNames returns a unique name of each job, from its records.
func runNames(accounts []account.Account, given string) ([]string, error) {
	if given != "" && len(accounts) > 1 {
		return nil, ui.Usage("--run %s: these files have %d jobs; convert them one by one, or omit --run", given, len(accounts))
	}
	var names []string
	for _, acc := range accounts {
		name := given
		if acc.Job.Group > len(acc.Job.Processes) { // one of several with its tag
			name = cmp.Or(name, acc.Job.Label)
		}
		for _, known := range []string{acc.Job.SessionTag, acc.Job.ID, "job"} {
			if name == "" {
				name = known
			}
		}
		name = runLabel(name)
		for n, stem := 2, name; slices.Contains(names, name); n++ {
			name = stem + "-" + strconv.Itoa(n)
		}
		names = append(names, name)
	}
	return names, nil
}

// runLabel makes a name usable for a folder, like other writers of such
// folders: other characters than plain letters, digits, points, dashes and
// underscores become %XX.
func runLabel(name string) string {
	const hex = "0123456789ABCDEF"
	var out []byte
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
			out = append(out, c)
		default:
			out = append(out, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(out)
}

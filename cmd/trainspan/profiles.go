package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/report"
)

// profileImport makes traces of profiles, for one report.
type profileImport struct {
	app  *ui.App
	ctx  context.Context //nolint:containedctx // of one call
	dir  string
	n    int
	from string // the user's argument
}

// traces makes a trace of each job among some profiles.
func (im *profileImport) traces(profiles []string) (out []report.Imported, failed []*job.FileError, err error) {
	sources, err := torch.Files(profiles...)
	if err != nil {
		return nil, nil, err
	}
	if im.dir, err = fswrite.TempDir("", "trainspan-profiles-"); err != nil {
		return nil, nil, err
	}
	bar := im.app.StartSpinner("import")
	defer bar.Finish()
	trace, r, err := im.trace(sources)
	if err != nil {
		return nil, nil, err
	}
	for _, x := range slices.Concat(r.Copies, r.Refused, r.Failed) {
		failed = append(failed, &job.FileError{Path: x.Name, Err: x.Err})
	}
	for _, f := range r.Files {
		if f.Truncated {
			im.app.Note("%s: truncated at byte %d; the events before it are used; see "+helptopic.Profile, f.Name, f.TruncatedAt)
		}
		if f.Skipped > 0 {
			im.app.Note("%s: %s of damaged text skipped; see "+helptopic.Profile, f.Name, display.Bytes(f.SkippedBytes))
		}
	}
	jobs := jobsOfProfiles(sources, r)
	if len(jobs) < 2 {
		return []report.Imported{{Trace: trace}}, failed, nil
	}
	for _, job := range jobs {
		if trace, _, err = im.trace(job); err != nil {
			return nil, nil, err
		}
		out = append(out, report.Imported{Trace: trace, Name: filepath.Base(job[0].Name)})
	}
	return out, failed, nil
}

// trace imports the profiles of one job.
func (im *profileImport) trace(sources []torch.Source) (string, *torch.Report, error) {
	im.n++
	path := filepath.Join(im.dir, fmt.Sprintf("profiles%d.pfw.gz", im.n))
	var w *dftracer.Writer
	begin := func(start time.Time) (_ torch.Sink, err error) { // a process of now would be beside those of the profiles
		w, err = dftracer.Create(path, &dftracer.Options{Level: 1, Start: start})
		return w, err
	}
	r, err := torch.Import(im.ctx, nil, sources, &torch.Options{Begin: begin})
	if w != nil {
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		return "", nil, importError(err)
	}
	return path, r, nil
}

// names replaces the traces, which users never see, by the user's arguments.
func (im *profileImport) names(files []string) (out []string) {
	for _, f := range files {
		f = im.name(f)
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

// name is what the user named, of a trace.
func (im *profileImport) name(file string) string {
	if im.dir != "" && filepath.Dir(file) == im.dir {
		return im.from
	}
	return file
}

// remove deletes the traces.
func (im *profileImport) remove() {
	if im.dir != "" {
		_ = fswrite.RemoveDir(im.dir, func(name string) bool { return strings.HasPrefix(name, "profiles") }) // it is below the folder for temporary files
	}
}

// apart is how long after the window of one rank that of another may begin.
const apart = 10 * time.Minute

// profiled is what is known about the profiles in a source: a tar has several.
type profiled struct {
	source     torch.Source
	start, end time.Time
	world      int64
	ranks      []int64
	pids       []int64
}

// jobsOfProfiles groups sources by job, with the results of an import. A job has
// the windows of the same process, and those of different ranks of the same
// world size at about the same time; other sources are separate jobs. Compile logs belong to
// the only job if there is one, and are separate jobs otherwise.
func jobsOfProfiles(sources []torch.Source, r *torch.Report) (jobs [][]torch.Source) {
	of := make(map[string]*profiled)
	var order []*profiled
	for _, f := range r.Files {
		i := slices.IndexFunc(sources, func(s torch.Source) bool { return holds(s, f.Name) })
		if i < 0 {
			continue
		}
		p := of[sources[i].Name]
		if p == nil {
			p = &profiled{source: sources[i], start: f.Start, end: f.End, world: f.World}
			of[sources[i].Name] = p
			order = append(order, p)
		}
		if f.Start.Before(p.start) {
			p.start = f.Start
		}
		if f.End.After(p.end) {
			p.end = f.End
		}
		p.ranks, p.pids = append(p.ranks, f.Rank), append(p.pids, f.PID)
	}
	slices.SortStableFunc(order, func(a, b *profiled) int {
		return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.source.Name, b.source.Name))
	})
	var found []*profiled // jobs, by their first source
	var lists [][]torch.Source
	for _, p := range order {
		i := slices.IndexFunc(found, func(j *profiled) bool { return j.with(p) })
		if i < 0 {
			j := *p
			found, lists = append(found, &j), append(lists, []torch.Source{p.source})
			continue
		}
		j := found[i]
		lists[i] = append(lists[i], p.source)
		if p.end.After(j.end) {
			j.end = p.end
		}
		j.ranks, j.pids = append(j.ranks, p.ranks...), append(j.pids, p.pids...)
	}
	var logs []torch.Source // only their ranks show which of them belong to one job
	for _, s := range sources {
		if of[s.Name] == nil && slices.ContainsFunc(r.Logs, func(l *torch.LogReport) bool { return holds(s, l.Name) }) {
			logs = append(logs, s)
		}
	}
	switch {
	case len(logs) == 0:
	case len(lists) == 1:
		lists[0] = append(lists[0], logs...)
	default:
		lists = append(lists, jobsOfLogs(logs, r)...)
	}
	return lists
}

// jobsOfLogs groups compile logs of different ranks. Nothing else in them shows
// which belong together.
func jobsOfLogs(logs []torch.Source, r *torch.Report) (jobs [][]torch.Source) {
	var of []torch.Source
	ranks := make(map[int64]bool)
	for _, s := range logs {
		i := slices.IndexFunc(r.Logs, func(l *torch.LogReport) bool { return holds(s, l.Name) })
		if rank := r.Logs[i].Rank; rank >= 0 && !ranks[rank] {
			ranks[rank] = true
			of = append(of, s)
			continue
		}
		jobs = append(jobs, []torch.Source{s})
	}
	if len(of) > 0 {
		jobs = append([][]torch.Source{of}, jobs...)
	}
	return jobs
}

// holds reports whether a name is that of a source, or of an entry of its tar.
func holds(s torch.Source, name string) bool {
	return name == s.Name || strings.HasPrefix(name, s.Name+":")
}

// with reports whether a profile belongs to the same job.
func (j *profiled) with(p *profiled) bool {
	for i, rank := range p.ranks {
		if k := slices.Index(j.pids, p.pids[i]); k >= 0 && j.ranks[k] == rank {
			return p.start.Sub(j.end) < job.MaxApart // the next window of the same process
		}
		if rank < 0 || slices.Contains(j.ranks, rank) {
			return false
		}
	}
	return j.world == p.world && p.start.Sub(j.end) < apart
}

// withTraces returns the paths for the arguments of a command, with a trace in
// place of each profile that is named, or is in a folder without a trace. The
// caller removes the traces.
func withTraces(ctx context.Context, a *ui.App, args []string) (paths []string, im *profileImport, err error) {
	im = &profileImport{app: a, ctx: ctx}
	resolved, err := read.ResolvePaths(ctx, args)
	if err != nil {
		return nil, im, err
	}
	var profiles, from []string
	for _, arg := range resolved {
		found, err := read.Profiles(arg)
		if err != nil {
			return nil, im, err
		}
		if len(found) == 0 {
			paths = append(paths, arg)
			continue
		}
		profiles, from = append(profiles, found...), append(from, arg)
	}
	if len(profiles) == 0 {
		return paths, im, nil
	}
	imported, failed, err := im.traces(profiles)
	if err != nil {
		im.remove()
		return nil, im, err
	}
	im.from = strings.Join(from, ", ")
	for _, f := range failed {
		a.Note("skipped: %v", f)
	}
	a.Note("%s: %s, read as trainspan trace import does", im.from, display.Plural(len(profiles), "profile"))
	for i := range imported {
		paths = append(paths, imported[i].Trace)
	}
	return paths, im, nil
}

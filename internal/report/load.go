// Package report builds the report of a training job: where its time went, which
// rank slows the others down, and what to do next.
//
//	state, err := report.Load(nil, "out/demo")
//	...
//	for _, job := range state.Jobs() {
//		r := report.Build(job)
//		lines := r.First(columns) // or JSON, or HTML
//	}
//
// The report is described in docs/guide/report.md.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/hang"
	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"golang.org/x/sync/errgroup"
)

// Load reads telemetry and digests from files and, recursively, from folders. stop
// may be nil; see [job.Set]. Load returns an error if a path cannot be read, if no
// path has telemetry or a digest, or if a digest is damaged: no other file has the
// missing data of a digest.
func Load(stop func() error, paths ...string) (*State, error) {
	return LoadWith(stop, nil, paths...)
}

// importer converts the files of a profiler to traces, one per job. It also returns
// the files that it could not use, with the reasons. LoadWith does not use the traces
// after it returns.
type importer = func(profiles []string) (traces []Imported, failed []*job.FileError, err error)

// Imported is the trace of one job. Name distinguishes it from other jobs and is empty
// if there is only one.
type Imported struct{ Trace, Name string }

// LoadWith is like [Load] but also reads profiles, with an importer, if there are no
// other records of training. Profiles beside the records of a job are among its
// output files, and are skipped like others.
func LoadWith(stop func() error, imports importer, paths ...string) (*State, error) {
	set, err := job.Open(paths...)
	if err != nil && !errors.Is(err, job.ErrNoTelemetry) {
		return nil, err
	}
	var digests []string
	set.Skipped = slices.DeleteFunc(set.Skipped, func(f *job.FileError) bool {
		// A file with the name or the magic of a digest must not be skipped silently.
		is := errors.Is(f.Err, job.ErrForeign) && (filepath.Ext(f.Path) == ".digest" || fsread.Is(f.Path, fsread.Digest))
		if is {
			digests = append(digests, f.Path)
		}
		return is
	})
	spill := newSpill()
	if err != nil && imports != nil {
		if s, ok, err := fromProfiles(set, spill, stop, imports, paths); ok {
			return s.withDigests(stop, digests, err)
		}
	}
	if err != nil && len(digests) == 0 {
		return nil, err
	}
	set.Stop = stop
	s, readErr := collect(set, spill)
	if readErr != nil {
		return nil, readErr
	}
	if err == nil {
		for _, path := range paths {
			if !slices.Contains(digests, filepath.Clean(path)) && !slices.Contains(digests, path) {
				s.merge(&State{names: []string{path}})
			}
		}
	}
	if s, err = s.withDigests(stop, digests, nil); err != nil {
		return nil, err
	}
	if imports != nil && !slices.ContainsFunc(s.procs, func(p *process) bool { return p.proc.Training }) {
		// If the import fails, the profiles remain skipped files.
		if from, ok, err := fromProfiles(set, spill, stop, imports, paths); ok && err == nil {
			return from, nil
		}
	}
	return s, nil
}

// fromProfiles returns a State of the profiles among the skipped files of a set. ok is
// false if there are no profiles.
func fromProfiles(set *job.Set, spill *extsort.Blocks, stop func() error, imports importer, paths []string) (s *State, ok bool, err error) {
	var profiles []string
	set.Skipped = slices.DeleteFunc(set.Skipped, func(f *job.FileError) bool {
		kind, err := fsread.KindOf(f.Path)
		is := err == nil && kind.Profiler()
		if is {
			profiles = append(profiles, f.Path)
		}
		return is
	})
	if len(profiles) == 0 {
		return nil, false, nil
	}
	traces, failed, err := imports(profiles)
	if err != nil {
		return nil, true, err
	}
	s = &State{skipped: slices.Concat(set.Skipped, failed), spill: spill}
	for _, t := range traces {
		from, err := job.Open(t.Trace)
		if err != nil {
			return nil, true, err
		}
		from.Stop = stop
		one, err := collect(from, spill)
		if err != nil {
			return nil, true, err
		}
		for _, p := range one.procs {
			p.proc.JobID = cmp.Or(p.proc.JobID, t.Name)
		}
		s.merge(one)
	}
	for _, path := range paths {
		s.merge(&State{names: []string{path}})
	}
	return s, true, nil
}

// withDigests adds digests to s. It returns err if err is not nil.
func (s *State) withDigests(stop func() error, digests []string, err error) (*State, error) {
	if err != nil {
		return nil, err
	}
	parts, err := readDigests(stop, digests, s.spill)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		s.merge(part)
	}
	return s, nil
}

// readDigests reads several digests concurrently.
func readDigests(stop func() error, paths []string, spill *extsort.Blocks) ([]*State, error) {
	out, errs := make([]*State, len(paths)), make([]error, len(paths))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, path := range paths {
		g.Go(func() error { // errors keep the order of the paths, and one does not stop the others
			if stop != nil {
				errs[i] = stop()
			}
			if errs[i] == nil {
				out[i], errs[i] = readDigestFile(path, spill)
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return nil
	return out, errors.Join(errs...)
}

func readDigestFile(path string, spill *extsort.Blocks) (*State, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	s, err := readDigest(f, spill)
	if err != nil {
		return nil, fmt.Errorf("report: %s: %w", path, err)
	}
	return s, nil
}

// Job holds the data from which a report is built.
type Job struct {
	Name     string // of the report: the paths that were loaded; may be empty
	Job      *job.Job
	Ledger   *account.Ledger
	Attempts []fromjob.Attempt
	Skipped  []*job.FileError // files that were left out, by path
	// Basis holds the inputs of figures that are not in the records. If Devices is 0, each
	// rank has one device.
	Basis account.Basis

	corrections meet.Corrections // those of Ledger
	uses        []rankUse        // by rank, if the job is a profile
	details     *details
	others      []*hang.File // stacks and flight recorder dumps beside the records
	spill       *extsort.Blocks
}

// Package report gives the answers about a training job: where its time went,
// which rank holds the others up, and what to do next.
//
//	state, err := report.Load(nil, "out/demo")
//	...
//	for _, job := range state.Jobs() {
//		r := report.Build(job)
//		lines := r.First(columns) // or JSON, or HTML
//	}
//
// docs/guide/report.md says how to read it.
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
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"golang.org/x/sync/errgroup"
)

// Load reads telemetry and digests: files, or folders with all that is below
// them, in any mix. Stop may be nil; see [job.Set]. An error means that a path
// cannot be read, that there is neither telemetry nor a digest in any, or that a
// digest is damaged: what a digest lacks nothing else says.
func Load(stop func() error, paths ...string) (*State, error) {
	return LoadWith(stop, nil, paths...)
}

// importer makes traces of files that a profiler wrote, one of each job, and says
// which files it could not use and why. The traces are read before LoadWith returns.
type importer = func(profiles []string) (traces []Imported, failed []*job.FileError, err error)

// Imported is the trace of one job. Name tells it from others, and is empty where there
// are none.
type Imported struct{ Trace, Name string }

// LoadWith is Load which reads what profilers wrote as well, with the help of an
// importer, where nothing else trains: next to the records of a job profiles
// are what it wrote, and left out as other files are.
func LoadWith(stop func() error, imports importer, paths ...string) (*State, error) {
	set, err := job.Open(paths...)
	if err != nil && !errors.Is(err, job.ErrNoTelemetry) {
		return nil, err
	}
	var digests []string
	set.Skipped = slices.DeleteFunc(set.Skipped, func(f *job.FileError) bool {
		// A file that calls itself a digest is not left out without a word.
		is := errors.Is(f.Err, job.ErrForeign) && (filepath.Ext(f.Path) == ".digest" || fsread.Is(f.Path, fsread.Digest))
		if is {
			digests = append(digests, f.Path)
		}
		return is
	})
	if err != nil && imports != nil {
		if s, ok, err := fromProfiles(set, stop, imports, paths); ok {
			return s.withDigests(stop, digests, err)
		}
	}
	if err != nil && len(digests) == 0 {
		return nil, err
	}
	set.Stop = stop
	s, readErr := collect(set)
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
		// What no import takes is one of the files that are left out.
		if from, ok, err := fromProfiles(set, stop, imports, paths); ok && err == nil {
			return from, nil
		}
	}
	return s, nil
}

// fromProfiles makes a State of the profiles among the files of a set, ok is false
// without any.
func fromProfiles(set *job.Set, stop func() error, imports importer, paths []string) (s *State, ok bool, err error) {
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
	s = &State{skipped: slices.Concat(set.Skipped, failed)}
	for _, t := range traces {
		from, err := job.Open(t.Trace)
		if err != nil {
			return nil, true, err
		}
		from.Stop = stop
		one, err := collect(from)
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

// withDigests adds digests to what was read, unless that failed.
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

// readDigests reads several at a time.
func readDigests(stop func() error, paths []string, spill *extsort.Blocks) ([]*State, error) {
	out, errs := make([]*State, len(paths)), make([]error, len(paths))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, path := range paths {
		g.Go(func() error { // errors keep the order of the paths, and one leaves the others alone
			if stop != nil {
				errs[i] = stop()
			}
			if errs[i] == nil {
				out[i], errs[i] = readDigestFile(path, spill)
			}
			return nil
		})
	}
	_ = g.Wait() // no function fails
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

// Job is what a report is built from.
type Job struct {
	Name     string // of the report: where the files lie; may be empty
	Job      *job.Job
	Ledger   *account.Ledger
	Attempts []fromjob.Attempt
	Skipped  []*job.FileError // files that were left out, by path
	// Basis is what figures need beyond the records. Without Devices a rank has one.
	Basis account.Basis

	clocks  fromjob.ClockTable // how far they were set forward
	uses    []rankUse          // of a job that is a profile, by rank
	details *details
	others  []*hang.File // what lies beside the records
	spill   *extsort.Blocks
}

package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/trainspan/trainspan/analysis/run"
)

// Load reads telemetry and digests: files, or folders with all that is below
// them, in any mix. Stop may be nil; see [run.Set]. An error means that a path
// cannot be read, that there is neither telemetry nor a digest in any, or that a
// digest is damaged: what a digest lacks nothing else says.
func Load(stop func() error, paths ...string) (*State, error) {
	set, err := run.Open(paths...)
	if err != nil && !errors.Is(err, run.ErrNoTelemetry) {
		return nil, err
	}
	var digests []string
	set.Skipped = slices.DeleteFunc(set.Skipped, func(f *run.FileError) bool {
		// A file that calls itself a digest is not left out without a word.
		is := errors.Is(f.Err, run.ErrForeign) && (filepath.Ext(f.Path) == ".digest" || IsDigest(f.Path))
		if is {
			digests = append(digests, f.Path)
		}
		return is
	})
	if err != nil && len(digests) == 0 {
		return nil, err
	}
	set.Stop = stop
	s, readErr := Collect(set)
	if readErr != nil {
		return nil, readErr
	}
	if err == nil {
		for _, path := range paths {
			if !slices.Contains(digests, filepath.Clean(path)) && !slices.Contains(digests, path) {
				s.Merge(&State{names: []string{path}})
			}
		}
	}
	parts, err := readDigests(stop, digests)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		s.Merge(part)
	}
	return s, nil
}

// readDigests reads several at a time.
func readDigests(stop func() error, paths []string) ([]*State, error) {
	out, errs := make([]*State, len(paths)), make([]error, len(paths))
	var wait sync.WaitGroup
	next := make(chan int)
	for range min(runtime.GOMAXPROCS(0), len(paths)) {
		wait.Go(func() {
			for i := range next {
				if stop != nil && stop() != nil {
					errs[i] = stop()
					continue
				}
				out[i], errs[i] = readDigestFile(paths[i])
			}
		})
	}
	for i := range paths {
		next <- i
	}
	close(next)
	wait.Wait()
	return out, errors.Join(errs...)
}

func readDigestFile(path string) (*State, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	s, err := ReadDigest(f)
	if err != nil {
		return nil, fmt.Errorf("report: %s: %w", path, err)
	}
	return s, nil
}

package read

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/infile"
)

// Expand returns the trace files that the arguments stand for, each once, in the
// order of the arguments: files that are named, whatever they hold, and of folders
// those that hold a trace, or promise one by their name.
func Expand(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, ui.Usage("no trace is given; name files, globs or directories, such as out/*.pfw.gz")
	}
	var files []string
	var once infile.Once
	for _, arg := range args {
		found, err := WalkFiles(arg)
		if err != nil {
			return nil, err
		}
		found = onlyTraces(found)
		if info, err := os.Stat(arg); err == nil && info.IsDir() && len(found) == 0 {
			return nil, ui.Usage("%s: no trace is in this directory; name another one", arg)
		}
		for _, f := range found {
			if f.Named && !f.Info.Mode().IsRegular() {
				return nil, ui.Usage("%s: is no regular file, and a trace is read more than once; write it to a file first", arg)
			}
			if f.Err != nil || once.Add(f.Info) {
				files = append(files, f.Path)
			}
		}
	}
	if len(files) == 0 {
		return nil, ui.Usage("%s: no file is here; name traces or directories of traces", strings.Join(args, ", "))
	}
	return files, nil
}

// WalkFiles is infile.Walk for arguments of a command line.
func WalkFiles(args ...string) ([]infile.Found, error) {
	found, err := infile.Walk(args...)
	if errors.Is(err, infile.ErrNoMatch) || errors.Is(err, filepath.ErrBadPattern) {
		err = ui.Usage("%v", err)
	}
	return found, err
}

// onlyTraces leaves out what lies in folders and is no trace.
func onlyTraces(found []infile.Found) (out []infile.Found) {
	is := make([]bool, len(found))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range found {
		g.Go(func() error {
			f := &found[i]
			is[i] = !f.Below || f.Err != nil || infile.NamedTrace(f.Path) || infile.Is(f.Path, infile.Trace)
			return nil
		})
	}
	_ = g.Wait() // no function fails
	for i := range found {
		if is[i] {
			out = append(out, found[i])
		}
	}
	return out
}

// IsRecords reports whether a file holds the JSON lines of native telemetry.
func IsRecords(path string) bool { return infile.Is(path, infile.Records) }

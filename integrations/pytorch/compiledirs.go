package pytorch

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/internal/kineto"
)

// compileDir recognises the directories that torch.compile and its tools leave
// behind and that hold no time of the run. nil is any other directory.
func compileDir(path string, entries []fs.DirEntry) *kineto.RefusedError {
	has := map[string]bool{}
	debugRun := false
	for _, e := range entries {
		has[e.Name()] = true
		if e.IsDir() && strings.HasPrefix(e.Name(), "run_") && strings.Contains(e.Name(), "pid_") {
			debugRun = true
		}
	}
	switch {
	case has["index.html"] && (has["raw.jsonl"] || has["chromium_events.json"] || has["compile_directory.json"]):
		return &kineto.RefusedError{What: "a report of tlparse",
			Hint: "give the TORCH_TRACE log it was made from, dedicated_log_torch_trace_*.log"}
	case filepath.Base(path) == "torch_compile_debug", debugRun && !has["index.html"],
		has["torchinductor"] && (has["torchdynamo"] || strings.HasPrefix(filepath.Base(path), "run_")):
		return &kineto.RefusedError{What: "a folder of TORCH_COMPILE_DEBUG, graphs and code without times",
			Hint: "run with TORCH_TRACE=DIR and give the log in it, dedicated_log_torch_trace_*.log"}
	}
	return nil
}

// refusedSource is a source that an import reports and leaves out.
func refusedSource(path string, why *kineto.RefusedError) Source {
	return Source{Name: path, Open: func() (io.ReadCloser, error) { return nil, why }}
}

// compileDirsIn returns the directories of torch.compile right below a
// directory that has nothing to import.
func compileDirsIn(path string, entries []fs.DirEntry) []Source {
	var out []Source
	for _, e := range entries {
		below := filepath.Join(path, e.Name())
		if !e.IsDir() {
			continue
		}
		if inside, err := os.ReadDir(below); err == nil {
			if why := compileDir(below, inside); why != nil {
				out = append(out, refusedSource(below, why))
			}
		}
	}
	return out
}

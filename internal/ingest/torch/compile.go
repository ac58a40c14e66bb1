package torch

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// CompileReport describes torch.compile in a trace, and what of it is unknown.
type CompileReport struct {
	// Regions has one entry per compiled code object and direction.
	Regions []*RegionReport `json:"regions,omitempty"`
	// CacheLookup is the host time of guard checks, Compiling the host time of
	// compilation inside the window.
	CacheLookup time.Duration `json:"cache_lookup_ns"`
	Compiling   time.Duration `json:"compiling_ns"`
	// UnknownOverloads counts operators whose overload the trace does not have.
	UnknownOverloads int64 `json:"unknown_overloads,omitempty"`
	// Backward is true if the trace has compiled backward graphs.
	Backward bool `json:"backward"`
}

// RegionReport describes the calls of one compiled code object.
type RegionReport struct {
	// ID is the compile id, or "CompiledFunction" if the trace has none.
	ID string `json:"id"`
	// Backward is the direction.
	Backward bool `json:"backward"`
	// Kind is "per-op", "inductor", "cuda graph" or "unknown".
	Kind string `json:"kind"`
	// Calls counts entries, Ops the operators that became events, Kernels the
	// fused kernels, Launches the graph launches.
	Calls    int64 `json:"calls"`
	Ops      int64 `json:"operators"`
	Kernels  int64 `json:"kernels"`
	Launches int64 `json:"launches"`

	graphCalls bool // has "## Call CompiledFxGraph" rows
	triton     bool
	cudaGraph  bool
	hasOps     bool
}

type regionKey struct {
	region   uint32
	backward bool
}

const maxRegions = 10_000

// regions finds the report entries for a file's compiled code.
type regions struct {
	names *names
	file  *FileReport
	byKey map[regionKey]*RegionReport
}

// report returns the file's report about torch.compile, created at the first
// call.
func (g *regions) report() *CompileReport {
	if g.file.Compile == nil {
		g.file.Compile, g.byKey = &CompileReport{}, map[regionKey]*RegionReport{}
	}
	return g.file.Compile
}

// entryFor returns the entry of a region and direction.
func (g *regions) entryFor(region uint32, backward bool) *RegionReport {
	c := g.report()
	k := regionKey{region, backward}
	rr := g.byKey[k]
	if rr == nil {
		id := g.names.text[region]
		if id == "" {
			id = "CompiledFunction"
		}
		rr = &RegionReport{ID: id, Backward: backward}
		if len(c.Regions) < maxRegions {
			c.Regions = append(c.Regions, rr)
			g.byKey[k] = rr
		}
	}
	c.Backward = c.Backward || backward
	return rr
}

// settle sets the kind of every region after the first sweep.
func (c *CompileReport) settle() {
	for _, r := range c.Regions {
		switch {
		case r.cudaGraph:
			r.Kind = "cuda graph"
		case r.graphCalls || r.triton:
			r.Kind = "inductor"
		case r.hasOps:
			r.Kind = "per-op"
		default:
			r.Kind = "unknown"
		}
	}
}

// say adds the sentences of a compile report to the file's report.
func (c *CompileReport) say(r *FileReport) {
	var fused, graphs, total int
	for _, rr := range c.Regions {
		total++
		switch rr.Kind {
		case "inductor":
			fused++
		case "cuda graph":
			graphs++
		}
	}
	if fused > 0 {
		r.cannot(fmt.Sprintf("%d of %d compiled regions are Inductor graphs: they have no run time per operator, durations are per fused kernel", fused, total))
	}
	if graphs > 0 {
		r.cannot(fmt.Sprintf("%d of %d compiled regions are replayed as CUDA graphs, which hide the operators: each call is one launch", graphs, total))
	}
	if c.UnknownOverloads > 0 {
		r.cannot(fmt.Sprintf("the overload of %d operators: the profiler writes names without it; a TORCH_TRACE log of the same run has it", c.UnknownOverloads))
	}
	if c.Compiling > 0 {
		r.warn(fmt.Sprintf("compilation inside the window: %s", c.Compiling))
	}
	if total > 0 && !c.Backward {
		r.cannot("a compiled backward: this trace has none")
	}
	if total > 0 {
		r.cannot("graph nodes that never reach the dispatcher (getitem, constants) have no event")
		r.cannot("the host duration of an operator that launches device work is its launch time; device_us holds the device time")
	}
}

func (c *CompileReport) text(b *strings.Builder) {
	for _, r := range c.Regions {
		dir := "forward"
		if r.Backward {
			dir = "backward"
		}
		display.Fprintf(b, "  compiled %s, %s: %s, %d calls, %d operators, %d fused kernels, %d graph launches\n", r.ID, dir, r.Kind, r.Calls, r.Ops, r.Kernels, r.Launches)
	}
	if c.CacheLookup > 0 {
		display.Fprintf(b, "  guard checks took %s\n", c.CacheLookup)
	}
}

// compileDir recognizes directories of torch.compile and its tools, which have
// no times of the run. It returns nil for other directories.
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
		return &kineto.RefusedError{What: "a tlparse report",
			Hint: "pass the TORCH_TRACE log that it was made from: dedicated_log_torch_trace_*.log"}
	case filepath.Base(path) == "torch_compile_debug", debugRun && !has["index.html"],
		has["torchinductor"] && (has["torchdynamo"] || strings.HasPrefix(filepath.Base(path), "run_")):
		return &kineto.RefusedError{What: "a TORCH_COMPILE_DEBUG directory (graphs and code without times)",
			Hint: "run with TORCH_TRACE=DIR and pass the log in DIR: dedicated_log_torch_trace_*.log"}
	}
	return nil
}

// refusedSource returns a source that an import reports and skips.
func refusedSource(path string, why *kineto.RefusedError) Source {
	return Source{Name: path, Open: func() (io.ReadCloser, error) { return nil, why }}
}

// compileDirsIn returns the directories of torch.compile directly in a
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

package hang

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/internal/platform/redact"
)

// Stack is the call stack of the main thread of a process: the innermost frames
// first.
type Stack struct {
	PID    int64  // 0 if the file has none
	From   string // py-spy or faulthandler
	Frames []string
	// Place is the innermost line of the program's own code (train.py:41), or the
	// innermost line if no frame is the program's own.
	Place string
	// Function is the function that the program called there, or the function of
	// the line itself if no call is known.
	Function string
}

// maxFrames limits the frames that are kept of a thread, and maxDepth those
// that are searched for the program's own one.
const (
	maxFrames = 12
	maxDepth  = 1024
)

// The formats of the programs.
var (
	spyProcess = regexp.MustCompile(`^Process (\d+): `)
	spyThread  = regexp.MustCompile(`^Thread (?:0x[0-9a-fA-F]+|\d+) \((?:idle|active)[^)]*\)(?:: "(.*)")?`)
	spyFrame   = regexp.MustCompile(`^ {4}(\S.*) \((.+)\)$`)
	handler    = regexp.MustCompile(`^(Current thread|Thread) .*\(most recent call first\):$`)
	handlerIn  = regexp.MustCompile(`^  File "(.+)", line (\d+) in (.+)$`)
)

// readStacks reads the stacks of one or several processes. The last stack of a
// process counts.
func readStacks(r io.Reader) []Stack {
	var out []Stack
	var pid int64
	var current *Stack
	var frames []frame          // of the current one
	main, fatal := false, false // no other thread counts any more; the process crashed
	end := func() {
		if current != nil {
			current.take(frames)
		}
		current, frames = nil, frames[:0]
	}
	begin := func(from string, isMain bool) {
		end()
		i := slices.IndexFunc(out, func(s Stack) bool { return s.PID == pid && s.From == from })
		if i < 0 {
			out = append(out, Stack{PID: pid, From: from})
			i = len(out) - 1
		}
		current, main = &out[i], isMain
		current.Frames, current.Place, current.Function = nil, "", ""
	}
	in := bufio.NewScanner(io.LimitReader(r, 4<<20))
	in.Buffer(nil, 1<<20)
	for in.Scan() && len(out) < 1024 {
		line := strings.TrimRight(in.Text(), "\r")
		if m := spyProcess.FindStringSubmatch(line); m != nil {
			end()
			pid, _ = strconv.ParseInt(m[1], 10, 64)
			main = false
			continue
		}
		if m := spyThread.FindStringSubmatch(line); m != nil {
			// The main thread comes first; others are ignored.
			if m[1] == "MainThread" || current == nil && !main {
				begin("py-spy", m[1] == "MainThread")
			} else {
				end()
			}
			continue
		}
		if m := handler.FindStringSubmatch(line); m != nil {
			// The main thread comes last; after a crash the marked one counts.
			if end(); !main {
				begin("faulthandler", fatal && m[1] == "Current thread")
			}
			continue
		}
		fatal = fatal || strings.HasPrefix(line, "Fatal Python error: ")
		var in frame
		if m := spyFrame.FindStringSubmatch(line); m != nil {
			in = frame{m[1], m[2]}
		} else if m := handlerIn.FindStringSubmatch(line); m != nil {
			in = frame{m[3], m[1] + ":" + m[2]}
		}
		if in.path != "" && !ours(in.path) && current != nil && len(frames) < maxDepth {
			frames = append(frames, in)
		}
	}
	end()
	return slices.DeleteFunc(out, func(s Stack) bool { return len(s.Frames) == 0 })
}

// frame is one function with its file and line.
type frame struct{ function, path string }

// take stores the frames of a thread and finds the program's own one.
func (s *Stack) take(frames []frame) {
	if len(frames) == 0 {
		return
	}
	for _, f := range frames[:min(len(frames), maxFrames)] {
		s.Frames = append(s.Frames, short(fmt.Sprintf("%s (%s)", f.function, base(f.path))))
	}
	own := max(slices.IndexFunc(frames, func(f frame) bool { return !inLibrary(f.path) }), 0)
	s.Place, s.Function = short(base(frames[own].path)), short(frames[own].function)
	for i := own - 1; i >= 0; i-- {
		if !passesOn[frames[i].function[strings.LastIndexByte(frames[i].function, '.')+1:]] {
			s.Function = short(frames[i].function)
			break
		}
	}
}

func short(s string) string { return redact.Text(s[:min(len(s), maxText)]) }

// passesOn are the names of functions that only call a wrapped function,
// without the name of their class.
var passesOn = map[string]bool{"wrapper": true, "wrapped": true, "inner": true, "_fn": true, "decorate_context": true, "__call__": true, "_call_impl": true, "_wrapped_call_impl": true}

// installed matches the paths of installed packages, of Python's own library
// and of PyTorch; py-spy omits the path before the name of a package.
var installed = regexp.MustCompile(`/(site|dist)-packages/|/lib(64)?/python\d|^<|/pytorch/torch/|^torch/|^(multiprocessing|concurrent|asyncio|importlib|numpy)/|^(threading|queue|selectors|socket|ssl|subprocess|runpy)\.py:`)

// inLibrary reports whether a line is outside of the program's own code.
func inLibrary(path string) bool { return installed.MatchString(strings.ReplaceAll(path, `\`, "/")) }

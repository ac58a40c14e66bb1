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

// Stack is where the main thread of a process was: the innermost frames first.
type Stack struct {
	PID    int64  // 0 where the file does not say
	From   string // py-spy or faulthandler
	Frames []string
}

// maxFrames bounds those that are kept of a thread.
const maxFrames = 12

// What the programs write.
var (
	spyProcess = regexp.MustCompile(`^Process (\d+): `)
	spyThread  = regexp.MustCompile(`^Thread (?:0x[0-9a-fA-F]+|\d+) \((?:idle|active)[^)]*\)(?:: "(.*)")?`)
	spyFrame   = regexp.MustCompile(`^ {4}(\S.*) \((.+)\)$`)
	handler    = regexp.MustCompile(`^(Current thread|Thread) .*\(most recent call first\):$`)
	handlerIn  = regexp.MustCompile(`^  File "(.*)", line (\d+) in (.*)$`)
)

// readStacks reads the stacks of one or several processes. Of several of one process the
// last counts.
func readStacks(r io.Reader) []Stack {
	var out []Stack
	var pid int64
	var current *Stack
	main, fatal := false, false // no other thread counts any more; the process crashed
	begin := func(from string, isMain bool) {
		i := slices.IndexFunc(out, func(s Stack) bool { return s.PID == pid && s.From == from })
		if i < 0 {
			out = append(out, Stack{PID: pid, From: from})
			i = len(out) - 1
		}
		current, main = &out[i], isMain
		current.Frames = nil
	}
	in := bufio.NewScanner(io.LimitReader(r, 4<<20))
	in.Buffer(nil, 1<<20)
	for in.Scan() && len(out) < 1024 {
		line := strings.TrimRight(in.Text(), "\r")
		if m := spyProcess.FindStringSubmatch(line); m != nil {
			pid, _ = strconv.ParseInt(m[1], 10, 64)
			current, main = nil, false
			continue
		}
		if m := spyThread.FindStringSubmatch(line); m != nil {
			// The main thread comes first; others are left out.
			if m[1] == "MainThread" || current == nil && !main {
				begin("py-spy", m[1] == "MainThread")
			} else {
				current = nil
			}
			continue
		}
		if m := handler.FindStringSubmatch(line); m != nil {
			// The main thread comes last; of a crash the one that is marked counts.
			if current = nil; !main {
				begin("faulthandler", fatal && m[1] == "Current thread")
			}
			continue
		}
		fatal = fatal || strings.HasPrefix(line, "Fatal Python error: ")
		frame := ""
		path := ""
		if m := spyFrame.FindStringSubmatch(line); m != nil {
			frame = fmt.Sprintf("%s (%s)", m[1], base(m[2]))
			path = m[2]
		} else if m := handlerIn.FindStringSubmatch(line); m != nil {
			frame = fmt.Sprintf("%s (%s:%s)", m[3], base(m[1]), m[2])
			path = m[1]
		}
		if frame != "" && !ours(path) && current != nil && len(current.Frames) < maxFrames {
			current.Frames = append(current.Frames, redact.Text(frame[:min(len(frame), maxText)]))
		}
	}
	return slices.DeleteFunc(out, func(s Stack) bool { return len(s.Frames) == 0 })
}

// Text says where the process was, in the innermost frames.
func (s *Stack) Text(most int) string {
	text := strings.Join(s.Frames[:min(len(s.Frames), most)], " < ")
	if len(s.Frames) > most {
		text += " < …"
	}
	return text
}

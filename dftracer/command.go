package dftracer

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
)

// CommandLine gives what can get a report of this process's command line without
// telling a secret: the program and the names of its flags, joined by ";". No
// value of a flag and no other argument is in it: no rule finds all secrets
// among them. A trace has it if it is asked for:
//
//	dftracer.Options{Process: dftracer.Process{Command: dftracer.CommandLine()}}
func CommandLine() string { return strings.Join(outline(arguments()), ";") }

// arguments are those of this process, with the program in front.
func arguments() []string {
	line, err := os.ReadFile("/proc/self/cmdline")
	line = bytes.TrimRight(line, "\x00")
	if err == nil && len(line) > 0 {
		return strings.Split(string(line), "\x00")
	}
	if exe, err := os.Executable(); err == nil {
		return []string{exe}
	}
	return []string{"DEFAULT"}
}

// maxCommand is how much of a command line the reference looks at.
const maxCommand = 4096

// flagName finds what can be the name of a flag.
var flagName = regexp.MustCompile(`^[A-Za-z][-A-Za-z0-9_.]{0,63}$`)

// outline keeps the program and the names of flags. After one dash a name is
// believed only if package flag knows it: else it can be a letter with its value,
// as in -phunter2, so that the letter is all that is kept.
func outline(args []string) []string {
	out := args[:1:1]
	size := len(args[0])
	for _, arg := range args[1:] {
		name, dashed := strings.CutPrefix(arg, "-")
		if !dashed {
			continue
		}
		if name == "-" { // what follows are no flags
			break
		}
		name, _, _ = strings.Cut(name, "=")
		long, two := strings.CutPrefix(name, "-")
		if !two && flag.Lookup(name) == nil {
			name = name[:min(1, len(name))]
			long = name
		}
		if !flagName.MatchString(long) {
			continue
		}
		if size += len(name) + len(";-"); size > maxCommand {
			break
		}
		out = append(out, "-"+name)
	}
	return out
}

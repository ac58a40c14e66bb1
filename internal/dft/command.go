package dft

import (
	"bytes"
	"flag"
	"os"
	"strings"

	"github.com/trainspan/trainspan/internal/secret"
)

// CommandLine returns what can get a report of this process's command line without
// telling a secret: the program and the names of its flags, joined by ";". No
// value of a flag and no other argument is in it: no rule finds all secrets
// among them. A trace has it if it is asked for:
//
//	dftracer.Options{Process: dftracer.Process{Command: dft.CommandLine()}}
func CommandLine() string { return strings.Join(outline(Arguments()), ";") }

// arguments are those of this process, with the program in front.
func Arguments() []string {
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

// outline keeps the program and the names of flags; of those with one dash, the ones that
// package flag knows.
func outline(args []string) []string {
	known := func(name string) bool { return flag.Lookup(name) != nil }
	return append(args[:1:1], secret.Flags(args[1:], known)...)
}

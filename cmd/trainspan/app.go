package main

import (
	"io"

	"github.com/trainspan/trainspan/internal/visible"
)

// streams is what a command may touch of the process it runs in.
type streams struct {
	in       io.Reader
	out, err io.Writer
	lookup   func(string) (string, bool) // environment
}

// app is one run of the program.
type app struct {
	streams        streams
	stdout, stderr *visible.Writer // where all that is printed goes; only what draws on a terminal takes the streams
	noBar          bool
	color          string          // one of colours, empty for auto
	problems       int             // told to the user so far; they make the status 1
	told           map[string]bool // what was, of a file that may be read again
}

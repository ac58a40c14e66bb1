package ui

import (
	"io"

	"github.com/trainspan/trainspan/internal/visible"
)

// Streams is what a command may touch of the process it runs in.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Lookup   func(string) (string, bool) // environment
}

// App is one run of the program.
type App struct {
	Streams        Streams
	Stdout, Stderr *visible.Writer // where all that is printed goes; only what draws on a terminal takes the streams
	NoBar          bool
	Color          string          // one of colours, empty for auto
	Problems       int             // told to the user so far; they make the status 1
	told           map[string]bool // what was, of a file that may be read again
}

// New returns the run of the program with these streams.
func New(s Streams) *App {
	a := &App{Streams: s, Stdout: visible.NewWriter(s.Out), Stderr: visible.NewWriter(s.Err)}
	a.Stdout.Columns = a.Width
	a.Stderr.Columns = func() int { return a.Columns(a.Stderr) }
	return a
}

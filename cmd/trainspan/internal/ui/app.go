// Package ui provides what all commands share: the streams of a run of the
// program, tables and colours, progress bars, errors with their exit statuses,
// files that are written atomically, and flags.
package ui

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/trainspan/trainspan/internal/platform/display"
	"golang.org/x/term"
)

// Streams holds the streams and the environment that a command may use.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Lookup   func(string) (string, bool) // environment
}

// App is one run of the program.
type App struct {
	Streams        Streams
	Stdout, Stderr *display.Writer // for all output; only code that draws on a terminal uses the streams
	NoBar          bool
	Color          string          // one of Colours, empty for auto
	Problems       int             // problems reported so far; they make the status 1
	shown          map[string]bool // messages that were printed: a file may be read twice
}

// New returns the App with these streams.
func New(s Streams) *App {
	a := &App{Streams: s, Stdout: display.NewWriter(s.Out), Stderr: display.NewWriter(s.Err)}
	a.Stdout.Columns = a.Width
	a.Stderr.Columns = func() int { return a.Columns(a.Stderr) }
	a.Stdout.ASCII = display.PlainLocale(a.Env)
	a.Stderr.ASCII = a.Stdout.ASCII
	return a
}

// Paint returns the painter for w. Unless --color is set, only terminals get
// colours, and only if neither NO_COLOR nor a TERM without colours is set.
func (a *App) Paint(w *display.Writer) Painter {
	switch a.Color {
	case "always":
		return Painter{true}
	case "never":
		return Painter{}
	}
	noColor, _ := a.Env("NO_COLOR")
	kind, _ := a.Env("TERM")
	return Painter{Terminal(w.Under()) && noColor == "" && kind != "dumb"}
}

// Env returns a variable of the environment.
func (a *App) Env(name string) (string, bool) {
	if a.Streams.Lookup == nil {
		return "", false
	}
	return a.Streams.Lookup(name)
}

// Table prints a table, as wide as the terminal.
func (a *App) Table(to *display.Writer, t *display.Table) {
	heads, rows := t.Lines(a.Columns(to))
	p := a.Paint(to)
	if heads != "" {
		_, _ = display.Fprintf(to, "%s\n", p.Dim(heads)) // to remembers its error
	}
	for _, row := range rows {
		_, _ = display.Fprintf(to, "%s\n", row)
	}
}

// Width returns the width of a line of standard output, 0 for no limit.
func (a *App) Width() int { return a.Columns(a.Stdout) }

// Columns returns the width of a line: that of the terminal, or COLUMNS, at
// least 40. 0 means no limit.
func (a *App) Columns(w *display.Writer) int {
	if v, _ := a.Env("COLUMNS"); v != "" {
		if n, err := strconv.Atoi(v); err == nil && n > 0 {
			return max(n, 40)
		}
	}
	if f, ok := w.Under().(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return max(n, 40)
		}
	}
	return 0
}

// Printf writes to standard output, which remembers its error. Arguments stay
// on one line.
func (a *App) Printf(format string, args ...any) { _, _ = display.Fprintf(a.Stdout, format, args...) }

// PrintJSON prints a value as JSON.
func (a *App) PrintJSON(v any) error { return PrintJSON(a.Stdout, v) }

// Words sets the completions of a flag.
func Words(cmd *cobra.Command, flag string, list ...string) {
	// The only error is a flag that does not exist, which a test would detect.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp))
}

// Choice is a flag that accepts one of a few words.
type Choice struct {
	to    *string
	words []string
}

// NewChoice returns a flag that stores its value in *to. The default is the
// first word.
func NewChoice(to *string, words ...string) *Choice {
	*to = words[0]
	return &Choice{to, words}
}

func (c *Choice) String() string { return *c.to }

// Type implements pflag.Value.
func (c *Choice) Type() string { return "string" }

// Set implements pflag.Value.
func (c *Choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("choose one of %s", strings.Join(c.words, ", "))
	}
	*c.to = word
	return nil
}

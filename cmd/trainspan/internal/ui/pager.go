package ui

import (
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/platform/display"
)

// Paged calls print, and shows what it prints in the pager of the user if standard
// output is a terminal. A text that fits on the screen stays there without keys.
func (a *App) Paged(print func()) {
	out, ok := a.Streams.Out.(*os.File)
	line := a.pager()
	if !ok || !Terminal(out) || len(line) == 0 {
		print()
		return
	}
	pager := exec.Command(line[0], line[1:]...) //nolint:gosec // what the user set
	pager.Stdout, pager.Stderr = out, a.Streams.Err
	if _, set := a.Env("LESS"); !set {
		pager.Env = append(os.Environ(), "LESS=FRX") // ends at once if the text fits, with colours, without clearing the screen
	}
	if !signal.Ignored(os.Interrupt) { // the pager handles Ctrl-C, any number of times
		keys := make(chan os.Signal, 1)
		signal.Notify(keys, os.Interrupt)
		defer signal.Stop(keys)
	}
	to, err := pager.StdinPipe()
	if err == nil {
		err = pager.Start()
	}
	if err != nil {
		print()
		return
	}
	plain, width := a.Stdout, a.Width()
	a.Stdout = display.NewWriter(to)
	a.Stdout.ASCII, a.Stdout.Columns = plain.ASCII, func() int { return width }
	print()
	_ = a.Stdout.Flush() // the pager may have ended before the text
	a.Stdout = plain
	_ = to.Close()
	_ = pager.Wait() // its status is not ours
}

// pager returns the command line of the pager, empty for none.
func (a *App) pager() []string {
	if kind, _ := a.Env("TERM"); slices.Contains([]string{"", "dumb"}, kind) {
		return nil
	}
	set, ok := a.Env("PAGER")
	line := strings.Fields(set)
	if !ok {
		line = []string{"less"}
	}
	if len(line) == 0 || line[0] == "cat" {
		return nil
	}
	if _, err := exec.LookPath(line[0]); err != nil {
		return nil
	}
	return line
}

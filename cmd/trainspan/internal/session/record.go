//go:build unix

package session

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

// record writes run.json, and messages about telemetry to the user's terminal.
type record struct {
	out *display.Writer // for the user

	mu      sync.Mutex // guards the fields below
	run     rundir.Run
	file    *rundir.File
	printed int // number of printed problems
}

// try runs a part of the start. If the part fails or panics, it is recorded as
// a problem and the start continues without it.
func (r *record) try(what string, f func() error) {
	defer func() {
		if p := recover(); p != nil {
			r.problem("%s: panicked: %v; see "+helptopic.Run, what, p)
		}
	}()
	if err := f(); err != nil {
		r.problem("%s: %v; see "+helptopic.Run, what, err)
	}
}

// maxProblems bounds the list in run.json.
const maxProblems = 50

// problem records a telemetry problem; duplicates are ignored. Before the
// command starts it is printed at once, later at the end, because the terminal
// belongs to the command.
func (r *record) problem(format string, args ...any) {
	text := ui.OneLine(fmt.Sprintf(format, args...))
	r.mu.Lock()
	known := slices.Contains(r.run.Problems, text) || len(r.run.Problems) >= maxProblems
	if !known {
		r.run.Problems = append(r.run.Problems, text)
	}
	early := r.run.CommandPID == 0
	if early {
		r.printed = len(r.run.Problems)
	}
	r.mu.Unlock()
	if !known && early {
		r.say("%s", text)
	}
}

// lack records a problem like problem, for data that the files lack. Such
// problems come first, and are printed even without a report.
func (r *record) lack(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	r.run.Problems = slices.Insert(r.run.Problems, 0, text)
	r.printed++
	r.mu.Unlock()
	r.say("%s", text)
}

// say prints a line for the user.
func (r *record) say(format string, args ...any) {
	_, _ = display.Fprintf(r.out, "trainspan: "+format+"\n", args...) // an error cannot be reported
}

// problemHandler converts the log of libraries to problems.
type problemHandler struct{ r *record }

func (problemHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (h problemHandler) WithAttrs([]slog.Attr) slog.Handler         { return h }
func (h problemHandler) WithGroup(string) slog.Handler              { return h }

func (h problemHandler) Handle(_ context.Context, l slog.Record) error {
	text := l.Message
	l.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(", %s: %v", a.Key, a.Value)
		return true
	})
	h.r.problem("%s", text)
	return nil
}

// alive records in run.json that the command is running.
func (r *record) alive(now time.Time) {
	r.mu.Lock()
	err := r.file.Beat(now)
	r.mu.Unlock()
	r.failed(err)
}

// write updates run.json with the changes that describe makes.
func (r *record) write(describe func(*rundir.Run)) {
	r.mu.Lock()
	describe(&r.run)
	err := r.file.Write(&r.run)
	r.mu.Unlock()
	r.failed(err)
}

func (r *record) failed(err error) {
	if err != nil {
		r.problem("run.json: %v; see "+helptopic.File, err)
	}
}

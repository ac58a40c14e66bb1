package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/trainspan/trainspan/examples/charlm/internal/checkpoint"
)

// lineEvery is the interval of the loss lines if there is no progress bar.
const lineEvery = 3 * time.Second

// reporter shows the progress of the run: a bar on a terminal, otherwise a line
// in intervals.
type reporter struct {
	out    io.Writer
	barOut io.Writer // nil for plain lines
	bar    *progressbar.ProgressBar

	since  time.Time // of the values below
	tokens int       // characters predicted
	losses float64
	steps  int
}

// begin starts the clock, and the bar at step done of total.
func (r *reporter) begin(done, total int64) {
	r.since = time.Now()
	if r.barOut == nil {
		return
	}
	r.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(r.barOut),
		progressbar.OptionSetDescription("training"),
		progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(24),
		progressbar.OptionThrottle(100*time.Millisecond),
	)
	_ = r.bar.Set64(done) // an error of the bar must not stop the training
}

// step counts one step.
func (r *reporter) step(pos checkpoint.Position, loss float64, rows int) {
	r.steps++
	r.losses += loss
	r.tokens += rows
	elapsed := time.Since(r.since)
	every := lineEvery
	if r.bar != nil {
		_ = r.bar.Set64(pos.Step)
		every = time.Second
	}
	if elapsed < every {
		return
	}
	text := fmt.Sprintf("loss %.4f, %.0f tokens/s", r.losses/float64(r.steps), float64(r.tokens)/elapsed.Seconds())
	if r.bar != nil {
		r.bar.Describe(text)
	} else {
		r.line("epoch %d, step %d: %s", pos.Epoch+1, pos.Step, text)
	}
	r.since, r.tokens, r.losses, r.steps = time.Now(), 0, 0, 0
}

// line prints a message, above the bar if there is one.
func (r *reporter) line(format string, args ...any) {
	if r.bar != nil {
		_ = r.bar.Clear()
	}
	fmt.Fprintf(r.out, format+"\n", args...)
}

// end removes the bar.
func (r *reporter) end() {
	if r.bar != nil {
		_ = r.bar.Exit()
		_ = r.bar.Clear()
		r.bar = nil
	}
}

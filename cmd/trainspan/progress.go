package main

import (
	"bufio"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/trainspan/trainspan/internal/infile"
)

// progress shows how far a command is, on a terminal only. A nil progress
// shows nothing.
type progress struct {
	bar  *progressbar.ProgressBar
	done int64 // bytes of files that are finished

	size, expect int64 // of the current file: bytes, and events by estimate
	events       int64
}

// startProgress returns the bar for a command that reads files.
func (a *app) startProgress(verb string, files []string) *progress {
	if a.noBar || !terminal(a.streams.err) {
		return nil
	}
	var total int64
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			total += info.Size()
		}
	}
	return &progress{bar: progressbar.NewOptions64(max(total, 1),
		progressbar.OptionSetWriter(a.streams.err), progressbar.OptionSetDescription(verb),
		progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish(),
		progressbar.OptionEnableColorCodes(false))}
}

// file begins the next file.
func (p *progress) file(path string, events int64) {
	if p == nil {
		return
	}
	p.size, p.events, p.expect = 0, 0, events
	if info, err := os.Stat(path); err == nil {
		p.size = info.Size()
	}
	if p.expect <= 0 {
		p.expect = guessEvents(path, p.size)
	}
}

// step counts one event.
func (p *progress) step() {
	if p == nil {
		return
	}
	if p.events++; p.events&0x3fff == 0 && p.expect > 0 {
		part := min(float64(p.events)/float64(p.expect), 1)
		_ = p.bar.Set64(p.done + int64(part*float64(p.size))) // a bar that cannot be drawn is no loss
	}
}

// bytes says how much of the current file was taken.
func (p *progress) bytes(n int64) {
	if p != nil {
		_ = p.bar.Set64(p.done + min(n, p.size))
	}
}

// endFile counts the current file as read.
func (p *progress) endFile() {
	if p == nil {
		return
	}
	p.done += p.size
	_ = p.bar.Set64(p.done)
}

// finish takes the bar off the screen.
func (p *progress) finish() {
	if p != nil {
		_ = p.bar.Finish()
	}
}

// guessEvents estimates the number of lines of a trace from its beginning.
func guessEvents(path string, size int64) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close() //nolint:errcheck // only read
	read := &meter{r: f}
	from := bufio.NewReader(read)
	text, err := infile.Text(from)
	if err != nil {
		return 0
	}
	buf := make([]byte, 64<<10)
	lines := int64(0)
	for range 32 {
		n, err := text.Read(buf)
		for _, c := range buf[:n] {
			if c == '\n' {
				lines++
			}
		}
		if err != nil {
			break
		}
	}
	took := read.n - int64(from.Buffered())
	if took == 0 {
		return 0
	}
	return lines * size / took
}

// meter counts what is read.
type meter struct {
	r io.Reader
	n int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.n += int64(n)
	return n, err
}

// startSpinner returns a bar for work of unknown length. Its finish stops it.
func (a *app) startSpinner(verb string) *spinner {
	if a.noBar || !terminal(a.streams.err) {
		return nil
	}
	s := &spinner{bar: progressbar.NewOptions64(-1, progressbar.OptionSetWriter(a.streams.err), progressbar.OptionSetDescription(verb),
		progressbar.OptionSpinnerType(14), progressbar.OptionClearOnFinish(), progressbar.OptionSetElapsedTime(true)),
		stop: make(chan struct{}), done: make(chan struct{})}
	go s.turn()
	return s
}

// spinner turns until it is finished. A nil spinner shows nothing.
type spinner struct {
	bar        *progressbar.ProgressBar
	stop, done chan struct{}
}

func (s *spinner) turn() {
	defer close(s.done)
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			_ = s.bar.Add(1)
		}
	}
}

func (s *spinner) finish() {
	if s == nil {
		return
	}
	close(s.stop)
	<-s.done
	_ = s.bar.Finish()
}

package ui

import (
	"bufio"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/trainspan/trainspan/internal/platform/fsread"
)

// Progress shows the progress of a command, on a terminal only. A nil Progress
// shows nothing.
type Progress struct {
	Bar  *progressbar.ProgressBar
	done int64 // bytes of finished files

	Size, Expect int64 // of the current file: bytes, and estimated events
	runEvents    int64
}

// StartProgress returns the progress bar for a command that reads files.
func (a *App) StartProgress(verb string, files []string) *Progress {
	if a.NoBar || !Terminal(a.Streams.Err) {
		return nil
	}
	var total int64
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			total += info.Size()
		}
	}
	return &Progress{Bar: progressbar.NewOptions64(max(total, 1),
		progressbar.OptionSetWriter(a.Streams.Err), progressbar.OptionSetDescription(verb),
		progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish(),
		progressbar.OptionEnableColorCodes(false))}
}

// File begins the next file.
func (p *Progress) File(path string, events int64) {
	if p == nil {
		return
	}
	p.Size, p.runEvents, p.Expect = 0, 0, events
	if info, err := os.Stat(path); err == nil {
		p.Size = info.Size()
	}
	if p.Expect <= 0 {
		p.Expect = guessEvents(path, p.Size)
	}
}

// Step counts one event.
func (p *Progress) Step() {
	if p == nil {
		return
	}
	if p.runEvents++; p.runEvents&0x3fff == 0 && p.Expect > 0 {
		part := min(float64(p.runEvents)/float64(p.Expect), 1)
		_ = p.Bar.Set64(p.done + int64(part*float64(p.Size))) // an error does not matter
	}
}

// Bytes sets the number of bytes that were read from the current file.
func (p *Progress) Bytes(n int64) {
	if p != nil {
		_ = p.Bar.Set64(p.done + min(n, p.Size))
	}
}

// EndFile counts the current file as read.
func (p *Progress) EndFile() {
	if p == nil {
		return
	}
	p.done += p.Size
	_ = p.Bar.Set64(p.done)
}

// Finish clears the bar.
func (p *Progress) Finish() {
	if p != nil {
		_ = p.Bar.Finish()
	}
}

// guessEvents estimates the number of lines of a trace from its beginning.
func guessEvents(path string, size int64) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close() //nolint:errcheck // only read
	read := &fsread.Counter{R: f}
	from := bufio.NewReader(read)
	text, err := fsread.Text(from)
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
	took := read.N - int64(from.Buffered())
	if took == 0 {
		return 0
	}
	return lines * size / took
}

// StartSpinner returns a spinner for work of unknown length. Call its Finish.
func (a *App) StartSpinner(verb string) *Spinner {
	if a.NoBar || !Terminal(a.Streams.Err) {
		return nil
	}
	s := &Spinner{bar: progressbar.NewOptions64(-1, progressbar.OptionSetWriter(a.Streams.Err), progressbar.OptionSetDescription(verb),
		progressbar.OptionSpinnerType(14), progressbar.OptionClearOnFinish(), progressbar.OptionSetElapsedTime(true)),
		stop: make(chan struct{}), done: make(chan struct{})}
	go s.turn()
	return s
}

// Spinner turns until it is finished. A nil Spinner shows nothing.
type Spinner struct {
	bar        *progressbar.ProgressBar
	stop, done chan struct{}
}

func (s *Spinner) turn() {
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

// Finish stops the spinner and clears its line.
func (s *Spinner) Finish() {
	if s == nil {
		return
	}
	close(s.stop)
	<-s.done
	_ = s.bar.Finish()
}

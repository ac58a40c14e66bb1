// Package servers builds and runs the real servers for the tests.
//
// A server listens only on 127.0.0.1, on free ports, and belongs to the process
// that started it: the process stops it by its process id.
package servers

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Process is a running program. Its methods are safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	log  *tail
	done chan struct{}
}

// start runs a program, with variables added to the environment, until it is
// stopped or ctx is done.
func start(ctx context.Context, env []string, path string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.CommandContext(ctx, path, args...), log: &tail{}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.Env = append(os.Environ(), env...)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("servers: start %s: %w", path, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // a killed program always returns an error
	}()
	return p, nil
}

// Kill ends the program at once, as a crash would, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// Stop asks the program to end, and kills it after five seconds.
func (p *Process) Stop() {
	if err := p.cmd.Process.Signal(os.Interrupt); err == nil {
		select {
		case <-p.done:
			return
		case <-time.After(5 * time.Second):
		}
	}
	p.Kill()
}

// over reports whether the program has ended.
func (p *Process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// used returns the CPU time and memory of an ended program.
func (p *Process) used() (cpu time.Duration, memory int64) {
	s := p.cmd.ProcessState
	if s == nil {
		return 0, 0
	}
	return s.UserTime() + s.SystemTime(), mostMemory(s)
}

// Log returns the end of the program's output.
func (p *Process) Log() string { return p.log.String() }

// ready waits until check succeeds.
func (p *Process) ready(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("servers: ended early: %s", p.Log())
		case <-ctx.Done():
			return fmt.Errorf("servers: not ready: %w: %s", err, p.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	const most = 16 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(b)
	if over := t.text.Len() - most; over > 0 {
		t.text.Next(over)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// FreeAddress returns an address of 127.0.0.1 with a port that is free now.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// accepts checks that a server listens.
func accepts(ctx context.Context, address string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}

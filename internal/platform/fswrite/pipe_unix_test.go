//go:build unix

package fswrite_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOpenPipeWithoutReader checks that opening a pipe without a reader ends
// with the context.
func TestOpenPipeWithoutReader(t *testing.T) {
	for name, when := range map[string]func(cancel func()){
		"before":         func(cancel func()) { cancel() },
		"while it waits": func(cancel func()) { go cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			path := pipe(t)
			when(cancel)
			if f, err := fswrite.OpenPipe(ctx, path); !errors.Is(err, context.Canceled) || f != nil {
				t.Errorf("OpenPipe() = %v, %v; want %v", f, err, context.Canceled)
			}
		})
	}
}

// TestOpenPipeWithReader checks that a reader that comes later gets everything,
// and that one that reads nothing blocks no caller after the context has ended.
func TestOpenPipeWithReader(t *testing.T) {
	path := pipe(t)
	text := make(chan string)
	go func() {
		data, _ := os.ReadFile(path)
		text <- string(data)
	}()
	f, err := fswrite.OpenPipe(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(second(io.WriteString(f, "all of it")), f.Close()); err != nil {
		t.Fatal(err)
	}
	if got := <-text; got != "all of it" {
		t.Errorf("read %q, want \"all of it\"", got)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close() //nolint:errcheck // only read
	ctx, cancel := context.WithCancel(context.Background())
	if f, err = fswrite.OpenPipe(ctx, path); err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it failed
	go cancel()
	if _, err := f.Write(make([]byte, 1<<22)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write() = %v, want %v", err, os.ErrDeadlineExceeded)
	}
}

// TestOpenAppendToPipe checks that a log without a reader blocks no caller.
func TestOpenAppendToPipe(t *testing.T) {
	f, err := fswrite.OpenAppend(pipe(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(second(io.WriteString(f, "a line\n")), f.Close()); err != nil {
		t.Error(err)
	}
}

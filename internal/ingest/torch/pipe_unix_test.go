//go:build unix

package torch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/torch"
)

func TestNamedPipeDoesNotHang(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.json")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	srcs, err := torch.Files(path)
	if err != nil || len(srcs) != 1 {
		t.Fatal(err)
	}
	if _, err := torch.Import(t.Context(), nil, srcs, nil); err == nil {
		t.Error("an empty pipe was imported, want an error")
	}
	// The context ends the import of a pipe whose writer never finishes. A pipe
	// holds less than this: everything is written when most of it was read.
	w, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := torch.Import(ctx, nil, srcs, nil)
		ended <- err
	}()
	if _, err := w.Write(append(small(0)[:20], strings.Repeat(" ", 1<<20)...)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

//go:build unix

package pytorch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/integrations/pytorch"
)

func TestNamedPipeDoesNotHang(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.json")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	srcs, err := pytorch.Files(path)
	if err != nil || len(srcs) != 1 {
		t.Fatal(err)
	}
	if _, err := pytorch.Import(t.Context(), nil, srcs, nil); err == nil {
		t.Error("an empty pipe is a trace")
	}
	// A writer that never comes to an end is given up with the context.
	w, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Write(small(0)[:100]); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := pytorch.Import(ctx, nil, srcs, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

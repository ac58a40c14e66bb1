//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
)

// TestRecoverToNoFile checks that recover neither writes to nor replaces a pipe
// or a device.
func TestRecoverToNoFile(t *testing.T) {
	dir := t.TempDir()
	trace, pipe := filepath.Join(dir, "a.pfw"), filepath.Join(dir, "pipe")
	largeTrace(t, trace)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, force := range [][]string{nil, {"--force"}} {
		status, _, problems := call(append([]string{"trace", "recover", trace, "-o", pipe}, force...)...)
		info, err := os.Lstat(pipe)
		if err != nil || info.Mode()&os.ModeNamedPipe == 0 || status != ui.StatusUse || !strings.Contains(problems, "regular file") {
			t.Errorf(`recover to a pipe: %v, status %d, stderr %q; want the pipe left, status %d and "regular file"`, err, status, problems, ui.StatusUse)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"go.uber.org/goleak"
)

// lockedBuffer is a buffer that a test reads while a command writes to it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestWatchEndsWithACompleteTrace checks that a watch ends on an interrupt with
// status 0 and a complete trace.
func TestWatchEndsWithACompleteTrace(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir, trace := t.TempDir(), filepath.Join(t.TempDir(), "live.pfw.gz")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out, errs lockedBuffer
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"trace", "watch", dir, "-o", trace, "--interval", "5ms"}, ui.Streams{Out: &out, Err: &errs})
	}()
	if err := os.WriteFile(filepath.Join(dir, "rank0.1778000000000000000.pt.trace.json"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	until.Nil(t, func() error {
		if strings.Contains(out.String(), "events") {
			return nil
		}
		return fmt.Errorf("nothing was imported: %s", errs.String())
	})
	cancel()
	if status := <-done; status != 0 {
		t.Errorf("status %d, want 0: %s", status, errs.String())
	}
	if got := want(t, "trace", "validate", trace); !strings.Contains(got, "ok, V2") {
		t.Errorf(`trace validate prints %s, want "ok, V2"`, got)
	}
	if got := want(t, "trace", "summary", trace); !strings.Contains(got, "aten::add") {
		t.Errorf("trace summary prints %s, want aten::add", got)
	}
}

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
)

// TestTracesBelowARunningJob checks that temporary folders of a running job
// have no trace and are ignored.
func TestTracesBelowARunningJob(t *testing.T) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "t.pfw")
	if err := os.WriteFile(trace, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var job sync.WaitGroup
	job.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			folder := filepath.Join(dir, fmt.Sprint(".start-", n))
			if err := errors.Join(os.Mkdir(folder, 0o700), os.Remove(folder)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 20000 {
		if found, err := read.Expand(t.Context(), []string{dir}); err != nil || !slices.Equal(found, []string{trace}) {
			t.Errorf("Expand(%s) = %v, %v, want only %s", dir, found, err, trace)
			break
		}
	}
	close(stop)
	job.Wait()
}

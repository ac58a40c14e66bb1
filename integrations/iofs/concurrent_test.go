package iofs_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/integrations/iofs"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// TestConcurrentCalls checks that calls of many goroutines, below spans that
// end meanwhile and with a shutdown in the middle, give a complete trace with
// all calls before the shutdown.
func TestConcurrentCalls(t *testing.T) {
	for _, aggregate := range []bool{false, true} {
		t.Run(fmt.Sprintf("aggregate=%v", aggregate), func(t *testing.T) {
			j := newJob(t, pfw.FileOptions{Aggregate: aggregate})
			files := iofs.New(j.tel)
			text := strings.Repeat("x", 1000)
			var before atomic.Int64 // number of calls that ended before the shutdown
			var wg, half sync.WaitGroup
			stop := make(chan struct{})
			for g := range 8 {
				half.Add(1)
				wg.Go(func() {
					buf := make([]byte, 8)
					for i := 0; ; i++ {
						ctx, s := j.tel.StartSpan(context.Background(), "work")
						at := files.With(ctx).ReaderAt(strings.NewReader(text), fmt.Sprintf("/data/%d", (g+i)%5))
						for range 10 {
							if _, err := at.ReadAt(buf, 10); err != nil {
								t.Error(err)
							}
						}
						s.End()
						_, _ = at.ReadAt(buf, 20) // after its span
						if i == 20 {
							before.Add(21 * 11)
							half.Done()
						}
						select {
						case <-stop:
							return
						default:
						}
					}
				})
			}
			half.Wait()
			if err := j.tel.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			close(stop)
			wg.Wait()
			dftest.Check(t, j.path)
			var n int64
			for _, e := range j.events() {
				if e.Name != "pread" {
					t.Errorf("an event %s, want \"pread\"", e.Name)
				}
				if a, ok := e.Arg(tracefile.ArgCalls); ok {
					n += a.Int64()
				} else {
					n++
				}
			}
			if n < before.Load() {
				t.Errorf("%d calls, want %d and more", n, before.Load())
			}
		})
	}
}

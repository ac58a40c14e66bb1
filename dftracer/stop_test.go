package dftracer_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

// After fn has returned an error it is not called again.
func TestScanEndsWithTheErrorOfFn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	text := stepsText(t, 1000)
	var all []byte
	for range 8 {
		all = append(all, gziptest.Pack(text)...)
	}
	writeFile(t, path, string(all))
	enough := errors.New("enough")
	for range 20 {
		n := 0
		_, err := dftracer.Scan(path, &dftracer.ReaderOptions{Workers: 4}, func(*dftracer.Event) error {
			if n++; n >= 700 {
				return enough
			}
			return nil
		})
		if n != 700 || !errors.Is(err, enough) {
			t.Fatalf("fn was called %d times, Scan returned %v; want 700, its error", n, err)
		}
	}
}

package dftracer_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
)

// The first bad lines are bounded, also those that cross two pieces.
func TestScanKeepsTheFirstBadLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw")
	const lines, length = 150, 1 << 20 // most lines cross pieces
	text := bytes.Repeat(append(bytes.Repeat([]byte("x"), length), '\n'), lines)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := dftracer.Scan(path, nil, func(*dftracer.Event) error { return nil })
	if err != nil || st.Bad != lines || len(st.First) != 100 {
		t.Errorf("Scan: %d bad lines, %d of them kept, %v; want %d, 100", st.Bad, len(st.First), err, lines)
	}
}

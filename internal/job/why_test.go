package job_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
)

// TestSkippedFilesAreReported checks that each file that is left out is
// reported with what was found in it, and that the error has it if there is
// nothing else.
func TestSkippedFilesAreReported(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.pfw.gz": "Dear diary", "b": "PK\x03\x04", "c": "", "d": `{"schemaVersion":1}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := job.Open(dir)
	if !errors.Is(err, job.ErrNoTelemetry) || !strings.HasSuffix(err.Error(), `not gzip: it begins with "Dear diary"; and 3 more files were skipped`) {
		t.Errorf("it says %v", err)
	}
	for i, want := range []string{`not gzip: it begins with "Dear diary"`, "a zip archive", "the file is empty", "a PyTorch profile or Chrome trace (trainspan trace import reads it)"} {
		if got := set.Skipped[i]; !errors.Is(got, job.ErrForeign) || !strings.HasSuffix(got.Error(), ": "+want) {
			t.Errorf("it says %v, want %s", got, want)
		}
	}
}

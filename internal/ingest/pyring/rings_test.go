package pyring_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/platform/fsread"
)

// TestRings checks that a ring that several paths stand for is found once, also through
// a link to its folder.
func TestRings(t *testing.T) {
	dir := t.TempDir()
	first, second, link := filepath.Join(dir, "rings", "py-1-1.ring"), filepath.Join(dir, "rings", "py-2-1.ring"), filepath.Join(dir, "latest")
	if err := os.Mkdir(filepath.Dir(first), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{first, second} {
		if err := os.WriteFile(path, []byte(fsread.RingMagic), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("rings", link); err != nil {
		t.Skip(err)
	}
	if got, err := pyring.Rings(second, dir, filepath.Dir(first), link); err != nil || !slices.Equal(got, []string{second, first}) {
		t.Errorf("Rings() = %q, %v; want each once, the named one first", got, err)
	}
	if got, err := pyring.Rings(link); err != nil || len(got) != 2 || got[0] != filepath.Join(link, filepath.Base(first)) {
		t.Errorf("Rings() = %q, %v; want both in the folder of the link", got, err)
	}
}

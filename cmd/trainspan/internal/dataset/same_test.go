package dataset_test

import (
	"os"
	"path/filepath"
	"testing"
)

// filesOf returns the contents of the files below a folder.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSameFiles checks that the same traces give the same files, with a new or
// a reused writer.
func TestSameFiles(t *testing.T) {
	traces := t.TempDir()
	for rank := range 80 {
		writeRank(t, traces, rank, 300, int64(1_700_000_000_000_000)+int64(rank%3)*3_600_000_000)
	}
	first, _ := convert(t, 0, traces)
	want := filesOf(t, first)
	for range 2 {
		again, _ := convert(t, 0, traces)
		got := filesOf(t, again)
		if len(got) != len(want) {
			t.Errorf("conversion gave %d files, want %d as before", len(got), len(want))
		}
		for name, text := range want {
			if got[name] != text {
				t.Errorf("%s: %d bytes, want the same %d bytes as before", name, len(got[name]), len(text))
			}
		}
	}
}

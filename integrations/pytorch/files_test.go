package pytorch_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/trainspan/trainspan/integrations/pytorch"
)

// In a directory, traces are known by their names and compile logs by what
// they hold.
func TestFilesOfADirectory(t *testing.T) {
	dir := t.TempDir()
	const log = "V0822 14:00:48.902000 1543231 torch/_dynamo/utils.py:1288] {\"str\": [\"a.py\", 0]}\n"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(log))
	_ = z.Close()
	for name, text := range map[string]string{
		"rank0.pt.trace.json": "{}", "ranks.tar": "", "simple.log.gz": packed.String(), "renamed.log": log,
		"server.log": "I0822 14:00:48.902000 1 main.go:1] started\n", "notes.txt": "", ".hidden.json": "{}",
		"broken.log.gz": "x",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sources, err := pytorch.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range sources {
		got = append(got, filepath.Base(s.Name))
	}
	if want := []string{"rank0.pt.trace.json", "ranks.tar", "renamed.log", "simple.log.gz"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

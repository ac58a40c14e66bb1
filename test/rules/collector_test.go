package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCollectorParts checks that the Collector's distribution is generated in
// the folder in which tools/collector compiles it, and uses the modules of this
// repository.
func TestCollectorParts(t *testing.T) {
	const at = "../../integrations/collector"
	text, err := os.ReadFile(filepath.Join(at, "builder.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\s*output_path: (\S+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("builder.yaml has no output_path")
	}
	out := filepath.Join(at, string(found[1]))
	if want := filepath.Join("..", "..", "out", "collector"); out != want {
		t.Errorf("output_path is %s, want %s", out, want)
	}
	replaced := regexp.MustCompile(`(?m)^\s*- (\S+) => (\S+)$`).FindAllSubmatch(text, -1)
	if len(replaced) != 2 {
		t.Errorf("%d modules are replaced, want 2", len(replaced))
	}
	for _, r := range replaced {
		module, path := string(r[1]), filepath.Join(out, string(r[2]), "go.mod")
		mod, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if got, _, _ := strings.Cut(strings.TrimPrefix(string(mod), "module "), "\n"); got != module {
			t.Errorf("%s is of module %s, want %s", path, got, module)
		}
	}
}

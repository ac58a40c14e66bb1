package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestContainerFiles checks the container files, which tests cannot build: the
// files that they copy and build exist, the configurations that they start with
// exist, and the version is stamped into a variable of the command.
func TestContainerFiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "tools", "packaging", "Containerfile*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files %v, %v; want two", files, err)
	}
	known := regexp.MustCompile(`^(FROM|WORKDIR|COPY|ARG|RUN|USER|ENTRYPOINT|CMD|ENV) `)
	made := map[string]bool{"/tmp": true, "/etc/ssl/certs/ca-certificates.crt": true, "/trainspan": true, "/src/bin/trainspan-collector": true}
	for _, path := range files {
		text := textOf(t, path)
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if !known.MatchString(line) {
				t.Errorf("%s: not an instruction: %s", path, line)
			}
			words := strings.Fields(line)
			if words[0] == "COPY" && strings.HasPrefix(words[1], "--from=build") && !made[words[len(words)-2]] {
				at := strings.TrimPrefix(words[len(words)-2], "/src/")
				if _, err := os.Stat(filepath.Join(root, at)); err != nil {
					t.Errorf("%s: %s", path, err)
				}
			}
		}
		for _, at := range regexp.MustCompile(`/etc/trainspan/(\S+\.yaml)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, "integrations", "collector", "config", at[1])); err != nil {
				t.Errorf("%s: %s", path, err)
			}
		}
	}
	stamp := regexp.MustCompile(`-X main\.(\w+)=`)
	m := stamp.FindStringSubmatch(textOf(t, filepath.Join(root, "tools", "release")))
	if m == nil || !strings.Contains(textOf(t, filepath.Join(root, "cmd", "trainspan", "root.go")), "var "+m[1]+" string") {
		t.Errorf("tools/release sets no variable of the command: %v", m)
	}
}

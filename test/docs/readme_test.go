// Package docs keeps the code in the documents equal to the examples, which are
// compiled and tested. Run with -update to copy it.
package docs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "copy the snippets into the documents")

const root = "../.."

var snippet = regexp.MustCompile("(?s)<!-- snippet: (\\S+) (\\S+) -->\n```go\n(.*?)```")

func TestSnippets(t *testing.T) {
	n := 0
	for _, p := range pages(t) {
		fresh := snippet.ReplaceAllStringFunc(p.text, func(block string) string {
			n++
			m := snippet.FindStringSubmatch(block)
			code, err := region(filepath.Join(root, m[1]), m[2])
			if err != nil {
				t.Errorf("%s: %v", p.name, err)
				return block
			}
			if m[3] != code && !*update {
				t.Errorf("the snippet %s of %s differs from %s: run go test ./test/docs -update", m[2], m[1], p.name)
			}
			return fmt.Sprintf("<!-- snippet: %s %s -->\n```go\n%s```", m[1], m[2], code)
		})
		if *update && fresh != p.text {
			if err := os.WriteFile(filepath.Join(root, p.name), []byte(fresh), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n < 6 {
		t.Errorf("%d snippets in the documents, want 6 and more", n)
	}
}

// region returns the marked part of a source file, without its indentation;
// "main" is the body of the main function, "file" everything from its package
// clause on.
func region(path, name string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	from, to := "// snippet:"+name+"\n", "// end:"+name
	if name == "file" {
		if i := strings.Index(string(text), "package "); i >= 0 {
			return string(text[i:]), nil
		}
	}
	if name == "main" {
		from, to = "func main() {\n", "\n}"
	}
	_, rest, ok := strings.Cut(string(text), from)
	body, _, ended := strings.Cut(rest, to)
	if !ok || !ended {
		return "", fmt.Errorf("%s has no snippet %s", path, name)
	}
	if i := strings.LastIndexByte(body, '\n'); name != "main" && i >= 0 {
		body = body[:i]
	}
	lines := strings.Split(strings.TrimRight(body, "\n\t"), "\n")
	indent := lines[0][:len(lines[0])-len(strings.TrimLeft(lines[0], "\t"))]
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], indent)
	}
	return strings.Join(lines, "\n") + "\n", nil
}

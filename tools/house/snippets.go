package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	fence    = regexp.MustCompile("(?ms)^```go\n(.*?)\n```")
	selector = regexp.MustCompile(`\b(\w+)\.([A-Z]\w*)`)
	method   = regexp.MustCompile(`[\w)\]]\.([A-Z]\w*)\(`)
)

// snippets takes what the Go code in the documents uses: names after the name of a
// package, and methods of the types of packages that the same page names.
func (u usage) snippets(root string, public []*facts) error {
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		return err
	}
	pages = append(pages, filepath.Join(root, "README.md"))
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		var code strings.Builder
		for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
			code.WriteString(block[1])
		}
		named, called := make(map[string]map[string]bool), make(map[string]bool)
		for _, m := range selector.FindAllStringSubmatch(code.String(), -1) {
			if named[m[1]] == nil {
				named[m[1]] = make(map[string]bool)
			}
			named[m[1]][m[2]] = true
		}
		for _, m := range method.FindAllStringSubmatch(code.String(), -1) {
			called[m[1]] = true
		}
		for _, f := range public {
			names := named[f.pkg.Name]
			for _, n := range f.names {
				if names[n.key] || n.recv != nil && names != nil && called[n.obj.Name()] {
					u.add(id(n.obj), byUser)
				}
			}
		}
	}
	return nil
}

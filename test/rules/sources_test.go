// Package rules checks conventions of the source that no linter knows: who may
// write files, which package owns which words, and that tests wait for
// conditions.
package rules

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// source is a Go file of the repository.
type source struct {
	path string // from the root
	fset *token.FileSet
	file *ast.File
}

// sources returns the Go files of the git repository that a test checks. It
// fails if there are suspiciously few, and skips the test outside of a
// checkout.
func sources(t *testing.T, about func(path string) bool) iter.Seq[source] {
	t.Helper()
	const root = "../.."
	out, err := exec.Command("git", "-C", root, "ls-files", "*.go").Output()
	if err != nil {
		t.Skipf("no checkout: %v", err)
	}
	return func(yield func(source) bool) {
		n := 0
		for path := range strings.FieldsSeq(string(out)) {
			if !about(path) {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(root, path), nil, parser.ParseComments|parser.SkipObjectResolution)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it is deleted in the work tree
			}
			if err != nil {
				t.Fatal(err)
			}
			if n++; !yield(source{path, fset, file}) {
				return
			}
		}
		if n < 200 {
			t.Errorf("only %d files were read, want at least 200", n)
		}
	}
}

// product reports whether a file is part of the shipped code.
func product(path string) bool {
	return !strings.HasSuffix(path, "_test.go") && (!below(path, []string{"integrations/collector"}) || below(path, []string{"integrations/collector/dftracerexporter"})) &&
		!below(path, []string{"examples", "integrations/gomlx", "internal/testkit", "test", "tools"})
}

// below reports whether path is one of folders, or in one of them.
func below(path string, folders []string) bool {
	for _, f := range folders {
		if path == f || strings.HasPrefix(path, f+"/") {
			return true
		}
	}
	return false
}

package rules

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

// TestPublicPackagesHaveExamples checks that each package with functions for
// other programs has an Example.
func TestPublicPackagesHaveExamples(t *testing.T) {
	calls, examples := map[string]bool{}, map[string]bool{} // folders of packages
	for s := range sources(t, func(p string) bool {
		return !strings.Contains("/"+p, "/internal/") && !below(p, []string{"cmd", "examples", "integrations/gomlx", "test", "tools"})
	}) {
		dir := path.Dir(s.path)
		test := strings.HasSuffix(s.path, "_test.go")
		if s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				calls[dir] = calls[dir] || !test && fn.Name.IsExported()
				examples[dir] = examples[dir] || test && strings.HasPrefix(fn.Name.Name, "Example")
			}
		}
	}
	for dir, called := range calls {
		if called && !examples[dir] {
			t.Errorf("%s has no Example", dir)
		}
	}
	if len(calls) < 12 {
		t.Errorf("read %d packages, want at least 12", len(calls))
	}
}

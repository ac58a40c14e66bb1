package arch

import (
	"bytes"
	"go/ast"
	"os/exec"
	"path"
	"strings"
	"testing"
)

// most is how many lines go doc may print of a public package: two screens.
const most = 100

// TestPublicPackages checks that each package that programs of others call has an
// Example, and a documentation that is read in a minute.
func TestPublicPackages(t *testing.T) {
	calls, examples := map[string]bool{}, map[string]bool{} // folders of packages
	for s := range sources(t, func(p string) bool {
		return !strings.Contains("/"+p, "/internal/") && !below(p, []string{"cmd", "examples", "benchmarks", "e2e", "release", "tools", "report/browser"})
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
	for dir := range calls {
		if !calls[dir] {
			continue
		}
		if !examples[dir] {
			t.Errorf("%s has no Example", dir)
		}
		cmd := exec.Command("go", "doc", ".")
		cmd.Dir = path.Join("../..", dir)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("go doc of %s: %v", dir, err)
		}
		if n := bytes.Count(out, []byte("\n")); n > most {
			t.Errorf("go doc of %s has %d lines, at most %d are wanted", dir, n, most)
		}
	}
	if len(calls) < 20 {
		t.Errorf("only %d packages were looked at", len(calls))
	}
}

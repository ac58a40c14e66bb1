package rules

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// TestSleepsSayWhy checks that tests wait for conditions
// (internal/testkit/until), or sleep on the clock of a bubble
// (testing/synctest). Any other sleep needs a comment with the reason on its
// line.
func TestSleepsSayWhy(t *testing.T) {
	n := 0
	for src := range sources(t, func(path string) bool { return strings.HasSuffix(path, "_test.go") }) {
		said := map[int]bool{} // lines with a comment
		for _, group := range src.file.Comments {
			for _, c := range group.List {
				said[src.fset.Position(c.Pos()).Line] = true
			}
		}
		for _, decl := range src.file.Decls {
			var sleeps []token.Pos
			bubble := false
			ast.Inspect(decl, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok {
					switch {
					case called(call, "time", "Sleep"):
						sleeps = append(sleeps, call.Pos())
					case called(call, "synctest", "Test"):
						bubble = true
					}
				}
				return true
			})
			for _, pos := range sleeps {
				n++
				if at := src.fset.Position(pos); !bubble && !said[at.Line] {
					t.Errorf("%s:%d sleeps without a reason: wait for a condition (internal/testkit/until), use testing/synctest, or write why", src.path, at.Line)
				}
			}
		}
	}
	if n == 0 {
		t.Error("no test sleeps")
	}
}

func called(call *ast.CallExpr, pkg, name string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg
}

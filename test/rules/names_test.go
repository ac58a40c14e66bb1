package rules

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/spans"
)

// namers has the files besides package vocab that may compare spans with
// literal names, and why.
var namers = map[string]string{
	"internal/ingest/torch": "the names in profiles of PyTorch, before they are spans",
}

// TestOnlyVocabKnowsNames checks that product code does not compare the name or
// category of a span with a literal, switch on one, or use one as the key of a
// map: package vocab decides what a name means, so that all code agrees. A word
// that is only a name of spans counts everywhere; other words, such as step,
// count if the other operand is called a name or a category.
func TestOnlyVocabKnowsNames(t *testing.T) {
	words := make(map[string]bool) // true for words that are only names of spans
	for _, info := range spans.All() {
		for _, w := range []string{info.Name, info.Event, info.Category} {
			words[w] = strings.ContainsAny(w, "._")
		}
	}
	for _, w := range []string{"fetch", "loop.iter", "fetch.block", "fetch.yield", "iteration", "ProfilerStep", "device", "transfer", "all_reduce", "preprocess", "item", "data"} {
		words[w] = strings.ContainsAny(w, "._")
	}
	used := make(map[string]bool)
	about := func(path string) bool {
		return product(path) && !below(path, []string{"spans", "internal/tracefile/vocab", "internal/testkit/goldentrace", "internal/testkit/dftest"})
	}
	for src := range sources(t, about) {
		reason := ""
		for place := range namers {
			if below(src.path, []string{place}) {
				reason = place
			}
		}
		check := func(e ast.Expr, named bool) {
			lit, ok := e.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return
			}
			word, _ := strconv.Unquote(lit.Value)
			if only, ok := words[word]; !ok || !only && !named {
				return
			}
			if used[reason] = true; reason == "" {
				t.Errorf("%s: %s: ask package vocab what a name means", src.fset.Position(e.Pos()), lit.Value)
			}
		}
		ast.Inspect(src.file, func(node ast.Node) bool {
			switch x := node.(type) {
			case *ast.BinaryExpr:
				if x.Op == token.EQL || x.Op == token.NEQ {
					check(x.X, isName(x.Y))
					check(x.Y, isName(x.X))
				}
			case *ast.SwitchStmt:
				for _, s := range x.Body.List {
					for _, e := range s.(*ast.CaseClause).List {
						check(e, x.Tag != nil && isName(x.Tag))
					}
				}
			case *ast.CallExpr:
				if s, ok := x.Fun.(*ast.SelectorExpr); ok && len(x.Args) == 2 && (s.Sel.Name == "HasPrefix" || s.Sel.Name == "HasSuffix" || s.Sel.Name == "CutPrefix" || s.Sel.Name == "EqualFold") {
					check(x.Args[1], isName(x.Args[0]))
				}
			case *ast.CompositeLit:
				if _, ok := x.Type.(*ast.MapType); ok {
					for _, e := range x.Elts {
						if kv, ok := e.(*ast.KeyValueExpr); ok {
							check(kv.Key, false)
						}
					}
				}
			}
			return true
		})
	}
	for place := range namers {
		if !used[place] {
			t.Errorf("%s compares no names: it needs no exception", place)
		}
	}
}

// isName reports whether an expression is called a name or a category.
func isName(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.SelectorExpr:
		return namedSo(x.Sel.Name)
	case *ast.CallExpr:
		return isName(x.Fun)
	case *ast.Ident:
		return namedSo(x.Name)
	}
	return false
}

func namedSo(s string) bool {
	switch strings.ToLower(s) {
	case "name", "cat", "category", "event":
		return true
	}
	return false
}

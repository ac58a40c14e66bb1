package rules

import (
	"go/ast"
	"testing"
)

// writers are the calls that create, replace, truncate or delete files.
var writers = map[string]bool{
	"os.Create": true, "os.WriteFile": true, "os.Rename": true, "os.Truncate": true, "os.Remove": true, "os.RemoveAll": true, "os.Link": true,
	"os.Symlink": true, "os.MkdirTemp": true, "os.CreateTemp": true, "os.CopyFS": true,
}

// allowed has the files besides internal/platform/fswrite that may call them,
// and why.
var allowed = map[string]string{
	"internal/platform/extsort":               "a temporary file loses its name when it is made, before anything is in it",
	"integrations/iofs":                       "does what the program asks for, with the program's own files",
	"exporters/otlp/spill.go":                 "cuts half a line off the file that it has made, locks and holds open",
	"internal/ingest/otlpreceiver/journal.go": "empties and cuts files that it has made, locks and holds open",
}

// TestOnlyFswriteWritesFiles checks that product code creates, replaces and
// deletes files only with internal/platform/fswrite, which protects foreign
// files.
func TestOnlyFswriteWritesFiles(t *testing.T) {
	used := map[string]bool{}
	about := func(path string) bool { return product(path) && !below(path, []string{"internal/platform/fswrite"}) }
	for src := range sources(t, about) {
		reason := ""
		for place := range allowed {
			if below(src.path, []string{place}) {
				reason = place
			}
		}
		ast.Inspect(src.file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			what := writes(call)
			if what == "" {
				return true
			}
			if used[reason] = true; reason == "" {
				t.Errorf("%s: %s, which only internal/platform/fswrite may call", src.fset.Position(call.Pos()), what)
			}
			return true
		})
	}
	for place := range allowed {
		if !used[place] {
			t.Errorf("%s writes no file: it needs no exception", place)
		}
	}
}

// writes returns the name of a call that may write, empty for others. Truncate
// counts except for times and durations, whose arguments have another type.
func writes(call *ast.CallExpr) string {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := s.X.(*ast.Ident); ok && x.Name == "os" {
		name := "os." + s.Sel.Name
		if writers[name] {
			return name
		}
		if name == "os.OpenFile" && len(call.Args) == 3 && makes(call.Args[1]) {
			return name + " that makes or empties files"
		}
		return ""
	}
	if s.Sel.Name == "Truncate" && len(call.Args) == 1 && !duration(call.Args[0]) {
		return "Truncate"
	}
	return ""
}

// makes reports whether flags create or truncate a file, by their names.
func makes(flags ast.Expr) (found bool) {
	ast.Inspect(flags, func(node ast.Node) bool {
		if id, ok := node.(*ast.Ident); ok && (id.Name == "O_CREATE" || id.Name == "O_CREAT" || id.Name == "O_TRUNC") {
			found = true
		}
		return true
	})
	return found
}

// duration reports whether an argument is a value of package time, as in
// t.Truncate(time.Second) and t.Truncate(24 * time.Hour).
func duration(arg ast.Expr) (found bool) {
	ast.Inspect(arg, func(node ast.Node) bool {
		if id, ok := node.(*ast.Ident); ok && id.Name == "time" {
			found = true
		}
		return true
	})
	return found
}
